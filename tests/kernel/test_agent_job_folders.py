"""A job's folders on a node: their owner alone gets at them, and removing them reaches nothing else, whatever was built there."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.agent.jobs.removal import remove_below
from spurproc.agent.jobs.scratch import make_scratch, remove_scratch
from spurproc.agent.jobs.spool import remove_spool, spooled, write_script
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.errors import Busy, NotPermitted, SystemCallError
from spurproc.proto.attempt_id import AttemptId
from tests.relatives import in_fork

ONE = AttemptId(7, 1)
SCRIPT = b"#!/bin/sh\nid -u\n"
JOB_UID, JOB_GID = 12345, 12346
OTHER_UID = 12347
HERE = (os.geteuid(), os.getegid())


@pytest.fixture
def folder() -> Iterator[PrivateFolder]:
    """Where any user may pass, which no folder of pytest's is."""
    with tempfile.TemporaryDirectory(prefix="spurproc-folders-") as above:
        os.chmod(above, 0o755)
        with PrivateFolder.create(f"{above}/state") as made:
            os.fchmod(made.fileno(), 0o711)
            yield made


def facts(path: str | Path) -> tuple[int, int, int]:
    found = os.lstat(path)
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def as_user(uid: int, *command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, user=uid, group=JOB_GID, extra_groups=[], capture_output=True, check=False, timeout=30)


@pytest.mark.needs_root
def test_a_script_is_its_users_and_nobody_else_gets_at_it(folder: PrivateFolder) -> None:
    path = write_script(folder, ONE, SCRIPT, uid=JOB_UID, gid=JOB_GID)
    assert path == f"{folder.path}/7.1/script"
    assert facts(path) == (JOB_UID, JOB_GID, 0o500)
    assert facts(os.path.dirname(path)) == (*HERE, 0o711)
    assert as_user(JOB_UID, path).stdout == b"12345\n"
    for command in (("cat", path), (path,), ("ls", os.path.dirname(path)), ("touch", f"{path}.x"), ("rm", "-f", path)):
        with pytest.raises((PermissionError, subprocess.CalledProcessError)):
            as_user(OTHER_UID, *command).check_returncode()
    assert as_user(JOB_UID, "mv", path, f"{path}.x").returncode != 0
    assert Path(path).read_bytes() == SCRIPT


def test_a_script_is_whole_whatever_was_left_there(folder: PrivateFolder) -> None:
    left = Path(folder.path, "7.1")
    left.mkdir(0o700)
    (left / "script.new").write_bytes(b"half")
    victim = Path(folder.path, "victim")
    victim.write_bytes(b"theirs")
    (left / "script").symlink_to(victim)
    for content in (SCRIPT, b"#!/bin/sh\nexit 3\n", b"#!/bin/sh\n" + b"#" * (1 << 20)):
        path = write_script(folder, ONE, content, uid=HERE[0], gid=HERE[1])
        assert not os.path.islink(path)
        assert Path(path).read_bytes() == content
        assert os.listdir(left) == ["script"]
    assert victim.read_bytes() == b"theirs"


@pytest.mark.parametrize("sync", [True, False])
def test_a_script_its_name_and_that_of_its_folder_are_synced_in_this_order(
    folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch, *, sync: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    path = write_script(folder, ONE, SCRIPT, uid=HERE[0], gid=HERE[1], sync=sync)
    order = [os.stat(name).st_ino for name in (path, os.path.dirname(path), folder.path)]
    assert synced == (order if sync else [])


@pytest.mark.needs_root
def test_what_somebody_else_has_put_in_its_place_is_refused(folder: PrivateFolder) -> None:
    place, elsewhere = Path(folder.path, "7.1"), Path(folder.path, "elsewhere")
    elsewhere.mkdir()
    place.symlink_to(elsewhere)
    with pytest.raises(SystemCallError):
        write_script(folder, ONE, SCRIPT, uid=0, gid=0)
    with pytest.raises(SystemCallError):
        make_scratch(folder, ONE, uid=0, gid=0)
    place.unlink()
    place.mkdir(0o700)
    os.chown(place, OTHER_UID, OTHER_UID)
    with pytest.raises(NotPermitted, match="cannot trust"):
        write_script(folder, ONE, SCRIPT, uid=0, gid=0)
    with pytest.raises(NotPermitted, match="cannot trust"):
        make_scratch(folder, ONE, uid=JOB_UID, gid=JOB_GID)
    os.chown(place, 0, 0)
    place.chmod(0o777)
    with pytest.raises(NotPermitted, match="cannot trust"):
        write_script(folder, ONE, SCRIPT, uid=0, gid=0)
    assert os.listdir(elsewhere) == os.listdir(place) == []


def test_a_script_waits_for_whoever_forked_while_it_was_written(folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread's child holds a copy of our descriptor: the exec would be refused. It is let go while we wait."""
    done = threading.Event()
    real = os.fchmod

    def let_go(copy: int) -> None:
        done.set()
        os.close(copy)

    def fchmod(fd: int, mode: int) -> None:
        real(fd, mode)
        if mode == 0o500:
            threading.Timer(0.1, let_go, [os.dup(fd)]).start()

    monkeypatch.setattr(os, "fchmod", fchmod)
    path = write_script(folder, ONE, b"#!/bin/sh\nexit 3\n", uid=HERE[0], gid=HERE[1])
    assert done.is_set()
    assert subprocess.run([path], check=False, timeout=30).returncode == 3


def test_twenty_threads_write_and_run_scripts_at_once(folder: PrivateFolder) -> None:
    """CASES SP-10: never "text file busy"."""
    codes: list[int] = []

    def run(job_id: int) -> None:
        for attempt in range(1, 3):
            path = write_script(folder, AttemptId(job_id, attempt), b"#!/bin/sh\nexit 3\n", uid=HERE[0], gid=HERE[1])
            codes.append(subprocess.run([path], check=False, timeout=60).returncode)

    threads = [threading.Thread(target=run, args=(job_id,)) for job_id in range(1, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [3] * 40


def test_the_attempts_of_a_spool_are_listed(folder: PrivateFolder) -> None:
    for attempt in (AttemptId(10, 1), AttemptId(9, 2), AttemptId(9, 1)):
        write_script(folder, attempt, SCRIPT, uid=HERE[0], gid=HERE[1])
    Path(folder.path, "lost+found").mkdir()
    assert spooled(folder) == ([AttemptId(9, 1), AttemptId(9, 2), AttemptId(10, 1)], ["lost+found"])
    for _ in range(2):
        remove_spool(folder, AttemptId(9, 1))
    assert spooled(folder)[0] == [AttemptId(9, 2), AttemptId(10, 1)]


@pytest.mark.needs_root
def test_a_scratch_folder_is_its_users_alone(folder: PrivateFolder) -> None:
    path = make_scratch(folder, ONE, uid=JOB_UID, gid=JOB_GID)
    assert path == make_scratch(folder, ONE, uid=JOB_UID, gid=JOB_GID)
    assert facts(path) == (JOB_UID, JOB_GID, 0o700)
    assert as_user(JOB_UID, "touch", f"{path}/mine").returncode == 0
    assert as_user(OTHER_UID, "ls", path).returncode != 0
    assert as_user(JOB_UID, "ls", folder.path).returncode != 0
    for _ in range(2):
        remove_scratch(folder, ONE)
    assert not os.path.lexists(path)


# Removal.


def test_removal_follows_no_link_and_leaves_what_it_points_to(folder: PrivateFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"theirs")
    tree = Path(folder.path, "7.1")
    (tree / "a/b").mkdir(parents=True)
    for place in (tree / "link", tree / "a/link", tree / "a/b/link"):
        place.symlink_to(outside)
        os.link(outside / "file", f"{place}.hard")
        os.mkfifo(f"{place}.fifo")
    remove_below(folder, "7.1")
    assert not tree.exists()
    assert (outside / "file").read_bytes() == b"theirs"
    tree.symlink_to(outside)
    remove_below(folder, "7.1")
    assert os.listdir(outside) == ["file"]
    assert not tree.is_symlink()


def test_no_tree_is_too_deep_too_wide_or_too_closed(folder: PrivateFolder) -> None:
    top = os.open(folder.path, os.O_RDONLY)
    os.mkdir("7.1", dir_fd=top)
    fd = os.open("7.1", os.O_RDONLY, dir_fd=top)
    for depth in range(1100):
        name = f"deep{depth}"
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    os.close(top)
    wide = Path(folder.path, "7.1", "wide")
    wide.mkdir()
    for number in range(1000):
        (wide / str(number)).touch()
    wide.chmod(0)
    remove_below(folder, "7.1")
    assert folder.names() == []


def test_a_folder_that_its_owner_has_closed_is_opened_by_who_is_not_root(folder: PrivateFolder) -> None:
    script = f"""
import os
from spurproc.agent.jobs.removal import remove_below
from spurproc.core.durable.private_folder import PrivateFolder
if os.geteuid() == 0:
    os.chown({folder.path!r}, {JOB_UID}, {JOB_UID})
    os.setresuid({JOB_UID}, {JOB_UID}, {JOB_UID})
with PrivateFolder.open({folder.path!r}) as folder:
    os.makedirs(f"{{folder.path}}/7.1/a/b/c")
    for name in ("a/b", "a", ""):
        os.chmod(f"{{folder.path}}/7.1/{{name}}", 0)
    remove_below(folder, "7.1")
    print(folder.names())
"""
    os.fchmod(folder.fileno(), 0o700)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.needs_root
def test_its_user_cannot_fill_it_faster_than_it_is_emptied(folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever still has a folder of it open, as a shell that stands there, is shut out before it is emptied."""
    scratch = make_scratch(folder, ONE, uid=JOB_UID, gid=JOB_GID)
    assert as_user(JOB_UID, "mkdir", f"{scratch}/a").returncode == 0
    kept = {name: os.open(f"{scratch}/{name}", os.O_RDONLY) for name in ("", "a")}
    told: list[str] = []
    real = os.rmdir

    def write() -> list[str]:
        told = []
        for name, fd in kept.items():
            try:
                os.close(os.open("late", os.O_CREAT | os.O_EXCL, dir_fd=fd))
            except OSError as error:
                told.append(f"{name}: {type(error).__name__}")
        return told

    def rmdir(name: str, *, dir_fd: int) -> None:
        told.extend(in_fork(write, uid=JOB_UID))
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", rmdir)
    remove_below(folder, str(ONE), timeout_s=5.0)
    monkeypatch.undo()
    for fd in kept.values():
        os.close(fd)
    assert told == [": PermissionError", "a: PermissionError"] * 2
    assert folder.names() == []


@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(mount=True)
def test_what_is_mounted_is_left_alone_and_said(folder: PrivateFolder, tmp_path: Path) -> None:
    for where in ("", "/mounted", "/a/mounted"):
        for mount in (["--bind", str(tmp_path)], ["-t", "tmpfs", "none"]):
            place = Path(f"{folder.path}/7.1{where}")
            place.mkdir(parents=True)
            subprocess.run(["mount", *mount, str(place)], check=True)
            (place / "file").write_bytes(b"theirs")
            place.chmod(0o751)
            with pytest.raises(Busy) as caught:
                remove_below(folder, "7.1", timeout_s=5.0)
            assert caught.value.errno == errno.EBUSY
            (file,) = Path(folder.path).rglob("file")
            assert (file.read_bytes(), file.parent.stat().st_mode & 0o777) == (b"theirs", 0o751)
            subprocess.run(["umount", str(file.parent)], check=True)
            remove_below(folder, "7.1")


def test_it_ends_in_time_and_goes_on_where_it_was(folder: PrivateFolder) -> None:
    """However fast its user writes there: each call gets on, and says when it is not done."""
    Path(folder.path, "7.1/a/b").mkdir(parents=True)
    with pytest.raises(Busy, match=r"7\.1: somebody still writes there"):
        remove_below(folder, "7.1", timeout_s=0)
    remove_below(folder, "7.1")
    assert folder.names() == []


def test_what_appears_at_the_last_moment_is_removed_too(folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    late = [Path(folder.path, "7.1/late")]
    real = os.rmdir

    def rmdir(name: str, *, dir_fd: int) -> None:
        if name == "7.1" and late:
            late.pop().mkdir()
        real(name, dir_fd=dir_fd)

    Path(folder.path, "7.1").mkdir()
    monkeypatch.setattr(os, "rmdir", rmdir)
    remove_below(folder, "7.1")
    assert folder.names() == []
