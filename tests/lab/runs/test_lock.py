"""The lock of a run: who has it is told, whoever looks does not take it away, and a link is never locked."""

import os
import threading

import pytest

from walkback.errors import RunTaken
from walkback.lab.runs import lock
from walkback.lab.runs.lock import held, is_held


def test_the_holder_is_told_and_let_go_of(tmp_path):
    path = tmp_path / "lock"
    assert not is_held(path)
    with held(path, "run x"):
        assert is_held(path)
        with pytest.raises(RunTaken, match=f"run x is being trained by process {os.getpid()}"), held(path, "run x"):
            pass
    assert not is_held(path)
    assert path.read_text() == ""


def test_the_number_of_a_holder_of_version_0_1_is_read(tmp_path):
    path = tmp_path / "lock"
    with held(path, "run x"):
        path.write_text("4711\n")  # which stood at the beginning of the file then
        with pytest.raises(RunTaken, match="process 4711"), held(path, "run x"):
            pass


def test_a_first_byte_that_cannot_be_read_is_passed_over(tmp_path, monkeypatch):
    # As on Windows, where nobody but the holder may read the byte that is locked.
    def read(handle, count, genuine=os.read):
        if os.lseek(handle, 0, os.SEEK_CUR) == 0:
            raise PermissionError(13, "Permission denied")
        return genuine(handle, count)

    with held(tmp_path / "lock", "run x"):
        monkeypatch.setattr(lock.os, "read", read)
        with pytest.raises(RunTaken, match=f"process {os.getpid()}"), held(tmp_path / "lock", "run x"):
            pass


def test_two_who_look_do_not_take_each_other_for_the_holder(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    seen = []
    lookers = [threading.Thread(target=lambda: seen.extend(is_held(path) for _ in range(300))) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    assert seen == [False] * 600


def test_a_lock_that_may_only_be_read_is_looked_at(tmp_path, monkeypatch):
    path = tmp_path / "lock"

    def opened(path, flags, mode=0o777, genuine=os.open):
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return genuine(path, flags, mode)

    with held(path, "run x"):
        monkeypatch.setattr(lock.os, "open", opened)
        assert is_held(path)
    assert not is_held(path)
