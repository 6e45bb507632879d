"""A folder whose changes wake who waits for them."""

from __future__ import annotations

import errno
import os
import select
from pathlib import Path

import pytest

from spurproc.core.recorded.watch import FolderWatch
from spurproc.errors import SystemCallError
from tests.descriptors import descriptors_left


def _readable(watch: FolderWatch) -> bool:
    poll = select.poll()
    poll.register(watch.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def test_each_change_of_the_folder_is_told_until_it_is_cleared(tmp_path: Path) -> None:
    """A file that is made, renamed or removed."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    watch = FolderWatch(folder)
    try:
        assert not _readable(watch)
        first, last = tmp_path / "a", tmp_path / "b"
        for change in (first.touch, lambda: first.rename(last), last.unlink):
            change()
            assert _readable(watch)
            watch.clear()
            assert not _readable(watch)
    finally:
        watch.close()
        watch.close()
        os.close(folder)


def test_what_is_no_folder_is_refused_and_costs_no_descriptor(tmp_path: Path) -> None:
    """The kernel's word for it, and nothing stays open."""
    (tmp_path / "file").touch()
    file = os.open(tmp_path / "file", os.O_RDONLY)
    before = os.listdir("/proc/self/fd")
    try:
        with pytest.raises(SystemCallError) as caught:
            FolderWatch(file)
        assert caught.value.errno == errno.ENOTDIR
        assert os.listdir("/proc/self/fd") == before
    finally:
        os.close(file)


def test_want_of_descriptors_is_told_as_that(tmp_path: Path) -> None:
    """Then the folder is looked at again and again, and nobody takes it for one that is gone."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with descriptors_left(0), pytest.raises(SystemCallError) as caught:
            FolderWatch(folder)
        assert caught.value.errno == errno.EMFILE
    finally:
        os.close(folder)
