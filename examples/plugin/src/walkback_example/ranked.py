"""A panel: the published (a) and (b) decide, and so does (e); (c) is remarked on."""

from walkback import Member, Panel

RANKED = Panel(
    name="ranked",
    title="growth, gradient and rank",
    members=(
        Member("residual_growth"),
        Member("gradient_floor"),
        Member("effective_rank", required=True),
        Member("direction_drift", role="warns"),
    ),
    stops=("a", "b", "e"),
)
