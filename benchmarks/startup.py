"""How long `walkback --help` takes, over `python -c pass` and beside an empty typer program, in CPU time."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ratios import write

ROUNDS = 15
LIMIT = 5.0
EMPTY = """
import typer
app = typer.Typer()
@app.command()
def one() -> None: "One."
@app.command()
def two() -> None: "Two."
app()
"""


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty.py")
        empty.write_text(EMPTY)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "an empty typer program --help": [sys.executable, str(empty), "--help"],
            "walkback --help": [sys.executable, "-m", "walkback", "--help"],
            "import walkback": [sys.executable, "-c", "import walkback"],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS + 1):
            for name, command in commands.items():
                seconds[name].append(cpu_seconds(command))
    # The first round fills the caches of the disk and of compiled modules.
    bare = statistics.median(seconds["python -c pass"][1:])
    rows = {}
    for name, times in seconds.items():
        median = statistics.median(times[1:])
        rows[name] = {"milliseconds": 1000 * median, "ratio": median / bare}
        print(f"  {name:32s} {1000 * median:6.0f} ms  {median / bare:5.2f} ×")
    rows["walkback --help"]["limit"] = LIMIT
    print(f"written to {write('bench_startup', {'what': 'start-up over python -c pass', 'ratios': rows})}")


if __name__ == "__main__":
    main()
