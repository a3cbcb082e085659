"""Lint for evaluation code: what `walkback lint` and the flake8 plugin look for, over Python's own `ast`.

Nothing here imports torch or runs the code it reads. A rule is one file in `rules/` and one row here, or comes with a
package, by an entry point with its code; it supplies a `Rule`, whose `check` yields the places that lie and the line to
write instead. Where a rule cannot be sure, it says nothing: a finding that is wrong costs more trust than one that is
missing.
"""

from walkback.lint.rule import Hit, Rule
from walkback.registry import Registry

RULES = Registry(
    "lint rule",
    {
        "WB001": "walkback.lint.rules.norm_axis:RULE",
        "WB002": "walkback.lint.rules.clamped_cosine:RULE",
        "WB003": "walkback.lint.rules.half_before_norm:RULE",
        "WB004": "walkback.lint.rules.nan_blind:RULE",
        "WB005": "walkback.lint.rules.plain_feedback:RULE",
        "WB006": "walkback.lint.rules.mean_over_layers:RULE",
        "WB007": "walkback.lint.rules.unsafe_load:RULE",
        "WB008": "walkback.lint.rules.cosine_with_itself:RULE",
        "WB009": "walkback.lint.rules.tiny_zeroed:RULE",
        "WB010": "walkback.lint.rules.own_backward:RULE",
        "WB011": "walkback.lint.rules.unshifted_labels:RULE",
        "WB012": "walkback.lint.rules.unpaired_test:RULE",
        "WB013": "walkback.lint.rules.best_seed:RULE",
    },
    group="lint_rules",
    check="walkback.lint.rule:check_rule",
)

__all__ = ["RULES", "Hit", "Rule"]
