"""Sentences about the true gradient that every engine says. No torch."""

from __future__ import annotations

ON_REQUEST = (
    "The reference is the backward pass that the network declares, as asked for (reference='declared'): whether it is "
    "the gradient of the network was not checked, so nothing but Γ is measured against it."
)
NO_GRADIENTS = (
    "No gradient was measured, as asked for (gradients=False): no loss is backpropagated through this network."
)
NO_ALIGNMENT = "by design: no loss is backpropagated through this network (gradients=False)"
TWIN = "Pass reference= a plain copy of the network, of the same function, whose backward pass is its derivative."
KEEP = (
    "For spiking and quantised networks, reference='declared' keeps the declared backward pass, unchecked, for Γ alone."
)
WITHOUT = "gradients=False measures (a) and the accuracy alone."
