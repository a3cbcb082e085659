"""Ways in which evaluation code lies: one file each, with the wrong number beside the right one.

A file supplies a `base.Pitfall`: what goes wrong, the line that lies and the one to write, a reproducer, and the place
in walkback that avoids it. `walkback pitfalls` and docs/CHECKLIST.md are made from these files alone. Importing them
imports no torch; a reproducer does.
"""

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row
from walkback.registry import Registry

PITFALLS = Registry(
    "pitfall",
    {
        "1": "walkback.pitfalls.norm_axis:PITFALL",
        "2": "walkback.pitfalls.clamped_cosine:PITFALL",
        "3": "walkback.pitfalls.half_underflow:PITFALL",
        "4": "walkback.pitfalls.other_feedback:PITFALL",
        "5": "walkback.pitfalls.aggregation_order:PITFALL",
        "6": "walkback.pitfalls.mean_over_sites:PITFALL",
        "7": "walkback.pitfalls.lost_feedback:PITFALL",
        "8": "walkback.pitfalls.batch_size:PITFALL",
        "9": "walkback.pitfalls.nan_passes:PITFALL",
        "10": "walkback.pitfalls.typed_numbers:PITFALL",
        "11": "walkback.pitfalls.own_backward:PITFALL",
        "12": "walkback.pitfalls.shifted_labels:PITFALL",
        "13": "walkback.pitfalls.one_block:PITFALL",
        "14": "walkback.pitfalls.unpaired_test:PITFALL",
        "15": "walkback.pitfalls.best_seed:PITFALL",
    },
    group="pitfalls",
    check="walkback.pitfalls.base:check_pitfall",
)

__all__ = ["PITFALLS", "Claim", "Pitfall", "Reproduction", "Row"]
