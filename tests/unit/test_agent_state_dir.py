"""The layout of the agent's state folder: made with the right modes, and nothing in it is somebody else's."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.agent.node.state_dir import SOCKET_NAME, StateDir
from spurproc.errors import AlreadyGone, NotPermitted, SystemCallError

FOLDERS = {"": 0o711, "steps": 0o700, "spool": 0o711, "scratch": 0o711, "hooks": 0o700}
FILES = [
    "owner",
    "ready.json",
    "quarantine.json",
    "agent.db",
    "agent.db-wal",
    "agent.db-shm",
    "controller.db",
    "controller.db-journal",
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A state folder that was made, and closed."""
    StateDir.open(tmp_path / "state").close()
    return tmp_path / "state"


def descriptors() -> set[int]:
    """All that are open."""
    listed = [int(name) for name in os.listdir("/proc/self/fd")]
    return {fd for fd in listed if os.path.lexists(f"/proc/self/fd/{fd}")}  # one was that of the listing


def modes(path: Path) -> dict[str, int]:
    return {name: stat.S_IMODE((path / name).stat().st_mode) for name in FOLDERS}


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
def test_it_is_made_with_the_right_modes_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    """A job passes through to what is its own; nobody but the agent lists or writes."""
    before = os.umask(mask)
    try:
        StateDir.open(tmp_path / "state").close()
    finally:
        os.umask(before)
    assert modes(tmp_path / "state") == FOLDERS


def test_it_is_opened_again_and_what_is_missing_is_made(path: Path) -> None:
    """An agent of a later release may need more; what stands there stays as it is."""
    (path / "hooks").rmdir()
    (path / "spool").chmod(0o700)
    with StateDir.open(path) as state:
        assert state.path == str(path)
        assert [each.path for each in (state.steps, state.spool, state.scratch, state.hooks)] == [
            f"{path}/{name}" for name in ("steps", "spool", "scratch", "hooks")
        ]
    assert modes(path) == FOLDERS | {"spool": 0o700}


def test_who_only_looks_makes_nothing(tmp_path: Path, path: Path) -> None:
    """Neither the folder nor what belongs in it."""
    with pytest.raises(AlreadyGone):
        StateDir.open(tmp_path / "missing", create=False)
    (path / "hooks").rmdir()
    with pytest.raises(AlreadyGone, match="hooks"):
        StateDir.open(path, create=False)
    assert not (path / "hooks").exists()
    assert os.listdir(tmp_path) == ["state"]


def test_the_folders_above_are_made_only_on_demand(tmp_path: Path) -> None:
    """A mount that is missing must not be taken for a node that never ran a job. On demand they are the user's alone."""
    deep = tmp_path / "a" / "b" / "state"
    with pytest.raises(AlreadyGone):
        StateDir.open(deep)
    StateDir.open(deep, parents=True).close()
    StateDir.open(deep, parents=True).close()
    assert [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in ("a", "a/b", "a/b/state")] == [0o700, 0o700, 0o711]


def test_no_descriptor_is_inherited_and_none_stays(path: Path) -> None:
    """All of them close-on-exec, and closed at the end, however often; also where opening fails in the middle."""
    before = descriptors()
    with StateDir.open(path) as state:
        opened = descriptors() - before
        assert len(opened) == 10  # five folders, each with the one above
        assert not any(map(os.get_inheritable, opened))
        state.close()
    assert descriptors() == before
    (path / "hooks").chmod(0o777)
    with pytest.raises(NotPermitted):
        StateDir.open(path)
    assert descriptors() == before


def put_link(path: Path) -> None:
    path.symlink_to("elsewhere")


def put_folder(path: Path) -> None:
    path.mkdir()


def put_fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


def put_second_name(path: Path) -> None:
    path.with_name("other").touch(mode=0o600)
    path.hardlink_to(path.with_name("other"))


def put_open(mode: int) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        path.touch()
        path.chmod(mode)

    return put


def put_foreign(path: Path) -> None:
    path.touch(mode=0o600)
    os.chown(path, 65534, 65534)


BAD = [
    (put_link, "is a symbolic link"),
    (put_folder, "is no regular file"),
    (put_fifo, "is no regular file"),
    (put_socket, "is no regular file"),
    (put_second_name, "has 2 names"),
    (put_open(0o620), "may be written by others: its mode is 0620"),
    (put_open(0o602), "may be written by others: its mode is 0602"),
]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("put", "problem"), BAD, ids=[problem[:40] for _, problem in BAD])
def test_a_file_that_is_not_the_agents_is_refused_and_named(
    path: Path, name: str, put: Callable[[Path], None], problem: str
) -> None:
    """Whatever it is, and it is not opened: a FIFO blocks nobody."""
    put(path / name)
    with pytest.raises(NotPermitted) as caught:
        StateDir.open(path)
    assert str(caught.value) == f"cannot trust the state folder '{path}': {name} {problem}"


@pytest.mark.needs_root
def test_a_file_of_another_user_is_refused(path: Path) -> None:
    """With the user's number."""
    put_foreign(path / "agent.db")
    with pytest.raises(NotPermitted, match=r"agent\.db belongs to user 65534"):
        StateDir.open(path)


@pytest.mark.parametrize(("put", "problem"), [(put_link, "is a symbolic link"), (put_open(0o600), "is no socket")])
def test_the_socket_is_one_or_nothing(path: Path, put: Callable[[Path], None], problem: str) -> None:
    """One that an earlier agent left is fine."""
    put_socket(path / SOCKET_NAME)
    (path / SOCKET_NAME).chmod(0o666)
    StateDir.open(path).close()
    (path / SOCKET_NAME).unlink()
    put(path / SOCKET_NAME)
    with pytest.raises(NotPermitted, match=f"{SOCKET_NAME} {problem}"):
        StateDir.open(path)


def test_every_bad_part_is_named(path: Path) -> None:
    """All at once."""
    put_link(path / "owner")
    put_fifo(path / "agent.db")
    with pytest.raises(NotPermitted, match=r"owner is a symbolic link; agent\.db is no regular file"):
        StateDir.open(path)


def test_what_the_agent_and_its_users_need_is_fine(path: Path) -> None:
    """Files as SQLite makes them, and what somebody else left there that nobody reads."""
    for name in FILES:
        put_open(0o644)(path / name)
    (path / "lost+found").mkdir()
    (path / "notes").symlink_to("elsewhere")
    StateDir.open(path).close()


@pytest.mark.parametrize("name", [name for name in FOLDERS if name])
@pytest.mark.parametrize("kind", ["link", "file", "group", "others"])
def test_a_folder_that_is_not_the_agents_is_refused_and_named(path: Path, name: str, kind: str) -> None:
    """A link to a folder that would do, too."""
    if kind in ("link", "file"):
        (path / name).rename(path / "elsewhere")
        put_link(path / name) if kind == "link" else (path / name).touch()
    else:
        (path / name).chmod(FOLDERS[name] | (0o020 if kind == "group" else 0o002))
    with pytest.raises(SystemCallError, match=f"{path}/{name}"):
        StateDir.open(path)


@pytest.mark.parametrize("mode", [0o755, 0o731, 0o713, 0o777])
def test_a_folder_that_others_may_list_or_write_is_refused(path: Path, mode: int) -> None:
    """Of the state folder itself."""
    path.chmod(mode)
    with pytest.raises(NotPermitted, match=f"its mode is 0{mode:o}, not 0711"):
        StateDir.open(path)


@pytest.mark.needs_root
@pytest.mark.parametrize("mode", [0o700, 0o710, 0o701])
def test_roots_folder_has_to_let_jobs_pass(path: Path, mode: int) -> None:
    """Better at the start than each job with a script that it cannot open."""
    path.chmod(mode)
    with pytest.raises(NotPermitted, match="no job of another user could run"):
        StateDir.open(path)


def test_a_link_on_the_way_is_refused(tmp_path: Path, path: Path) -> None:
    """And where the folder itself is one."""
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "direct").symlink_to(path)
    for way in (tmp_path / "link" / "state", tmp_path / "direct"):
        with pytest.raises(NotPermitted, match="symbolic link"):
            StateDir.open(way)


def test_in_a_removed_folder_nothing_is_made_again(path: Path) -> None:
    """By none of the descriptors, and through the socket's address neither, though a folder stands at the path again."""
    with StateDir.open(path) as state:
        seen = [state.removed]
        shutil.rmtree(path)
        assert [*seen, state.removed] == [False, True]
        path.mkdir()
        for folder in (state.folder, state.steps, state.spool, state.scratch, state.hooks):
            with pytest.raises(AlreadyGone):
                folder.create_folder("x")
            with pytest.raises(AlreadyGone):
                folder.replace_file("x", b"")
        with socket.socket(socket.AF_UNIX) as end, pytest.raises(FileNotFoundError):
            end.bind(state.socket_address)
        assert os.listdir(path) == []


def test_the_socket_is_reached_however_long_the_path(tmp_path: Path) -> None:
    """Paths of sockets end at 107 bytes: unix(7)."""
    long = tmp_path / ("x" * 200)
    with StateDir.open(long) as state, socket.socket(socket.AF_UNIX) as end:
        end.bind(state.socket_address)
        assert stat.S_ISSOCK(os.stat(state.socket_path).st_mode)
        assert state.socket_path == f"{long}/control.sock"
