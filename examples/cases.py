"""What the case studies on other people's networks share: packages fetched by pip, data, and pages.

It needs the standard library alone, so that it also runs where only the library in question is installed.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path


def fetch(requirement, folder):
    """Install one package into a directory, without its dependencies; SystemExit with pip's words where that fails."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{requirement} could not be installed by pip:\n{done.stderr.strip()}")


def digits():
    """scikit-learn's 8 × 8 digits as numpy arrays, shuffled, 1,029 to learn from and 768 held out."""
    import numpy as np
    from sklearn.datasets import load_digits

    inputs, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    inputs = (inputs / 16).astype(np.float32)[order]
    inputs -= inputs[:1029].mean(axis=0)
    labels = labels.astype(np.int64)[order]
    return (inputs[:1029], labels[:1029]), (inputs[1029:], labels[1029:])


def shown(file):
    """The marked lines of an example, as they stand there: what a page shows is what was run."""
    text = Path(file).read_text(encoding="utf-8")
    parts = [part.partition("\n# }") for part in text.split("# what a user writes {\n")[1:]]
    if not parts or not all(closed for _, closed, _ in parts):
        raise SystemExit(f"{file} does not mark what a user writes, from '# what a user writes {{' to '# }}'.")
    return "\n\n\n".join(lines.strip() for lines, _, _ in parts)


def table(head, rows):
    """A table in Markdown; the first column is words, the others numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def recorded(value):
    """What JSON has no form for: a report is written as walkback itself keeps it."""
    return value.to_dict()


def main(description, study, page):
    """Run the study, and print its page or write it; the numbers behind it are written where they are asked for."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the page to this file")
    parser.add_argument("--record", type=Path, metavar="JSON", help="write what was found to this file")
    options = parser.parse_args()
    found = study()
    text = page(found)
    if options.record:
        options.record.write_text(json.dumps(found, default=recorded, indent=1), encoding="utf-8")
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        print(text)
