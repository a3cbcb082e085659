"""Whole objects under one address, such as s3://bucket/runs, through fsspec.

An object store has no rename, no append and no lock. What it has is enough here: an object is written whole or
not at all, and a reader sees the old one or the new one. Importing this imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from walkback.errors import InputError, MissingLibrary, RunError
from walkback.extras import missing, optional

SEPARATOR = "://"


def is_address(place: str) -> bool:
    """Whether a place is an address rather than a path."""
    return SEPARATOR in place


class Objects:
    """The objects whose keys begin with an address."""

    def __init__(self, address: str) -> None:
        self._files, self._root = _file_system(address)
        self.address = address.rstrip("/")

    def read(self, key: str) -> bytes | None:
        """An object's content; None where there is none."""
        with self._asking("read", key):
            try:
                content: bytes = self._files.cat_file(self._place(key))
            except FileNotFoundError:
                return None
            return content

    def read_all(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The contents of many objects, asked for at once; those that went away meanwhile are left out."""
        if not keys:
            return {}
        with self._asking("read", keys[0]):
            found = self._files.cat([self._place(key) for key in keys], on_error="return")
            for content in found.values():
                if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                    raise content
        return {self._key(place): content for place, content in found.items() if isinstance(content, bytes)}

    def write(self, key: str, content: bytes) -> None:
        """Write an object, in the place of whatever is there."""
        with self._asking("write", key):
            self._files.pipe_file(self._place(key), content)

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that is not there; False, and nothing written, where it is."""
        with self._asking("write", key):
            try:
                self._files.pipe_file(self._place(key), content, mode="create")
            except FileExistsError:
                return False
            return True

    def keys(self, under: str = "") -> list[str]:
        """The keys of all objects in a directory, in order."""
        with self._asking("list", under):
            try:
                return sorted(map(self._key, self._files.find(self._place(under))))
            except FileNotFoundError:
                return []

    def remove(self, key: str) -> None:
        """Remove an object; one that is not there is as good as removed."""
        with self._asking("remove", key):
            try:
                self._files.rm_file(self._place(key))
            except FileNotFoundError:
                return

    def _place(self, key: str) -> str:
        return f"{self._root}/{key}".rstrip("/")

    def _key(self, place: str) -> str:
        return place.removeprefix(self._root).lstrip("/")

    @contextmanager
    def _asking(self, verb: str, key: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # every store has exceptions of its own
            raise _refused(verb, f"{self.address}/{key}", error) from error


def _refused(verb: str, place: str, error: Exception) -> RunError:
    return RunError(
        f"cannot {verb} {place}: {str(error) or type(error).__name__}. Is the address right, can this machine reach "
        "it, and has it the credentials?"
    )


def _file_system(address: str) -> tuple[Any, str]:
    url_to_fs = optional("fsspec.core").url_to_fs
    protocol, _, path = address.partition(SEPARATOR)
    try:
        if not path.strip("/"):
            raise ValueError("there is no store at this address")
        # Other machines write here too, so nothing that was listed once may be believed later.
        files, root = url_to_fs(address, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as error:
        told = missing(error, "s3fs") if protocol in ("s3", "s3a") else None
        if told is not None:
            raise told from None
        raise MissingLibrary(f"{address} needs a library that is not installed ({error}). Install that one.") from None
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{address} is not an address of runs: {error}. Expected a directory, or an address such as s3://bucket/runs."
        ) from None
    except Exception as error:  # of a store that is asked at once, such as ftp's
        raise _refused("open", address, error) from error
    return files, root.rstrip("/")
