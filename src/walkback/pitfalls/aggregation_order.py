"""5: the order of aggregation decides the number, and its sign."""

from __future__ import annotations

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row
from walkback.pitfalls.small_network import deep_draws, setup, small_network

DRAWS = 20
FEWEST = 4
"""In how many of them both signs must be found: chance alone brings about half of them."""


def reproduce() -> Reproduction:
    """The same cosines, aggregated in the orders that papers use."""
    from walkback.present.numbers import signed
    from walkback.protocol.alignment import aggregation_orders

    network = small_network("blocks")
    null = network.alignment.null
    assert null is not None
    drawn = [aggregation_orders(cosines) for cosines in deep_draws(network, DRAWS)]
    both = [orders for orders in drawn if min(orders.values()) < 0 < max(orders.values())]
    orders = (both or drawn)[0]
    low, high = min(orders.values()), max(orders.values())
    shown = tuple(Row(name, signed(value), "") for name, value in orders.items())
    spread = Row(
        "all of them",
        "any one",
        f"{signed(low)} … {signed(high)}",
        "four valid orders: −0.028 … +0.074; the sign flips",
    )
    return Reproduction(
        setup(network, ", its blocks frozen at random")
        + f" Frozen blocks never followed their feedback, so any draw of it is theirs: of {DRAWS}, {len(both)} give "
        "orders of both signs, and the first of these is shown.",
        (*shown, spread),
        (
            Claim(f"the orders disagree in sign under {FEWEST} draws or more of {DRAWS}", len(both) >= FEWEST),
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
