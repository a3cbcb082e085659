"""The study that the protocol comes from: its paper and its two repositories, named here and nowhere else in code."""

from __future__ import annotations

AUTHORS = ("Yuren Hao", "Xiang Wan", "ChengXiang Zhai")
TITLE = (
    "What Accuracy and Gradient Cosine Miss: Evaluating Feedback Alignment via Scale Stability, Reference Validity, "
    "and Depth Utility"
)
ARXIV = "2606.21126"
DATE = "19 June 2026"
WRITTEN_FOR = "NeurIPS 2026 Evaluations & Datasets track"

DEVELOPMENT = "git.blackhao.com/faeval.git"
"""Where the study was made; the published claims are from its commit log of April 2026."""
ARTIFACT = "git.blackhao.com/fa-eval-protocol.git"
"""What the authors released: the protocol as code."""
ARTIFACT_COMMIT = "b480d0cd"
ARTIFACT_DATE = "4 May 2026"

PAPER = f"{', '.join(AUTHORS)}, “{TITLE}”, arXiv {ARXIV}, {DATE}, written for the {WRITTEN_FOR}"
"""The paper in one line."""
REPOSITORIES = (
    f"development repository {DEVELOPMENT}; released artifact {ARTIFACT}, commit {ARTIFACT_COMMIT}, {ARTIFACT_DATE}"
)
"""Both repositories in one line."""
FIGURES = f"the commit log and two result files (April 2026) behind {PAPER} ({REPOSITORIES})"
"""Where the published figures are from, in the middle of a sentence."""
