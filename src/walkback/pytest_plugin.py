"""`@pytest.mark.walkback` and the fixture `walkback_strict`: tests under `walkback.strict()`.

    @pytest.mark.walkback                  # or pytestmark = pytest.mark.walkback for a whole file
    def test_my_alignment(): ...

    @pytest.mark.walkback(nan=False)       # what strict() takes
    def test_my_verdict(): ...

Loading this imports no torch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

MARK = "walkback"


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(cosine=True, half=True, nan=True): run the test under walkback.strict(), so that clamped cosines, "
        "float16 underflow in norms and NaN at thresholds raise where they happen.",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a marked test inside the guard; its fixtures are set up outside."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return (yield)
    from walkback.guard import strict

    with strict(**mark.kwargs):
        return (yield)


@pytest.fixture
def walkback_strict() -> Iterator[None]:
    """A fixture of pytest: the rest of the test runs under `walkback.strict()`.

    `@pytest.mark.walkback` does the same for the whole test, and takes what `strict` takes.

    Yields:
        Nothing.

    Raises:
        PitfallError: in the test, where a pitfall happens.

    Examples:
        >>> import pytest
        >>> @pytest.mark.usefixtures("walkback_strict")
        ... def test_my_alignment():
        ...     ...
    """
    from walkback.guard import strict

    with strict():
        yield
