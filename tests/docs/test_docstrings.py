"""The API reference: each docstring says what its signature has, its example runs, and nothing is left out."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import textwrap

import pytest
from api_page import (
    ENTRIES,
    ROOT,
    SECTIONS,
    TEXT,
    TOOL,
    docstring_of,
    functions,
    items,
    methods,
    own_classes,
    sections,
    thing_at,
)  # fmt: skip

import walkback
import walkback.errors
import walkback.lab
from walkback.cli import main

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NO_EXAMPLE = ("Errors", "Parts of records")
"""Sections of names that the examples of other sections use."""


def test_every_public_name_is_on_the_page():
    shown = {entry.imported_as for entry in ENTRIES.values()}
    names = {f"walkback.{name}" for name in walkback.__all__ if name != "__version__"}
    names |= {f"walkback.lab.{name}" for name in walkback.lab.__all__}
    named = vars(walkback.errors).items()
    names |= {f"walkback.errors.{name}" for name, one in named if inspect.isclass(one) and issubclass(one, Exception)}
    names |= {
        f"walkback.integrations.{file.stem}.{node.name}"
        for file in (ROOT / "src" / "walkback" / "integrations").glob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Callback", "Log"))
    }
    assert names - shown == set()


def test_the_list_of_names_is_that_of_the_docstrings():
    assert TOOL["with_table"](TEXT) == TEXT, "run python tools/api_table.py"


@pytest.mark.parametrize("path", ENTRIES)
def test_what_the_page_shows_is_what_a_reader_imports(path):
    assert thing_at(path) is thing_at(ENTRIES[path].imported_as)


@pytest.mark.parametrize("path", ENTRIES)
def test_a_docstring_begins_with_a_sentence_and_its_sections_are_in_order(path):
    thing = thing_at(path)
    members = dict(methods(thing)) if inspect.isclass(thing) else {}
    for docstring in (docstring_of(thing), *(function.__doc__ for function in members.values())):
        if not docstring:  # of a constant, which the table takes from the source
            continue
        first, *rest = inspect.cleandoc(docstring).splitlines()
        assert first.endswith((".", "?", ":")), first
        assert not rest or rest[0] == "", first
        found = [heading for heading in sections(docstring) if heading]
        assert found == sorted(found, key=SECTIONS.index), first


@pytest.mark.parametrize(("label", "function", "docstring", "builds"), [pytest.param(*f, id=f[0]) for f in functions()])
def test_a_docstring_has_what_its_signature_has(label, function, docstring, builds):
    found, signature = sections(docstring), inspect.signature(function)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    taken = [stars.get(p.kind, "") + name for name, p in signature.parameters.items() if name not in ("self", "cls")]
    assert sorted(items(found, "Args")) == sorted(taken)
    nothing = builds or signature.return_annotation in (None, "None")
    assert ("Returns" in found or "Yields" in found) != nothing
    assert ("Yields" in found) == inspect.isgeneratorfunction(function)


def named_defaults(function):
    """Parameter → value, where the signature on the page shows the name of a constant."""
    taken = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].args
    by_place = taken.args[len(taken.args) - len(taken.defaults) :]
    pairs = zip((*by_place, *taken.kwonlyargs), (*taken.defaults, *taken.kw_defaults), strict=True)
    values = inspect.signature(function).parameters
    return {argument.arg: values[argument.arg].default for argument, node in pairs if isinstance(node, ast.Name)}


@pytest.mark.parametrize(("label", "function", "docstring", "builds"), [pytest.param(*f, id=f[0]) for f in functions()])
def test_a_default_that_the_signature_names_is_said_as_a_number(label, function, docstring, builds):
    said = "\n".join(sections(docstring).get("Args", ()))
    for name, value in named_defaults(function).items():
        item = re.search(rf"^    {name}: (.*?)(?=^    \w|\Z)", said, re.MULTILINE | re.DOTALL)
        assert f"{value:g}" in item[1], name


@pytest.mark.parametrize("path", ENTRIES)
def test_what_is_raised_is_an_error_of_walkback(path):
    thing = thing_at(path)
    members = dict(methods(thing)) if inspect.isclass(thing) else {}
    for docstring in (docstring_of(thing), *(function.__doc__ for function in members.values())):
        raised = items(sections(docstring), "Raises")
        assert bool(raised) == ("Raises" in sections(docstring))
        for name in raised:
            assert issubclass(getattr(walkback.errors, name), walkback.errors.WalkbackError)


@pytest.mark.parametrize("path", [path for path in ENTRIES if inspect.isclass(thing_at(path))])
def test_every_field_and_property_says_what_it_is(path):
    kind = thing_at(path)
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = [node for node in tree.body if not isinstance(node, ast.If)]
    for node, after in zip(body, [*body[1:], None], strict=True):
        names = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        for name in (target.id for target in names if isinstance(target, ast.Name)):
            inherited = any(hasattr(below, name) or name in _annotated(below) for below in own_classes(kind)[1:])
            if not name.startswith("_") and name != "model_config" and not inherited:
                assert isinstance(after, ast.Expr), name
                assert isinstance(after.value, ast.Constant), name
    for name, member in vars(kind).items():
        if isinstance(member, property) and not name.startswith("_"):
            assert member.__doc__, name


def _annotated(kind):
    return vars(kind).get("__annotations__", {})


@pytest.mark.parametrize("path", ENTRIES)
def test_the_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = thing_at(path)
    members = dict(methods(thing)) if inspect.isclass(thing) else {}
    docstrings = {path: docstring_of(thing)} | {f"{path}.{name}": one.__doc__ for name, one in members.items()}
    done = 0
    for label, docstring in docstrings.items():
        parsed = doctest.DocTestParser().get_doctest(docstring or "", {"__name__": label}, label, None, 0)
        told = []
        result = doctest.DocTestRunner(optionflags=FLAGS).run(parsed, out=told.append)
        assert result.failed == 0, "".join(told)
        done += result.attempted
    assert done or ENTRIES[path].section in NO_EXAMPLE or not docstring_of(thing)


@pytest.mark.parametrize("record", ["DiagnosticReport", "Measurements", "Reading", "FrozenBaseline", "SeedSummary"])
def test_a_schema_describes_the_record_and_not_the_class(record, capsys):
    main.app(["schema", record])
    printed = capsys.readouterr().out
    assert '"description"' in printed
    assert not re.search(r">>>|Raises:|Examples:", printed)
