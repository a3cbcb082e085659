"""What a function of the API says to an argument that it does not take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from walkback.errors import InputError, did_you_mean

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


class UnknownArgument(InputError, TypeError):
    """An argument of this name is none of the function's; a TypeError too, as Python itself would raise."""


def known_arguments(
    elsewhere: Callable[[str], str] = lambda name: "",
) -> Callable[[Callable[Given, Returned]], Callable[Given, Returned]]:
    """Let a function refuse names that it does not take, with a suggestion.

    Args:
        elsewhere: from such a name, a sentence that says where it belongs; empty where that is not known.

    Returns:
        A decorator. The function keeps its signature.
    """

    def decorated(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
        taken = inspect.signature(function).parameters
        hands_on = any(each.kind is each.VAR_KEYWORD for each in taken.values())

        @functools.wraps(function)
        def checked(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
            for name in kwargs:
                # What is handed on is refused where it arrives, unless it is known to belong elsewhere.
                advice = "" if name in taken else elsewhere(name) or ("" if hands_on else did_you_mean(name, taken))
                if advice:
                    raise UnknownArgument(f"{function.__name__} does not take {name!r}. {advice}")
            return function(*args, **kwargs)

        return checked

    return decorated
