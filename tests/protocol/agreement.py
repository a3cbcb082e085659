"""Compare a report with the slow twin."""

import pytest

import walkback
from reference import twin


def agrees(model, batches, taps, *, reference=None, rtol=1e-4, tokens=None, sequence_first=False, **options):
    """Diagnose, with no hint where the blocks are, and hold every figure against the twin's; returns the report.

    `reference` is a network of the same function for the twin, where the model itself is of no use to it.
    """
    report = walkback.diagnose(model, batches, tokens=tokens, **options)
    pairs = list(split(batches))
    if sequence_first:
        pairs = [(inputs.transpose(0, 1), targets) for inputs, targets in pairs]
    samples = twin.one_by_one(pairs)
    if sequence_first:
        samples = [(inputs.transpose(0, 1), target) for inputs, target in samples]
    expected = twin.measure(
        model if reference is None else reference,
        samples,
        taps,
        loss=options.get("loss"),
        tokens=tokens or ("class_token" if "class token" in report.site_reduction else "flatten"),
        sequence_first=sequence_first,
        credit=options.get("credit"),
    )
    compare(report, expected, rtol)
    assert report.samples == len(samples)
    return report


def split(batches):
    """(inputs, targets) of batches in any of the accepted forms."""
    for batch in batches:
        if hasattr(batch, "keys"):
            yield {name: value for name, value in batch.items() if name != "labels"}, batch["labels"]
        else:
            yield batch[0], batch[1]


def compare(report, expected, rtol):
    def same(got, want):
        assert got == pytest.approx(want, rel=rtol, abs=1e-12)

    same(report.residual_norms, expected.residual_norms)
    same(report.bp_grad_norms, expected.bp_grad_norms)
    same(report.error_size, expected.error_size)
    same(report.scale_free_gradients, expected.scale_free_gradients)
    # ρ and cosines lie between −1 and 1 and may be near 0: an absolute tolerance is the honest one.
    assert report.drift_shares == pytest.approx(expected.drift_shares, abs=rtol)
    if expected.site_stabilities is None:
        assert report.cross_batch_stability is None
    else:
        assert report.site_stabilities == pytest.approx(expected.site_stabilities, abs=rtol)
        middle = (len(expected.site_stabilities) - 1) // 2
        assert report.stability_layer == middle
        assert report.cross_batch_stability == pytest.approx(expected.site_stabilities[middle], abs=rtol)
    if expected.alignment is not None:
        assert report.alignment.sites == pytest.approx(expected.alignment, abs=rtol)
