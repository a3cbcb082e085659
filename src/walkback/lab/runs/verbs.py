"""Commands on record in today's verbs: records of walkback 0.1 keep theirs, and a reader is shown what works now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOVED = {verb: verb for verb in ("train", "audit", "study", "evidence", "runs", "zoo", "data")} | {"check-zoo": "check"}
"""The verbs of walkback 0.1 that are the lab's now, and what they are called there."""
_OLD = re.compile(rf"walkback ({'|'.join(MOVED)})(?= |$)")


def todays(command: str) -> str:
    """A recorded command as it is given now: `walkback train …` is `walkback lab train …`."""
    return _OLD.sub(lambda found: f"walkback lab {MOVED[found[1]]}", command)


def with_todays_commands(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a run's file holds, with its commands as they are given now; the file stays as it is."""
    baseline = result.get("baseline")
    if isinstance(baseline, Mapping) and "command" in baseline:
        baseline = {**baseline, "command": todays(baseline["command"])}
    return {**result, "command": todays(result.get("command") or ""), "baseline": baseline}
