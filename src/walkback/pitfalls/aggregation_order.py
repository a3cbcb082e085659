"""5: the order of aggregation decides the number, and its sign."""

from __future__ import annotations

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row
from walkback.pitfalls.small_network import setup, small_network


def reproduce() -> Reproduction:
    """The same cosines, aggregated in the orders that papers use."""
    from walkback.present.numbers import signed

    network = small_network("blocks")
    orders, null = network.alignment.orders, network.alignment.null
    assert null is not None
    low, high = min(orders.values()), max(orders.values())
    shown = tuple(Row(name, signed(value), "") for name, value in orders.items())
    spread = Row(
        "all of them",
        "any one",
        f"{signed(low)} … {signed(high)}",
        "four valid orders: −0.028 … +0.074; the sign flips",
    )
    return Reproduction(
        setup(network, ", its blocks frozen at random"),
        (*shown, spread),
        (
            Claim("the orders disagree in sign", low < 0 < high),
            Claim("they differ by more than three null deviations", high - low > 3 * null.deep_sd),
        ),
    )


PITFALL = Pitfall(
    number=5,
    title="mean or median, over samples or layers: the order decides",
    explanation="Γ per sample and site has to become one number. Mean or median over samples, then mean or median over "
    "sites, with or without the first: all are defensible, and on one network they differ in sign. A paper that names "
    "none of them cannot be compared with another.",
    lies="gamma = cosines.mean()",
    instead="gamma_per_site = cosines.mean(dim=1)   # and say so: mean over samples",
    question="Does the text say over what, in which order and with which statistic Γ was aggregated?",
    avoided="The report shows every site, and the range over all valid orders, with a note where the sign flips.",
    where="walkback.protocol.alignment:aggregation_orders",
    reproduce=reproduce,
    published="four valid orders: −0.028 … +0.074; the sign flips",
)
