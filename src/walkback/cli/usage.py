"""Errors of the library below the command line, in words that say what was expected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import typer

from walkback.cli.misplaced import where_it_belongs
from walkback.cli.saying import complain
from walkback.protocol.wording import listed

_EXPECTED = {"valid number": "expected a number, such as 0.5", "valid integer": "expected a whole number, such as 3"}
"""Words of the library, in ours."""
_BASELINE = "frozen_baseline_acc"


def show_usage_error(error: Any, words: Sequence[str], app_for: Callable[[Sequence[str]], typer.Typer]) -> None:
    """Print what the library says of a command line, and what would have been right."""
    command = error.ctx.command if error.ctx is not None else _command_in(words, app_for)
    if hasattr(error, "possibilities"):
        _show_unknown_option(error, command)
        return
    error.message = _in_our_words(error, command, str(getattr(error, "message", "")))
    error.show()


def _command_in(words: Sequence[str], app_for: Callable[[Sequence[str]], typer.Typer]) -> Any:
    """The command that the words begin with: of an option without its value the library does not say whose it is."""
    command: Any = typer.main.get_command(app_for(words))
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return command


def _show_unknown_option(error: Any, command: Any) -> None:
    own = _flag_of(error, command)
    elsewhere = "" if own else where_it_belongs(error.option_name) or _returned_by_the_function(error, command)
    if own:
        error.possibilities = [own]
    elif elsewhere:
        error.possibilities = None  # a guess at what was misspelt, which nothing was
    error.show()
    if elsewhere:
        complain(elsewhere)


def _in_our_words(error: Any, command: Any, message: str) -> str:
    if "requires an argument" in message:
        return message.rstrip(".") + _what_it_takes(error, command)
    if "No such command" in message:
        return f"{message} Commands: {', '.join(sorted(command.commands))}."
    if "unexpected extra argument" in message:
        return message.rstrip(".") + _what_is_taken(error.ctx.command_path, command)
    return next((f"{ours}." for theirs, ours in _EXPECTED.items() if f"should be a {theirs}" in message), message)


def _flag_of(error: Any, command: Any) -> str:
    """The flag of a setting that was given by its whole name: --learning-rate is --lr."""
    name = _name(error.option_name)
    return next((each.opts[0] for each in _options(command) if each.name == name), "")


def _name(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


def _what_it_takes(error: Any, command: Any) -> str:
    """What an option without its value should be followed by, as its page of help has it."""
    option = next((each for each in _options(command) if error.option_name in each.opts), None)
    if option is None:
        return "."
    return f": {error.option_name} {option.metavar or 'VALUE'}. {option.help or ''}".rstrip()


def _what_is_taken(path: str, command: Any) -> str:
    """What a command takes beside options; with the options, where that is nothing."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if arguments:
        return f". Expected {listed([each.metavar or each.name.upper() for each in arguments])} and nothing more."
    flags = [each.opts[0] for each in _options(command) if not each.is_eager]
    return f". `{path}` takes options alone: {', '.join(flags)}."


def _returned_by_the_function(error: Any, command: Any) -> str:
    """How an argument of `walkback.diagnose` that is no option of the command is given; empty for all others."""
    name = _name(error.option_name)
    if command.name != "diagnose":
        return ""
    name = _BASELINE if "baseline" in name else name
    if name not in _arguments():
        return ""
    value = "0.35" if name == _BASELINE else "…"
    what = " The accuracy is in [0, 1], or what walkback.frozen_baseline returned." if name == _BASELINE else ""
    return (
        f"{name} is no option. Let the function that TARGET names return a mapping with it: "
        f'{{"model": model, "eval_batches": batches, "{name}": {value}}}.{what}'
    )


def _arguments() -> frozenset[str]:
    """Those of `walkback.diagnose`; the baseline's alone where torch is not installed."""
    try:
        from walkback.protocol.diagnose import diagnose
    except ImportError:
        return frozenset({_BASELINE})
    return frozenset(inspect.signature(diagnose).parameters)
