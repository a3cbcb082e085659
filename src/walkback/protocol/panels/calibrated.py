"""The panel `calibrated`: thresholds fitted on networks of known truth, and verdicts with the error rates that it had.

Which diagnostics decide, and where, is in calibrated.json, made by `walkback lab validity --fit`; how often it was
right is in calibrated_rates.json, made by `--score` and `--open`. No torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from walkback.protocol.claimed_rule import is_backpropagation
from walkback.protocol.diagnostics.depth_gain import GAINS, HARMFUL
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.panels.base import MISSING, Member, Panel
from walkback.protocol.panels.rates import Rates
from walkback.protocol.records import Measurements, PanelVerdict, Reading, State
from walkback.protocol.reduction import AT_CLASS_TOKEN
from walkback.protocol.wording import written
from walkback.protocol.words import Outcome
from walkback.registry import DIAGNOSTICS

HERE = Path(__file__).resolve().parent
THRESHOLDS_FILE, RATES_FILE = HERE / "calibrated.json", HERE / "calibrated_rates.json"
DEPTH = "depth"
DEPTH_DIAGNOSTICS = ("depth_gain", "readout_gain", "stem_gain")
INFORMS = ("gradient_floor", "direction_drift", "frozen_margin")
"""Of the published four, at the thresholds of their edition."""
CANDIDATES = (
    *DEPTH_DIAGNOSTICS, "head_gap", "init_growth", "block_growth", "residual_growth", "total_growth",
    "error_free_floor", "movement", "idle_block", "update_provenance", "disguise", "reference_doubt", "headline_check",
    "sample_overlap",
)  # fmt: skip
"""What the fit chooses from."""
_READOUTS = "the accuracy of a linear readout of the first site and of the last (readouts=True)"
ASKED = {
    "depth_gain": "the accuracy of the same network with its blocks left at random, trained the same way, with the "
    "right and wrong answers of both, sample by sample (walkback.frozen_baseline)",
    "readout_gain": _READOUTS,
    "stem_gain": _READOUTS,
    "head_gap": _READOUTS,
    "block_growth": "the norms of the stream before training (initial=)",
    "idle_block": "how much every block changes the stream, sample by sample, and the norms of the gradient",
    "init_growth": "the norms of the stream before training (initial=)",
    "residual_growth": "the norms of the stream at every site",
    "total_growth": "the norms of the stream before and behind the blocks, sample by sample",
    "error_free_floor": "the gradient at the last site for each unit of error",
    "movement": "how far the weights of every block moved (initial=)",
    "update_provenance": "a checkpoint and the code of a training step (walkback.provenance)",
    "disguise": "the name of the rule, a checkpoint and the code of a training step (claimed_rule=, and "
    "walkback.provenance)",
    "reference_doubt": "whether the gradient was compared with finite differences, or with fp64",
    "headline_check": "the accuracy on the batches beside the one that is claimed",
    "sample_overlap": "how many test samples are in the training set (train_batches=)",
}
"""What a reader asks the authors for, where a diagnostic was not measured."""
ASKED_MORE = (
    "the right and wrong answers of the network and of its frozen baseline on more test samples: on these, depth gain "
    "shows no gain"
)
"""The same where depth gain was measured, and does not say that training the blocks harms."""
MEANINGS: dict[Outcome, str] = {
    "pass": "Every number that decides lies where those of healthy networks lay.",
    "fail": "A number lies where none of the healthy networks lay that the thresholds were fitted on.",
    "incomplete": "Nothing fires, and what the blocks add is not known: there is no linear readout, and no depth gain "
    "that shows a gain.",
}
HARMS = (
    "Nothing that decides fires. But the network is worse than with its blocks at random: training them harms, which "
    "this panel leaves open without a linear readout."
)
"""Of an incomplete verdict where depth gain was measured, and is below 0."""
NOT_ALL = "Nothing fires, and what the blocks add is known. But {some} that decides was measured."
TOKEN = (
    "No error rate is known for this verdict: (a) is read at the class token, which may begin at next to nothing, and "
    "then any block multiplies it. Over all tokens the stream grows to {growth} times its size. The class tokens of "
    "the bench began larger."
)
"""Of a failure by (a) alone that all tokens do not bear out."""


class Calibrated(Panel):
    """A decider that fires fails the network; without depth gain or a readout the verdict is incomplete."""

    def verdict(
        self, readings: Iterable[Reading], require_all: bool = False, measured: Measurements | None = None
    ) -> PanelVerdict:
        """The usual rule; and a network passes only where it is known what its blocks add."""
        found = tuple(readings)
        verdict = super().verdict(found, require_all)
        if verdict.outcome != "fail" and not depth_known(found):
            depth = tuple(by_name(name) for name in DEPTH_DIAGNOSTICS)
            if harmful(found):
                depth = depth[1:]  # what depth gain says is decided, and speaks for no pass
            # Of a log nothing that decides may be known; what the blocks add is not known of it either.
            missing = () if verdict.outcome == "pass" else verdict.decided_by
            behind = (*depth, *(letter for letter in missing if letter not in depth))
            words = self.words("incomplete", [], behind)
            verdict = verdict.model_copy(update={"outcome": "incomplete", "words": words, "decided_by": behind})
        beside = self.beside(verdict, found, measured) if measured is not None else {}
        return verdict.model_copy(update={"beside": beside}) if beside else verdict

    def words(self, outcome: Outcome, readings: Sequence[Reading], letters: Sequence[str]) -> str:
        """The usual ones; of what is missing, that it is not decided."""
        said = super().words(outcome, readings, letters)
        return said.replace("not measured", "not decided") if outcome == "incomplete" else said

    def speaks(self, readings: Sequence[Reading]) -> bool:
        """Where depth was measured: of most other reports it could say `incomplete` alone."""
        depth = {by_name(name) for name in DEPTH_DIAGNOSTICS}
        return any(r.letter in depth and r.state not in MISSING for r in readings)

    def beside(self, verdict: PanelVerdict, readings: Sequence[Reading], measured: Measurements) -> dict[str, str]:
        """What the verdict means, how often such verdicts were right, and what to ask for."""
        missing = [r.letter for r in readings if r.state in MISSING and self._decides(r.letter)]
        # What makes it incomplete comes first: what the blocks add.
        behind = verdict.decided_by if verdict.outcome == "incomplete" else ()
        gaps = list(dict.fromkeys((*behind, *missing)))
        rates = Rates.load(RATES_FILE)
        seen = [r.letter for r in readings if r.state not in MISSING and self._decides(r.letter)] if gaps else None
        said = {"meaning": self._meaning(verdict, readings)}
        said["error rates"] = _of_the_token(verdict, readings, measured) or rates.in_words(measured, seen)
        if is_backpropagation(measured.claimed_rule):
            gaps = [letter for letter in gaps if letter != by_name("disguise")]  # it is under no other name
        if verdict.outcome == "pass" and gaps:
            blind = [one.subject or one.title for letter in gaps if (one := by_letter(letter)) is not None]
            said["not looked for"] = f"{'; '.join(blind)}."
        if gaps:
            asked = {by_name(name): ASKED[name] for name in CANDIDATES}
            if measured.claimed_rule:
                asked[by_name("disguise")] = ASKED["update_provenance"]
            # Of the gaps depth gain alone can be one that was measured: it shows no gain, and nothing fires.
            known = [r for r in readings if r.letter in gaps and r.state not in MISSING]
            asked |= {r.letter: "" if r.case == HARMFUL else ASKED_MORE for r in known}
            said["to ask for"] = f"{'; '.join(dict.fromkeys(asked[letter] for letter in gaps if asked[letter]))}."
        return said

    def _meaning(self, verdict: PanelVerdict, readings: Sequence[Reading]) -> str:
        """What the outcome means; of an incomplete one, why it is so."""
        if verdict.outcome != "incomplete":
            return MEANINGS[verdict.outcome]
        if depth_known(readings):
            decided = any(r.state not in MISSING for r in readings if self._decides(r.letter))
            return NOT_ALL.format(some="not all" if decided else "nothing")
        return HARMS if harmful(readings) else MEANINGS["incomplete"]

    def _decides(self, letter: str) -> bool:
        member = self.member(letter)
        return member is not None and member.role == "decides"

    def qualified(self, verdict: PanelVerdict, readings: Sequence[Reading]) -> str:
        """The words, with what was not measured of those that decide."""
        deciding = [r for r in readings if self._decides(r.letter) and r.state is not State.FIRE]
        gaps = self.gaps(deciding)
        shown = verdict.words if verdict.outcome == "incomplete" or not gaps else f"{verdict.words} [{gaps}]"
        return f"{shown} ({self.name})"


def depth_known(readings: Iterable[Reading]) -> bool:
    """Whether a linear readout was measured, or depth gain shows a gain."""
    gain, *readouts = (by_name(name) for name in DEPTH_DIAGNOSTICS)
    return any(
        (r.letter in readouts and r.state not in MISSING) or (r.letter == gain and r.case == GAINS) for r in readings
    )


def harmful(readings: Iterable[Reading]) -> bool:
    """Whether depth gain says that training the blocks harms."""
    return any(r.letter == by_name("depth_gain") and r.case == HARMFUL for r in readings)


def _of_the_token(verdict: PanelVerdict, readings: Sequence[Reading], measured: Measurements) -> str:
    """That no rate is known of a failure by the growth of the class token alone; empty of other verdicts."""
    at_token = AT_CLASS_TOKEN in (measured.site_reduction or "")
    if not at_token or verdict.outcome != "fail" or verdict.decided_by != (by_name("residual_growth"),):
        return ""
    whole = next((r for r in readings if r.letter == by_name("total_growth") and r.state is State.PASS), None)
    return TOKEN.format(growth=written(whole.value)) if whole is not None and whole.value is not None else ""


def by_name(diagnostic: str) -> str:
    """The letter of one of walkback's own diagnostics."""
    return str(DIAGNOSTICS.load(diagnostic).letter)


def calibrated_from(fitted: Mapping[str, Any]) -> Calibrated:
    """The panel that a thresholds file describes."""
    deciders = fitted["deciders"]
    thresholds = {name: float(each["threshold"]) for each in deciders for name in each["thresholds"]}
    chosen = {name: each for each in deciders for name in each["diagnostics"]}
    members = [Member(name, role="informs") for name in (*CANDIDATES, *INFORMS) if name not in chosen]
    deciding = [
        Member(
            name,
            joined=each["group"] if len(each["diagnostics"]) > 1 else "",
            required=len(each["diagnostics"]) > 1,
            sure=bool(each["test"]),
        )
        for name, each in chosen.items()
    ]
    return Calibrated(
        name="calibrated",
        title="thresholds fitted on networks of known truth",
        members=(*deciding, *members),
        version=int(fitted["version"]),
        stops=("a", "b"),
        fixed=thresholds,
        cites="The deciding diagnostics and their thresholds were fitted on the fit half of walkback's bench of "
        "networks of known truth (docs/VALIDITY.md).",
    )


CALIBRATED = calibrated_from(json.loads(THRESHOLDS_FILE.read_text("utf-8")))
