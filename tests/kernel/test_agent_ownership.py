"""Taking and checking the ownership of a state folder, where the kernel or somebody else has a say."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.agent.node.ownership import OwnerRecord, Ownership, OwnershipState
from spurproc.agent.node.readiness import Readiness, ReadyRecord
from spurproc.agent.node.state_dir import OWNER_NAME, StateDir
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.recorded.watch import FolderWatch
from spurproc.errors import AlreadyGone, AlreadyOwned, InvalidArgument, NotPermitted, OwnershipLost, SystemCallError
from spurproc.proto.codec import encode
from tests.descriptors import descriptors_left
from tests.relatives import NOBODY, in_fork


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of the state folder; nothing stands there."""
    return tmp_path / "state"


@pytest.fixture
def state(path: Path) -> Iterator[StateDir]:
    """It, open."""
    with StateDir.open(path) as opened:
        yield opened


class Holder:
    """Another process's lock, as far as flock(2) is concerned; the file says that `identity` has it."""

    def __init__(self, path: Path, identity: ProcessIdentity | None) -> None:
        self.fd = os.open(path / OWNER_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if identity is not None:
            os.write(self.fd, encode(OwnerRecord(identity_text=identity.to_text(), version="0", started_at_s=1.0)))
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def let_go(self) -> None:
        """The lock is free. May be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@pytest.fixture
def gone() -> ProcessIdentity:
    """Of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        return ProcessIdentity.of(process.pid)


class _Waiting:
    """In place of the wait between two tries: acts, and does not wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, acts: list[object]) -> None:
        self.count = 0
        self._acts = acts
        monkeypatch.setattr(select, "poll", lambda: self)

    def poll(self, _timeout_ms: float) -> list[object]:
        self.count += 1
        act = self._acts.pop(0) if self._acts else None
        if callable(act):
            act()
        return []


def test_a_lock_on_its_way_out_is_waited_for(
    state: StateDir, path: Path, gone: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent that the file names is gone: a child that had not reached its exec had a copy for a moment."""
    holder = Holder(path, gone)
    waiting = _Waiting(monkeypatch, [None, holder.let_go])
    with Ownership.take(state) as owned:
        assert owned.check() is OwnershipState.HELD
    assert waiting.count == 2


def test_a_lock_that_stays_is_refused_in_the_end(state: StateDir, path: Path, gone: ProcessIdentity) -> None:
    """With what the file says, which is all that is known."""
    holder = Holder(path, gone)
    with pytest.raises(AlreadyOwned) as caught:
        Ownership.take(state, timeout_s=0.05)
    assert caught.value.owner == gone.to_text()
    holder.let_go()


def test_an_owner_that_lives_is_not_waited_for(state: StateDir, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second agent is told at once."""
    holder = Holder(path, ProcessIdentity.of(os.getpid()))
    waiting = _Waiting(monkeypatch, [])
    with pytest.raises(AlreadyOwned, match=f"process {os.getpid()}, spurd 0,"):
        Ownership.take(state)
    assert waiting.count == 0
    holder.let_go()


@pytest.mark.parametrize("content", [None, b"", b"x", b'{"v":1,"identity":"x","version":"1","started_at_s":0}', b"x" * 5000])
def test_a_holder_that_does_not_say_who_it_is_is_refused_all_the_same(state: StateDir, path: Path, content: bytes | None) -> None:
    """The lock counts, and not what the file says."""
    holder = Holder(path, None)
    os.write(holder.fd, content or b"")
    with pytest.raises(AlreadyOwned, match="does not say who") as caught:
        Ownership.take(state, timeout_s=0.02)
    assert caught.value.owner is None
    holder.let_go()


def test_a_file_replaced_while_it_is_taken_is_not_owned(state: StateDir, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened, then replaced, then locked: such a lock excludes nobody, and no descriptor of it stays."""
    Ownership.take(state).close()
    flock = fcntl.flock

    def replace_first(fd: int, operation: int) -> None:
        (path / OWNER_NAME).unlink()
        (path / OWNER_NAME).touch()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", replace_first)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(AlreadyGone):
        Ownership.take(state)
    assert os.listdir("/proc/self/fd") == before


def test_a_folder_replaced_before_it_is_taken_is_not_owned(state: StateDir, path: Path) -> None:
    """It was opened, then somebody moved it: owning it would mean nothing for who opens the path."""
    path.rename(path.with_name("elsewhere"))
    path.mkdir()
    with pytest.raises(AlreadyGone):
        Ownership.take(state)
    assert os.listdir(path) == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda name: os.symlink("elsewhere", name)])
def test_what_was_put_in_place_of_the_lock_is_refused(state: StateDir, path: Path, make: object) -> None:
    """After the folder was opened, which has looked at it: a link is not followed, and a FIFO blocks nobody."""
    assert callable(make)
    make(str(path / OWNER_NAME))
    with pytest.raises(SystemCallError):
        Ownership.take(state)
    assert not (path / "elsewhere").exists()


def test_a_look_takes_no_descriptor(state: StateDir) -> None:
    """Who runs out of them must not take that for a loss."""
    with Ownership.take(state) as owned, descriptors_left(0):
        assert owned.check() is OwnershipState.HELD
        owned.require()


def test_require_raises_what_was_lost(state: StateDir, path: Path) -> None:
    """With the reason."""
    with Ownership.take(state) as owned:
        assert owned.reason == ""
        (path / OWNER_NAME).unlink()
        with pytest.raises(OwnershipLost, match=f"{path}' is not owned any more: nothing stands at"):
            owned.require()


def test_what_was_given_up_cannot_be_checked(state: StateDir) -> None:
    """That is a mistake of the caller, and neither held nor lost. Another may own it then."""
    owned = Ownership.take(state)
    owned.close()
    owned.close()
    with pytest.raises(InvalidArgument, match="given up"):
        owned.check()
    Ownership.take(state, timeout_s=0).close()


def test_what_was_given_up_is_free_though_a_child_has_a_copy(state: StateDir) -> None:
    """As one has that another thread has cloned and that is not exec'd yet. The owner that the file names lives: nobody waits."""
    owned = Ownership.take(state)
    copy = os.dup(owned._fd)
    owned.close()
    Ownership.take(state).close()
    os.close(copy)


def test_a_fork_leaves_the_lock_to_its_owner(state: StateDir) -> None:
    """It gives up its own copy, and nothing else."""
    with Ownership.take(state) as owned:
        assert in_fork(lambda: owned._fd) == -1
        with pytest.raises(AlreadyOwned):
            Ownership.take(state)


@pytest.mark.needs_root
def test_a_look_that_is_not_permitted_tells_nothing() -> None:
    """Neither held nor lost: an error, and held again once it can be seen."""

    def look(above: Path) -> list[object]:
        with StateDir.open(above / "state") as state, Ownership.take(state) as owned:
            above.chmod(0)
            with pytest.raises(NotPermitted):
                owned.check()
            above.chmod(0o700)
            return [owned.check().value]

    with tempfile.TemporaryDirectory() as name:
        os.chown(name, NOBODY, NOBODY)
        assert in_fork(lambda: look(Path(name)), uid=NOBODY) == ["held"]


@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(mount=True)
def test_a_mount_over_the_folder_replaces_it(state: StateDir, path: Path) -> None:
    """Until it is gone, and after that, too: lost is lost."""
    with Ownership.take(state) as owned:
        subprocess.run(["mount", "-t", "tmpfs", "none", str(path)], check=True)
        assert owned.check() is OwnershipState.REPLACED
        subprocess.run(["umount", str(path)], check=True)
        assert owned.check() is OwnershipState.REPLACED


def test_the_wait_is_short(state: StateDir, path: Path, gone: ProcessIdentity, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten milliseconds between two looks: real ones, on a clock that is moved on by them."""
    holder = Holder(path, gone)
    waited: list[float] = []
    real = select.poll

    class Counted:
        def poll(self, timeout_ms: float) -> list[object]:
            waited.append(timeout_ms)
            real().poll(timeout_ms)
            return []

    monkeypatch.setattr(select, "poll", Counted)
    with pytest.raises(AlreadyOwned):
        Ownership.take(state, timeout_s=0.03)
    holder.let_go()
    assert waited
    assert set(waited) == {10}


def test_a_lost_folder_is_not_written_for_a_moment_either(state: StateDir, path: Path) -> None:
    """Whoever has it now may look at what comes and goes there."""
    record = ReadyRecord(
        node_name="n",
        identity_text=ProcessIdentity.of(os.getpid()).to_text(),
        version="1",
        socket="",
        started_at_s=0,
        heartbeat_at_s=0,
        heartbeat_interval_s=0,
        registered=False,
    )
    with Ownership.take(state) as owned:
        ready = Readiness(state, owned)
        assert ready.publish(record) is OwnershipState.HELD
        (path / OWNER_NAME).unlink()
        watch = FolderWatch(state.folder.fileno())
        assert ready.publish(record) is OwnershipState.REPLACED
        ready.withdraw()
        seen = select.poll()
        seen.register(watch.fileno(), select.POLLIN)
        assert seen.poll(0) == []
        watch.close()
