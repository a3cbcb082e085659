"""Rules over source: one text, or all Python files under some paths."""

from __future__ import annotations

import ast
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from walkback.addresses import is_address
from walkback.errors import InputError, UnknownName
from walkback.lint import RULES
from walkback.lint.chains import refuse_deep
from walkback.lint.module import Module
from walkback.lint.noqa import silenced
from walkback.lint.rule import Broken, Finding, Hit, Rule
from walkback.registry import did_you_mean

SKIPPED = {
    ".git", ".hg", ".tox", ".nox", ".venv", "venv", "node_modules", "__pycache__", "build", "dist", ".eggs",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", "site-packages",
}  # fmt: skip
"""Folders that hold no source of one's own; naming one of them as PATH checks it all the same."""
PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")
BUILD_FILES = ("SConstruct", "SConscript", "wscript")
"""Python by their names alone, which is how pre-commit knows them too."""


@dataclass
class Checked:
    """What a check of files came to."""

    files: int = 0
    findings: list[Finding] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)


def chosen_rules(select: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[Rule]:
    """The rules whose codes start like one of `select`, without those that start like one of `ignore`.

    A rule that is neither here nor installed is selected by `module:object`.
    """
    own = {prefix: RULES.named(prefix).code for prefix in select if is_address(prefix)}
    rules = {rule.code: rule for _, rule in RULES.loaded()}
    wanted, unwanted = ([own.get(prefix, prefix.upper()) for prefix in given] for given in (select, ignore))
    for prefix in (*wanted, *unwanted):
        if not any(code.startswith(prefix) for code in rules):
            raise UnknownName(f"there is no lint rule {prefix!r}. {did_you_mean(prefix, rules)}")
    chosen = {code: rule for code, rule in rules.items() if code.startswith(tuple(wanted) or ("",))}
    return [rule for code, rule in chosen.items() if not code.startswith(tuple(unwanted))]


def check_paths(paths: Iterable[Path], rules: Sequence[Rule]) -> Checked:
    """Every Python file under the paths, in order; a file that cannot be read or parsed is among the broken."""
    checked, listed = Checked(), list(paths)
    for path in python_files(listed):
        checked.files += 1
        try:
            checked.findings += check_source(_source(path), str(path), rules)
        except OSError as error:
            checked.broken.append(Broken(str(path), 1, 1, f"cannot be read: {error.strerror}"))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            checked.broken.append(_broken(str(path), error))
    if not checked.files:
        named = ", ".join(map(str, listed))
        raise InputError(f"there are no Python files in {named}. Give files, or directories that hold some.")
    return checked


def _source(path: Path) -> str:
    """The text of a file by the encoding that it declares; one that is not of text raises SyntaxError, as in Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an encoding's own escapes
            with tokenize.open(path) as file:
                return file.read()
    except LookupError as error:
        raise SyntaxError(str(error)) from None


def check_source(source: str, path: str, rules: Sequence[Rule]) -> list[Finding]:
    """The findings in one text, those silenced by `# noqa` left out; text that is no Python raises SyntaxError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in someone's string is none of our business
        if sys.version_info < (3, 11):  # later ones raise RecursionError by themselves
            refuse_deep(source)
        tree = ast.parse(source)
    quiet, lines = silenced(source), source.splitlines()
    found = (_located(hit, rule, path, lines) for rule, hit in hits(tree, rules))
    return sorted(f for f in found if not f.code.startswith(_prefixes(quiet, f.line)))


def hits(tree: ast.Module, rules: Sequence[Rule]) -> Iterator[tuple[Rule, Hit]]:
    """What each rule finds in a parsed file."""
    module = Module(tree)
    return ((rule, hit) for rule in rules for hit in rule.check(module))


def _prefixes(quiet: Mapping[int, frozenset[str]], line: int) -> tuple[str, ...]:
    return (*quiet.get(0, ()), *quiet.get(line, ()))


def _located(hit: Hit, rule: Rule, path: str, lines: Sequence[str]) -> Finding:
    line = hit.node.lineno
    source = lines[line - 1].strip() if line <= len(lines) else ""
    return Finding(path, line, hit.node.col_offset + 1, rule.code, hit.what, rule.why, hit.instead, source)


def _broken(path: str, error: Exception) -> Broken:
    if isinstance(error, SyntaxError):
        return Broken(path, error.lineno or 1, error.offset or 1, f"is not valid Python: {error.msg}")
    if isinstance(error, ValueError):
        return Broken(path, 1, 1, f"is not valid Python: {error}")
    return Broken(path, 1, 1, "cannot be checked: its expressions are nested too deeply")


def python_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Files as they are named, and every `.py` file in directories, each once; a path that is not there is refused."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise InputError(f"there is no file or directory {path}. Give Python files, or directories that hold some.")
        if path.is_file() and not _is_python(path):
            raise InputError(f"{path} is not a Python file. Give .py files, or directories that hold some.")
        for file in sorted(_in_folder(path)) if path.is_dir() else [path]:
            resolved = file.resolve()
            if resolved not in seen:
                seen.add(resolved)
                yield file


def _is_python(file: Path) -> bool:
    """Whether a file is Python by its name, or by a first line such as `#!/usr/bin/env python3`.

    Not by whether it parses: a CSV does, and so does much JSON. What cannot be read is told where it is read.
    """
    if file.suffix.lower() in PYTHON_SUFFIXES or file.name in BUILD_FILES:
        return True
    try:
        with file.open("rb") as opened:
            first = opened.readline(200)
    except OSError:
        return True
    return first.startswith(b"#!") and b"python" in first


def _in_folder(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot read the directory {folder}: {error.strerror}.") from None
    for entry in entries:
        # A link to a directory could lead round in a circle.
        if entry.is_dir() and not entry.is_symlink() and entry.name not in SKIPPED:
            yield from _in_folder(entry)
        elif entry.suffix == ".py" and entry.is_file():
            yield entry
