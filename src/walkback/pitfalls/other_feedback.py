"""4: alignment measured with feedback that the network was not trained with."""

from __future__ import annotations

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row
from walkback.pitfalls.small_network import setup, small_network

Z_OF_A_FINDING = 3.0
"""How many null deviations the trained feedback must lie above the null; chance passes this once in a thousand."""


def reproduce() -> Reproduction:
    """Γ with the feedback of the run, and with other draws of it."""
    from walkback.present.numbers import signed, written

    network = small_network()
    alignment = network.alignment
    null = alignment.null
    assert null is not None
    assert alignment.deep is not None
    return Reproduction(
        setup(network),
        (
            Row(
                "deep Γ: fresh feedback against the trained one",
                f"{signed(null.deep_mean)} ± {written(null.deep_sd)}",
                signed(alignment.deep),
                "+0.0043 ± 0.007 against +0.068",
            ),
            Row("null deviations above the null", "0", f"{null.deep_z:.1f}"),
        ),
        (
            Claim(
                f"the trained feedback lies more than {Z_OF_A_FINDING:g} deviations above the null",
                null.deep_z > Z_OF_A_FINDING,
            ),
            Claim("the null's mean is within two of its deviations of 0", abs(null.deep_mean) < 2 * null.deep_sd),
        ),
    )


PITFALL = Pitfall(
    number=4,
    title="alignment with feedback that was not trained with",
    explanation="A network adapts to its own random feedback and to no other. Evaluation code that draws the matrices "
    "again, from a seed that has moved on or because the checkpoint lacks them, measures the null and reports it as "
    "the method's alignment. It is a number near 0, and a number near 0 is what many expect.",
    lies="self.B = torch.randn(classes, width)",
    instead='self.register_buffer("B", torch.randn(classes, width))',
    question="Is the feedback saved with the weights, and is Γ shown beside its null under fresh draws?",
    avoided="Feedback is a buffer of the method and part of every checkpoint; Γ never stands without its null.",
    where="walkback.protocol.alignment:AlignmentMeter",
    reproduce=reproduce,
    published="Γ +0.068 with the trained B, +0.0043 ± 0.007 with fresh ones",
)
