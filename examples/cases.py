"""What the case studies on other people's networks share: packages fetched by pip, data, and pages.

It needs the standard library alone, so that it also runs where only the library in question is installed.
"""

import argparse
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
    """The lines of an example between its two marks, as they stand there: what a page shows is what was run."""
    text = Path(file).read_text(encoding="utf-8")
    return text.partition("# what a user writes {\n")[2].partition("\n# }")[0].strip()


def table(head, rows):
    """A table in Markdown; the first column is words, the others numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def main(description, made):
    """Print the page, or write it to a file."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the page to this file")
    target = parser.parse_args().write
    text = made()
    if target:
        target.write_text(text, encoding="utf-8")
    else:
        print(text)
