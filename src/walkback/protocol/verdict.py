"""What verdicts come to: exit statuses, and kinds that seeds can agree on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from walkback.protocol.words import INCOMPLETE as INCOMPLETE
from walkback.protocol.words import NON_FINITE as NON_FINITE
from walkback.protocol.words import TRUSTWORTHY as TRUSTWORTHY
from walkback.protocol.words import WALK_BACK as WALK_BACK
from walkback.protocol.words import Outcome

EXIT_PASS, EXIT_FAIL, EXIT_ERROR, EXIT_INCOMPLETE, EXIT_INTERRUPTED = 0, 1, 2, 3, 130


def exit_status(outcomes: Iterable[Outcome]) -> int:
    """0 where all pass, 1 where one fails, 3 where none fails and something is incomplete."""
    seen = set(outcomes)
    return EXIT_FAIL if "fail" in seen else EXIT_INCOMPLETE if "incomplete" in seen else EXIT_PASS


def kind_of(words: str) -> str:
    """A verdict without its reasons: what seeds must agree on to be unanimous."""
    return re.split(r":|\(| on ", words)[0].strip()
