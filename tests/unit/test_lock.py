"""The lock of a private folder: one who concludes, or those who write, and never a lock on a file that has lost its name."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.errors import AlreadyGone, Busy, SystemCallError


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[PrivateFolder]:
    """An empty private folder."""
    with PrivateFolder.create(tmp_path / "folder") as made:
        yield made


def taken(folder: PrivateFolder, *, create: bool = True) -> FolderLock:
    lock = FolderLock.take(folder, create=create)
    assert lock is not None
    return lock


def test_a_shared_lock_keeps_out_who_wants_it_alone(folder: PrivateFolder, tmp_path: Path) -> None:
    """A second writer of the same run may share it."""
    with taken(folder) as lock:
        lock.share()
        assert FolderLock.take(folder) is None
        with (tmp_path / "folder" / "lock").open() as other:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    taken(folder, create=False).close()


def test_a_lock_that_another_shares_is_not_shared_over(folder: PrivateFolder, tmp_path: Path) -> None:
    """The kernel drops one kind before it takes the other; who comes between wins."""
    lock = taken(folder)
    lock.share()
    with (tmp_path / "folder" / "lock").open() as other:
        lock.close()
        fcntl.flock(other, fcntl.LOCK_EX)
        again = FolderLock(os.open(tmp_path / "folder" / "lock", os.O_RDWR | os.O_CLOEXEC))
        with again, pytest.raises(Busy):
            again.share()


def test_a_lock_that_was_let_go_is_free_though_a_child_has_a_copy(folder: PrivateFolder) -> None:
    """As one has that another thread has cloned and that is not exec'd yet: it would keep the lock for nobody."""
    lock = taken(folder)
    copy = os.dup(lock.fileno())
    lock.close()
    lock.close()
    taken(folder, create=False).close()
    os.close(copy)


def test_a_link_in_the_place_of_the_lock_is_not_followed(folder: PrivateFolder, tmp_path: Path) -> None:
    """Two folders with one lock between them would keep each other out."""
    (tmp_path / "folder" / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SystemCallError, match="symbolic links"):
        FolderLock.take(folder, create=True)
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_file_removed_while_it_is_taken_is_gone(folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened, then removed by the last holder, then locked: such a lock excludes nobody."""
    taken(folder).close()
    flock = fcntl.flock

    def remove_first(fd: int, operation: int) -> None:
        folder.discard_file("lock")
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with pytest.raises(AlreadyGone):
        FolderLock.take(folder)
