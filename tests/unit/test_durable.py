"""Private folders, atomic replacement and locks, on temporary files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PASSABLE, PrivateFolder
from spurproc.errors import AlreadyGone, NotPermitted, SystemCallError


@pytest.fixture
def folder(tmp_path: Path) -> PrivateFolder:
    """A fresh private folder, closed by the test."""
    return PrivateFolder.create(tmp_path / "run")


def test_a_created_folder_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """Mode 0700 under umask 0 and under umask 0777 alike."""
    for mask in (0, 0o777):
        before = os.umask(mask)
        try:
            with PrivateFolder.create(tmp_path / f"run{mask}") as made:
                assert os.fstat(made.fileno()).st_mode & 0o7777 == 0o700
        finally:
            os.umask(before)


def test_a_file_is_private_whatever_the_umask(folder: PrivateFolder) -> None:
    """Records are 0600."""
    before = os.umask(0)
    try:
        folder.replace_file("record", b"x")
    finally:
        os.umask(before)
    assert os.stat("record", dir_fd=folder.fileno()).st_mode & 0o777 == 0o600
    folder.close()


def test_a_shared_parent_is_not_judged(tmp_path: Path) -> None:
    """The folder above may be open to all, as /tmp is."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    PrivateFolder.create(tmp_path / "shared" / "run").close()
    PrivateFolder.open(tmp_path / "shared" / "run").close()


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o711])
def test_an_open_folder_is_refused(tmp_path: Path, mode: int) -> None:
    """Whoever else may enter it could put records there."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    with pytest.raises(NotPermitted, match="its mode is"):
        PrivateFolder.open(tmp_path / "run")


def test_a_passable_folder_is_neither_listed_nor_written_by_others(tmp_path: Path) -> None:
    """Where others have to get at something by its name. It is asked for, and what it lets others do beside is refused."""
    with PrivateFolder.create(tmp_path / "run", mode=PASSABLE) as made:
        assert os.fstat(made.fileno()).st_mode & 0o7777 == 0o711
        made.create_folder("below", mode=PASSABLE).close()
        made.open_folder("below", mode=PASSABLE).close()
    for mode in (0o700, 0o711):
        (tmp_path / "run").chmod(mode)
        PrivateFolder.open(tmp_path / "run", mode=PASSABLE).close()
    for mode in (0o731, 0o713, 0o751, 0o755):
        (tmp_path / "run").chmod(mode)
        with pytest.raises(NotPermitted, match="not 0711"):
            PrivateFolder.open(tmp_path / "run", mode=PASSABLE)


@pytest.mark.needs_root
def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    """Ours means: of our effective user."""
    (tmp_path / "run").mkdir(mode=0o700)
    os.chown(tmp_path / "run", 65534, 65534)
    with pytest.raises(NotPermitted, match="belongs to user"):
        PrivateFolder.open(tmp_path / "run")


@pytest.mark.parametrize("link", ["way/run/folder", "way/run", "way"])
def test_a_symbolic_link_on_the_way_is_refused(tmp_path: Path, link: str) -> None:
    """Neither the folder nor anything above it may be a link; the message names it."""
    real = tmp_path / "real"
    (real / "run" / "folder").mkdir(parents=True, mode=0o700)
    for folder in (real, real / "run"):
        folder.chmod(0o700)
    (tmp_path / "way").symlink_to(real)
    with pytest.raises(NotPermitted, match="symbolic link"):
        PrivateFolder.open(tmp_path / link)


def test_a_removed_folder_is_never_made_again(folder: PrivateFolder) -> None:
    """Writes go through the held descriptor: ENOENT, and nothing appears under the name."""
    os.rmdir(folder.path)
    for act in (lambda: folder.create_file("x"), lambda: folder.replace_file("x", b"")):
        with pytest.raises(AlreadyGone):
            act()
    assert not os.path.exists(folder.path)
    assert not folder.is_named()
    folder.close()


def test_a_folder_in_its_place_is_not_mistaken_for_it(folder: PrivateFolder, tmp_path: Path) -> None:
    """Same name, another folder: not named, and not removed through us."""
    os.rename(folder.path, tmp_path / "moved")
    os.mkdir(folder.path)
    assert not folder.is_named()
    folder.remove()
    assert os.path.isdir(folder.path)
    folder.close()


def test_replace_leaves_the_old_content_when_it_fails(folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed fsync leaves the old record and no temporary file."""
    folder.replace_file("record", b"old")

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SystemCallError):
        folder.replace_file("record", b"new")
    assert folder.names() == ["record"]
    assert folder.read_file("record", 16) == b"old"
    folder.close()


def test_replace_syncs_the_file_before_the_rename_and_the_folder_after(
    folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-01: otherwise a power cut leaves a file of no bytes under the name."""
    acts: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(fd: int) -> None:
        acts.append("folder" if fd == folder.fileno() else "file")
        fsync(fd)

    def note_rename(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        acts.append("rename")
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    folder.replace_file("record", b"new")
    assert acts == ["file", "rename", "folder"]
    folder.close()


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "long"])
def test_read_file_refuses_what_is_not_a_small_file(folder: PrivateFolder, kind: str) -> None:
    """Nothing blocks, nothing is followed."""
    name = f"{folder.path}/record"
    match kind:
        case "fifo":
            os.mkfifo(name)
        case "link":
            os.symlink("/etc/hostname", name)
        case "folder":
            os.mkdir(name)
        case _:
            os.close(folder.create_file("record", b"x" * 17))
    with pytest.raises(NotPermitted, match="cannot trust"):
        folder.read_file("record", 16)
    folder.close()


@pytest.mark.needs_root
def test_read_file_refuses_what_another_user_owns(folder: PrivateFolder) -> None:
    """A link to one's own file, or a folder that was open for a moment, lets others put their records there."""
    os.close(folder.create_file("record", b"x"))
    os.chown("record", 65534, 65534, dir_fd=folder.fileno())
    with pytest.raises(NotPermitted, match="not a file of ours"):
        folder.read_file("record", 16)
    folder.close()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_new_file_is_never_one_that_is_there(folder: PrivateFolder, tmp_path: Path, kind: str) -> None:
    """What stands under the name, or where a link there leads, is somebody's."""
    if kind == "file":
        os.close(folder.create_file("record", b"theirs"))
    else:
        os.symlink(tmp_path / "elsewhere", f"{folder.path}/record")
    with pytest.raises(SystemCallError, match="File exists"):
        folder.create_file("record", b"ours")
    assert not (tmp_path / "elsewhere").exists()
    folder.close()


def test_the_lock_excludes_and_is_free_after_the_last_copy(folder: PrivateFolder) -> None:
    """A copy of the descriptor keeps it where the first one is handed over; that does not free it."""
    lock = FolderLock.take(folder, create=True)
    assert lock is not None
    copy = os.dup(lock.fileno())
    assert FolderLock.take(folder) is None
    lock.hand_over()
    lock.hand_over()
    lock.close()
    assert FolderLock.take(folder) is None
    os.close(copy)
    again = FolderLock.take(folder)
    assert again is not None
    assert not os.get_inheritable(again.fileno())
    again.close()
    folder.close()


def test_the_lock_survives_other_opens_of_the_file(folder: PrivateFolder) -> None:
    """An fcntl lock would be lost here: opening and closing the file frees those."""
    lock = FolderLock.take(folder, create=True)
    assert lock is not None
    os.close(folder.open_file("lock"))
    assert FolderLock.take(folder) is None
    lock.close()
    folder.close()
