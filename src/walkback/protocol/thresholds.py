"""Where the diagnostics fire: the values that they declare, and those that a user sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, GetJsonSchemaHandler, ValidationInfo, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from walkback.errors import InputError
from walkback.protocol.schema import FROM_RECORD, Record, plain, shortened
from walkback.registry import changes, did_you_mean

RELIABLE_FIDELITY = 0.99
"""A mean cosine with the fp64 gradient below this makes a gradient numerically unreliable."""


class DiagnosticThresholds(Record):
    """Where each diagnostic fires, by the names that the diagnostics declare. What is not given has its default.

    The published ones, with their defaults:

    - `h_norm_explosion_ratio`, 50: (a) fires when one block multiplies the median ‖h‖ by more. - `g_norm_floor`, 1e-7:
    (b) fires when the median ‖g_L‖, for a loss averaged over 128 samples, is below. - `stability_drift_ceiling`, 0.30:
    (c) fires when the mean cosine between batch-mean gradients is above. - `frozen_acc_margin_pp`, 2: (d) fires when
    the margin over the frozen baseline, in percentage points, is below.

    Two more are None by default, because nothing was published for them. `frozen_margin` is (d)'s for scores in another
    unit than accuracy. `drift_share_ceiling` lets (c) judge the drift share ρ, which does not depend on a batch size.

    Raises:
        InputError: no diagnostic declares such a threshold, or it cannot have this value.

    Examples:
        >>> import walkback
        >>> limits = walkback.DiagnosticThresholds(h_norm_explosion_ratio=20.0)
        >>> limits.h_norm_explosion_ratio, limits.frozen_acc_margin_pp
        (20.0, 2.0)
    """

    model_config = ConfigDict(extra="allow")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @model_validator(mode="before")
    @classmethod
    def _declared(cls, data: Any, info: ValidationInfo) -> Any:
        """Defaults for what is not given; what is given is held to what its diagnostic declares."""
        from walkback.protocol.diagnostics.known import thresholds

        declared = thresholds()
        given = dict(data) if isinstance(data, dict) else data.model_dump() if isinstance(data, cls) else None
        if given is None:
            raise ValueError(f"expected thresholds by name, not {shortened(data)}")
        # A record may come from a walkback with diagnostics that are not installed here.
        from_record = bool(info.context and info.context.get(FROM_RECORD))
        values: dict[str, float | None] = {name: threshold.default for name, threshold in declared.items()}
        for name, value in given.items():
            values[name] = _number(name, value)
            if name in declared and (fault := declared[name].fault(values[name])):
                raise ValueError(f"{name}: {fault}, not {shortened(value)}")
            if name not in declared and not from_record:
                raise ValueError(f"there is no threshold called {name!r}. {did_you_mean(str(name), declared)}")
        return values

    def with_fixed(self, fixed: Mapping[str, float]) -> DiagnosticThresholds:
        """The same with some thresholds in the place of these.

        Args:
            fixed: the new values, by the name of the threshold.

        Returns:
            A copy.
        """
        return self.model_copy(update=dict(fixed))

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        from walkback.protocol.diagnostics.known import thresholds

        schema = handler.resolve_ref_schema(handler(core))
        schema["properties"] = {
            name: {
                "anyOf": [{"type": "number"}, {"type": "null"}], "default": threshold.default, "title": threshold.label,
            }
            for name, threshold in thresholds().items()
        }  # fmt: skip
        return schema


def _number(name: str, value: Any) -> float | None:
    value = plain(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{name}: expected a number, not {shortened(value)}")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{name}: expected a number, not {shortened(value)}") from None


def checked_thresholds(given: Any) -> DiagnosticThresholds | None:
    """What a caller gave as thresholds; anything else is refused before it is judged by."""
    if given is None or isinstance(given, DiagnosticThresholds):
        return given
    raise InputError(
        f"thresholds is {shortened(given)}; expected walkback.DiagnosticThresholds(…), such as "
        "walkback.DiagnosticThresholds(h_norm_explosion_ratio=20)."
    )


_PUBLISHED: dict[int, DiagnosticThresholds] = {}


def published() -> DiagnosticThresholds:
    """The thresholds where none are set, made once."""
    if changes() not in _PUBLISHED:
        made = DiagnosticThresholds()
        _PUBLISHED.clear()
        _PUBLISHED[changes()] = made
    return _PUBLISHED[changes()]
