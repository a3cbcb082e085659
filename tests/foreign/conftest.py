"""The networks of tests/protocol are used here too, not copied."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "protocol"))
