"""What every record shares: frozen, closed to unknown fields, and JSON without bare NaN."""

from __future__ import annotations

import difflib
import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from walkback.errors import InputError, RecordError
from walkback.protocol.json_codec import json_text
from walkback.protocol.json_codec import parse_json as parse_json
from walkback.protocol.json_codec import read_json as read_json

SCHEMA_VERSION = 2
"""Raised when a field comes, goes or changes its meaning."""

READ_VERSIONS = (1, SCHEMA_VERSION)
"""Version 1, of walkback 0.1, has no panels: such a record is judged by those of today."""

FROM_RECORD = "from_record"
"""In the context of a validation: what is validated was read from a file, which another walkback may have written."""

STUDY_VERSION = 6
"""Of the answers of studies: raised when a study asks or counts otherwise, so that old answers are given anew."""

Loaded = TypeVar("Loaded", bound="Record")


def plain(value: Any) -> Any:
    """NumPy arrays and scalars, and torch tensors, as lists and numbers."""
    return value.tolist() if hasattr(value, "tolist") else value


Number = Annotated[float, BeforeValidator(plain)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(plain)]
Counts = Annotated[tuple[int, ...], BeforeValidator(plain)]


class Record(BaseModel):
    """A frozen set of plain numbers and words. Every record of walkback is one.

    Fields are given by name. NumPy arrays, torch tensors and lists of numbers are taken alike.

    Raises:
        InputError: a field is unknown or missing, or has a value that it cannot have.

    Examples:
        >>> import walkback
        >>> score = walkback.Score(value=0.61, samples=10_000)
        >>> score.to_dict()["value"]
        0.61
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", use_attribute_docstrings=True)

    told_as: ClassVar[str] = ""
    """What a message calls a record of this kind; the name of its class where it says nothing."""

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            kind = type(self)
            raise InputError(f"{kind.told_as or kind.__name__}: {explain(error, kind)}") from None

    # Only a record that a caller builds by hand goes through __init__; pydantic validates loaded ones itself.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain dictionaries and lists, ready for JSON.

        Returns:
            The fields by name. Numbers that are not finite are the strings NaN, Infinity and -Infinity.
        """
        try:
            dictionary: dict[str, Any] = json.loads(self.model_dump_json())
        except PydanticSerializationError as error:
            raise InputError(
                f"{type(self).__name__} cannot be written: {error}. Give texts of whole characters."
            ) from None
        return dictionary

    def save(self, path: str | Path) -> Path:
        """Write the record as JSON, whole or not at all.

        Args:
            path: the file, in a directory that exists. An old file of that name is replaced.

        Returns:
            The path that was written.

        Raises:
            InputError: the file cannot be written.
        """
        return write_whole(path, json_text(self.to_dict()))


def explain(error: ValidationError, kind: type[BaseModel] | None = None) -> str:
    """The faults that validation found in a record of some kind, one after the other."""
    faults = [_fault(each, kind) for each in error.errors()[:5]]
    more = error.error_count() - len(faults)
    return ". ".join(faults) + (f". And {more} more" if more else "")


_EXPECTED = {
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "finite_number": "a finite number",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("literal_error", "enum"), "{expected}"),
    "string_type": "text",
    "tuple_type": "a list of numbers",
    "list_type": "a list",
    "dict_type": "a mapping",
}
"""What pydantic says in words of its own, in ours."""


def _expected(found: ErrorDetails, words: str) -> str:
    """What a field should have held; empty where the words of whoever refused it say something else."""
    if words.startswith("expected "):
        return words.removeprefix("expected ")
    limits = found.get("ctx", {})
    plain_limits = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in limits.items()}
    return _EXPECTED.get(found["type"], "").format(**plain_limits)


def _no_such_field(found: ErrorDetails, kind: type[BaseModel] | None) -> str:
    name, fields = str(found["loc"][-1]), list(kind.model_fields) if kind is not None else []
    near = difflib.get_close_matches(name, fields, n=1, cutoff=0.6) if len(found["loc"]) == 1 else []
    did = f". Did you mean {near[0]}?" if near else ""
    return f"there is no field {'.'.join(map(str, found['loc']))}{did}"


def _fault(found: ErrorDetails, kind: type[BaseModel] | None = None) -> str:
    if found["type"] == "extra_forbidden":
        return _no_such_field(found, kind)
    words = found["msg"].removeprefix("Value error, ")
    if not found["loc"]:
        return words
    name, came = ".".join(map(str, found["loc"])), shortened(found["input"])
    if found["type"] == "missing":  # what came is the record without it
        return f"{name} is missing"
    expected = _expected(found, words)
    return f"{name} is {came}; expected {expected}" if expected else f"{name}: {words}, not {came}"


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write beside the target and move into place, so that no reader ever sees half a file.

    A link is followed, and what is no file but can be written to, such as /dev/stdout or a pipe, is written to.
    """
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)
            return target
        target = followed(target) if target.is_symlink() else target
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise not_written(target, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files only their owner can read; a report is for others too.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise InputError(f"cannot write {target}: {error.strerror}. Nothing was changed.") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def not_written(target: Path, error: OSError) -> InputError:
    """That a file cannot be written where it is to be."""
    if not target.parent.is_dir():
        return InputError(f"cannot write {target}: {error.strerror}. Give a path in a directory that exists.")
    # Some directories, such as /proc, say of a new file that it is not there.
    why = f"no file can be made in {target.parent}" if error.errno == errno.ENOENT else error.strerror
    return InputError(f"cannot write {target}: {why}. Write elsewhere.")


def followed(link: Path) -> Path:
    """Where a link leads, whether anything is there or not; links that lead in a circle raise OSError."""
    try:
        link.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return link.resolve()


def content_digest(value: Any) -> str:
    """A short hash of a JSON value, whatever the order of its keys."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def audit_digest(audit: Any) -> str:
    """Of what an audit says, without when and by what code it was judged."""
    return content_digest([audit.get("reports"), audit.get("runs")])


def file_name(name: Any, what: str) -> str:
    """A name that files are called by; what would lead elsewhere, or cannot be shown, is refused."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+=-]{0,99}", name):
        raise InputError(
            f"{what} is {shortened(name)}; expected up to 100 letters, digits and any of ._+=- such as resmlp_d256."
        )
    return name


def shortened(value: Any) -> str:
    """A value as a message quotes it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def corrupt(source: object, error: ValidationError) -> RecordError:
    """The refusal of a file whose content does not have the shape of its kind."""
    why = explain(error)
    return RecordError(
        f"{source} is corrupt, or not a record of this version ({why}). Create it again, or give another file."
    )


@contextmanager
def naming_source(source: object) -> Iterator[None]:
    """What is refused deep inside a record is told with the file that it is from.

    A record is refused where it is held to its shape. Whatever else its reader trips over is a fault of walkback's own,
    and is shown as that.
    """
    try:
        yield
    except InputError as error:
        raise error if str(source) in str(error) else type(error)(f"{source}: {error}") from None
    except ValidationError as error:
        raise corrupt(source, error) from None


def load_record(kind: type[Loaded], data: Any, source: str) -> Loaded:
    """Validate a dictionary as a record of this schema version."""
    if not isinstance(data, dict):
        raise RecordError(f"{source} holds {type(data).__name__}, expected one {kind.__name__} object.")
    version = data.get("schema_version")
    if version is None and not set(data) & set(kind.model_fields):
        keys = ", ".join(map(str, list(data)[:5])) or "none"
        raise RecordError(
            f"{source} is not a walkback {kind.__name__} (its keys: {keys}). Give a file that walkback wrote."
        )
    if version not in READ_VERSIONS or isinstance(version, bool):
        found = "no schema_version" if version is None else f"schema_version {version!r}"
        raise RecordError(
            f"{source} has {found}; this walkback reads the versions {' and '.join(map(str, READ_VERSIONS))}. "
            "Read it with the walkback that wrote it, or measure again."
        )
    try:
        return kind.model_validate(data, context={FROM_RECORD: True})
    except ValidationError as error:
        raise RecordError(f"{source} is not a {kind.__name__}: {explain(error, kind)}.") from None
