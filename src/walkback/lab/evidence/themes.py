"""The published claims by the question that they answer, in words that need no other page."""

from __future__ import annotations

from typing import NamedTuple

from walkback.protocol.thresholds import DiagnosticThresholds


class Theme(NamedTuple):
    """A question, what the study says to it, and the claims that this rests on."""

    question: str
    published: str
    claims: tuple[str, ...]


WORDS = (
    ("ResMLP, d, L", "the network of most claims: a residual MLP of width d with L blocks, on CIFAR-10; d = 256 and "
     "L = 4 unless said"),
    ("block", "one layer of the network with its skip: it reads a hidden state and adds its own output to it"),
    ("credit", "what a method tells a block in place of the gradient of the loss"),
    ("BP", "backpropagation, whose credit is the true gradient"),
    ("DFA, FA", "direct feedback alignment and feedback alignment: the error reaches blocks through random matrices"),
    ("State Bridge, Credit Bridge", "a small network is trained beside the blocks to predict their credit"),
    ("EP", "equilibrium propagation: credit is how far the hidden states move when the output is pulled to the target"),
    ("Γ, cosine", "the cosine of credit and true gradient; 1: the same direction, 0: unrelated. “Deep”: the mean over "
     "all blocks but the first"),
    ("site", "a hidden state between blocks: site 0 is what the first block reads, site L what the last one writes; "
     "“hidden” in older figures: all sites but site 0"),
    ("fresh feedback, null", "the cosine of the same network with random matrices drawn anew: what chance alone gives"),
    ("ρ, nudge", "does credit tell how the loss changes? ρ: the correlation of what it predicts with what happens in "
     "random directions; nudge: the change of the loss after a small step against it. In N02 ρ is another figure: the "
     "share of the gradient that all samples have in common"),
    ("‖h_L‖, growth", "the size of the last hidden state; by how much one block multiplies it, at most"),
    ("‖g_L‖", "the size of the true gradient at the last block"),
    ("frozen baseline, margin", "the same network trained with its blocks left at random; how many points of accuracy "
     "(pp) trained blocks are better than that"),
    ("λ, penalty", "λ·‖output of the block‖² is added to what each block minimises"),
    ("walked back, trustworthy", "at least one of the four tests fires, or none does"),
    ("seed", "a number that settles everything random in a run; 42, 123 and 456 here, as published"),
)  # fmt: skip
"""What a reader has to know to read the table, each in a line."""

_AT = DiagnosticThresholds()
TESTS = (
    ("(a)", f"one block multiplies the hidden state by more than {_AT.h_norm_explosion_ratio:g}"),
    ("(b)", f"the true gradient at the last block is smaller than {_AT.g_norm_floor:g}"),
    (
        "(c)",
        f"different batches share one gradient direction: their mean cosine is above {_AT.stability_drift_ceiling:g}",
    ),
    ("(d)", f"trained blocks are less than {_AT.frozen_acc_margin_pp:g} points better than the frozen baseline"),
)
"""The four tests and when each fires."""

THEMES = (
    Theme(
        "Which methods leave a network that cannot be trusted?",
        "DFA, State Bridge and Credit Bridge do, on every seed; BP and EP do not, nor does an untrained network. "
        "Accuracy and Γ show nothing of it; (a), (b) and (d) each do.",
        ("C01", "C02", "C03", "C04", "C05", "C06", "C07", "C08", "C09", "C10", "C11", "C29"),
    ),
    Theme(
        "When does it happen, and what would stopping there save?",
        "Within the first tenth of the run. Γ looks healthy all the while, and the accuracy of the end is there "
        "already.",
        ("C12", "C13", "C14"),
    ),
    Theme(
        "Does it happen on other networks, and what is it that makes the gradient vanish?",
        "It does on a transformer, a CNN and a wider network. The norm before the readout is what makes the gradient "
        "vanish; without it the stream grows alone. Skips are not needed for either.",
        ("C15", "C16", "C17", "C18", "C30", "C32", "C33", "C35"),
    ),
    Theme(
        "Is the alignment that papers report real?",
        "It is carried by one block, DFA's by the first and FA's by the last, at every depth; how one averages "
        "decides its sign. The same network with fresh feedback has none.",
        ("C19", "C20", "C21", "C31", "C42"),
    ),
    Theme(
        "Does a penalty on the size of blocks' outputs repair it?",
        "It repairs size and gradient, and gives DFA an alignment that it never had, but trained blocks are hardly "
        "better than random ones. Methods with a higher cosine are not the more accurate ones.",
        ("C22", "C23", "C24", "C25", "C26", "C27", "C36", "C37", "C38"),
    ),
    Theme(
        "Are trained blocks better than random ones?",
        "FA's are, where DFA's are not; with two wide blocks, and on CIFAR-100, FA's are not either. The more blocks "
        "learn by DFA, the worse.",
        ("C28", "C39", "C40", "C41"),
    ),
    Theme(
        "Is it the data, or the method itself?",
        "The stream grows under random labels too, so no data are needed. On a problem whose true credit is known "
        "both bridges find it.",
        ("C34", "C43"),
    ),
)
