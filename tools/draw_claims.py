"""Draws the claims that are computed a second time, by tests/lab/evidence/test_second_computation.py.

python tools/draw_claims.py            # writes tests/lab/evidence/drawn_claims.json

The seed is the number of the paper on arXiv, so that nobody chose it. The test draws again, and finds the same.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

SEED = 260621126
CLAIMS = [f"C{number:02d}" for number in range(1, 44)]
DRAWN = 10
FILE = Path(__file__).parents[1] / "tests" / "lab" / "evidence" / "drawn_claims.json"


def draw() -> list[str]:
    """Ten of the published claims, in their order."""
    return sorted(random.Random(SEED).sample(CLAIMS, DRAWN))


if __name__ == "__main__":
    FILE.write_text(json.dumps({"seed": SEED, "drawn": draw()}, indent=1) + "\n", encoding="utf-8")
    print(", ".join(draw()))
