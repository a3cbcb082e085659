"""`walkback.jax.measure` and `walkback.jax.diagnose`: networks written in JAX, measured as torch's are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

from walkback.errors import BaselineError, InputError
from walkback.jax.alignment import AlignmentMeter
from walkback.jax.batches import read_batches
from walkback.jax.credit import CreditFunction
from walkback.jax.functional import FunctionalMeter
from walkback.jax.initial import InitialMeter, check_finite, check_initial
from walkback.jax.losses import Loss
from walkback.jax.network import Stage, network_of, require_hashable
from walkback.jax.overlap import OverlapMeter
from walkback.jax.precision import is_floating, refuse_tracers
from walkback.jax.readouts import ReadoutMeter
from walkback.jax.session import Session
from walkback.protocol.headline import GivenScores
from walkback.protocol.judge import judge
from walkback.protocol.network_shapes import Shapes, difference
from walkback.protocol.panels import panel_named
from walkback.protocol.records import DiagnosticReport, FrozenBaseline, Measurements, Score
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sizes import NULL_DRAWS
from walkback.protocol.thresholds import DiagnosticThresholds


def measure(
    apply: Stage,
    params: Any,
    blocks: Any,
    batches: Iterable[Any],
    *,
    stem: Stage | None = None,
    head: Stage | None = None,
    loss: Loss | None = None,
    credit: CreditFunction | None = None,
    null_draws: int = NULL_DRAWS,
    functional: int | None = None,
    tokens: str | TokenReduction | None = None,
    reference: Any = None,
    gradients: bool = True,
    readouts: bool = False,
    channels_first: bool = False,
    initial: Any = None,
    train_batches: Iterable[Any] | None = None,
    max_batches: int | None = None,
) -> Measurements:
    """Measure a network on held-out batches: plain numbers, to be judged by `walkback.judge`.

    Args:
        apply: (params, inputs) → logits, for a batch; what stem, blocks and head compute is held against it.
        params: any tree of arrays.
        blocks: the residual blocks in their order, functions of (params, h): a list, or a mapping from names; or what
            `equinox_sites` or `nnx_sites` found, as in `measure(*equinox_sites(model, …), batches)`.
        batches: labelled, held-out batches: (inputs, targets), or mappings with `label` or `labels`. Targets are class
            indices or one-hot rows, of tokens too.
        stem: (params, inputs) → h_0, what comes before the blocks; the inputs themselves where not given.
        head: (params, h_L) → logits; h_L itself where not given.
        loss: (logits, targets) → one loss per sample; cross-entropy where not given.
        credit: (hiddens, logits, targets) → one array per site, what the method hands to each, for Γ; its
            `redraw(key)`, if it has one, gives the null.
        null_draws: how many fresh draws of the feedback the null rests on; 0 for no null.
        functional: on how many samples to test whether the credit tells how the loss moves (perturbation ρ and nudge).
        tokens: what stands for a sample at sites of shape (B, T, d): `class_token`, `token_norms` or `flatten`.
        reference: where the true gradient comes from, if not from the network: the blocks of a twin of the same
            function and params, or `Stages` of one; or `declared` to keep custom derivatives unchecked, for Γ alone.
        gradients: False for networks that no loss is backpropagated through: (a) and the accuracy are measured alone.
        readouts: fit a linear readout to every site, cross-validated on the batches.
        channels_first: whether sites of four axes are (B, C, H, W), for readouts and their width; else (B, H, W, C).
        initial: the params before training, for movement and growth since then.
        train_batches: what the network was trained on, to count the test samples among them.
        max_batches: measure at most this many batches.
    """
    session = session_of(
        apply, params, blocks, stem=stem, head=head, loss=loss, credit=credit, null_draws=null_draws,
        functional=functional, tokens=tokens, reference=reference, gradients=gradients, readouts=readouts,
        channels_first=channels_first, initial=initial,
    )  # fmt: skip
    return Measurements(**_fields(session, batches, train_batches, max_batches))


def diagnose(
    apply: Stage,
    params: Any,
    blocks: Any,
    batches: Iterable[Any],
    *,
    headline_acc: float | Score | None = None,
    frozen_baseline_acc: float | Score | FrozenBaseline | None = None,
    random_baseline: float | Score | FrozenBaseline | None = None,
    score: Score | None = None,
    method_name: str = "",
    notes: str = "",
    thresholds: DiagnosticThresholds | None = None,
    panel: str | None = None,
    seed: int | None = None,
    require_all: bool = False,
    train_batches: Iterable[Any] | None = None,
    max_batches: int | None = None,
    **measuring: Any,
) -> DiagnosticReport:
    """Measure a network and say whether its result can be trusted.

    Args:
        apply: as for `measure`; so are the next three, train_batches, max_batches, and all that is not named here.
        params: any tree of arrays.
        blocks: the residual blocks.
        batches: labelled, held-out batches.
        headline_acc: the accuracy to defend, in [0, 1]; counted on the batches where it is not given.
        frozen_baseline_acc: the score of the same training with the blocks left at random, for (d).
        random_baseline: the score of a second baseline, whose blocks are at random with the trained blocks' norms.
        score: the score to defend in another unit than accuracy, such as perplexity.
        method_name: what the report calls the method.
        notes: free text for the report.
        thresholds: where each diagnostic fires.
        panel: which panel decides: `april2026` where none is named.
        seed: the seed of the run, for the report and for combining several.
        require_all: make the verdict `incomplete` where a diagnostic was not measured.
        train_batches: what the network was trained on.
        max_batches: measure at most this many batches.
        **measuring: what else `measure` takes: stem, head, loss, credit, reference, …
    """
    panel_named(panel)  # refused before anything is measured
    given = GivenScores.of(headline_acc, score, frozen_baseline_acc, random_baseline)
    session = session_of(apply, params, blocks, **measuring)
    check_matched(given.baseline, params)
    fields = _fields(session, batches, train_batches, max_batches)
    remarks = session.warnings() + given.warnings(fields, seed)
    return judge(
        Measurements(**fields | given.fields(fields)),
        thresholds,
        panel=panel,
        method_name=method_name,
        notes=notes,
        seed=seed,
        require_all=require_all,
        warnings=remarks,
        provenance=session.provenance(),
    )


def session_of(
    apply: Stage,
    params: Any,
    blocks: Any,
    *,
    stem: Stage | None = None,
    head: Stage | None = None,
    loss: Loss | None = None,
    credit: CreditFunction | None = None,
    null_draws: int = NULL_DRAWS,
    functional: int | None = None,
    tokens: str | TokenReduction | None = None,
    reference: Any = None,
    gradients: bool = True,
    readouts: bool = False,
    channels_first: bool = False,
    initial: Any = None,
) -> Session:
    """The arguments, checked before anything is computed."""
    if not callable(apply):
        raise InputError(f"apply is {type(apply).__name__}; expected a function of (params, inputs) that gives logits.")
    if loss is not None and not callable(loss):
        raise InputError(f"loss= is a {type(loss).__name__}; expected a function of (logits, targets).")
    require_hashable("apply", apply)
    require_hashable("loss=", loss)
    check_params(params)
    _check_gradients(gradients, credit, reference)
    if functional is not None and credit is None:
        raise InputError("functional= tests a credit, and none was given. Pass credit= too.")
    if initial is not None:
        check_initial(initial, params)
        check_finite(initial)
    return Session(
        apply,
        network_of(blocks, stem, head),
        params,
        loss,
        TokenReduction.named(tokens) if tokens is not None else None,
        reference,
        gradients,
        AlignmentMeter(credit, null_draws) if credit is not None else None,
        FunctionalMeter(credit, functional) if functional is not None else None,
        ReadoutMeter(channels_first) if readouts else None,
        InitialMeter(initial) if initial is not None else None,
        channels_first,
    )


def check_params(params: Any) -> None:
    """Refuse what holds no numbers, or none yet."""
    refuse_tracers("params", params)
    leaves = jax.tree.leaves(params)
    abstract = next((leaf for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct)), None)
    if abstract is not None:
        raise InputError("params holds shapes without values (jax.ShapeDtypeStruct). Give the trained arrays.")
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not hasattr(leaf, "dtype") and not isinstance(leaf, bool | int | float | complex):
            where = jax.tree_util.keystr(path) or "the tree itself"
            raise InputError(
                f"params holds a {type(leaf).__name__} ({where}); expected arrays and numbers alone. Leave it out; of "
                "an Equinox model, eqx.filter(model, eqx.is_array) or walkback.jax.equinox_sites takes the arrays."
            )
    if not any(is_floating(leaf) for leaf in leaves):
        raise InputError(
            f"params holds no floating-point array ({len(leaves)} leaves); expected the tree of the trained parameters."
        )


def _check_gradients(gradients: bool, credit: Any, reference: Any) -> None:
    if not isinstance(gradients, bool):
        raise InputError(f"gradients= is {gradients!r}; expected True or False.")
    other = "credit=" if credit is not None else "reference=" if reference is not None else ""
    if not gradients and other:
        raise InputError(
            f"gradients=False measures no gradient, and {other} is about one. Give one of the two: without gradients, "
            "(a) and the accuracy are measured alone."
        )


def _fields(
    session: Session, batches: Iterable[Any], train_batches: Iterable[Any] | None, max_batches: int | None
) -> dict[str, Any]:
    read = read_batches(batches, max_batches)
    seen = OverlapMeter(train_batches) if train_batches is not None else None
    fields = session.measure(seen.watching(read) if seen is not None else read)
    return fields | (seen.fields() if seen is not None else {})


def shapes_of(params: Any) -> Shapes:
    """The shape of every parameter, by its place in the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path): tuple(leaf.shape) for path, leaf in leaves if hasattr(leaf, "shape")}


def check_matched(baseline: FrozenBaseline | None, params: Any) -> None:
    """Refuse a baseline that says it is of another network."""
    if baseline is not None and baseline.network and (apart := difference(baseline.network, shapes_of(params))):
        raise BaselineError(
            f"the frozen baseline is of another network: {apart}. Its score alone, given as a number, "
            "is taken without this check, and the report says so."
        )
