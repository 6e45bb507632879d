"""What a step's name and its lock have to outlast: a launcher that dies, an adopter, a host that concludes in between."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from spurproc import ExitInfo, ProcessIdentity, RuntimeId, SpawnPlan, Step, StepSpec, SystemCallError
from spurproc.client.host_link import HostLink
from spurproc.client.launch import _first_lock
from spurproc.client.withdrawal import withdrawn
from spurproc.core.durable.journal import JOURNAL_NAME, Journal
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.proto.codec import encode
from spurproc.proto.journal_record import ExitObserved, HookBegun, JournalRecord
from spurproc.proto.launch_record import LAUNCH_NAME
from spurproc.proto.messages import Launch
from spurproc.proto.step_folder import StateFolder, StepFolder
from spurproc.stepd.forking import ForkRequest, fork_supervisor
from tests.asleep import await_sleep
from tests.pace import readable
from tests.reaper import children_of
from tests.relatives import in_fork
from tests.steps import WAIT_S, Steps

STEP = RuntimeId(1, 1, 0)
_CLONE_NEWPID = 0x20000000


@pytest.fixture
def published(steps: Steps, tmp_path: Path) -> Iterator[tuple[StateFolder, StepFolder, FolderLock]]:
    """A step as its launcher leaves it behind row 2, its lock held."""
    spec = StepSpec(runtime_id=STEP, plan=SpawnPlan(argv=["touch", tmp_path / "ran"]))
    with StateFolder.open(steps.path, create=True) as state, state.runtime.create_folder(str(STEP)) as folder:
        lock = FolderLock.take(folder, create=True)
        assert lock is not None
        os.close(folder.create_file(LAUNCH_NAME, encode(spec.record())))
        Journal.create(folder)
        with lock:
            yield state, StepFolder(folder, STEP), lock


def record(step: StepFolder, line: JournalRecord) -> None:
    path = Path(step.folder.path, JOURNAL_NAME)
    path.write_bytes(path.read_bytes() + encode(line) + b"\n")


def test_a_step_that_was_concluded_before_its_supervisor_had_the_lock_never_runs(
    steps: Steps, published: tuple[StateFolder, StepFolder, FolderLock], tmp_path: Path
) -> None:
    """Another host can have the lock while it is moved, and record NOT_STARTED: that stands, and nothing is exec'd."""
    state, step, lock = published
    end = ExitInfo.not_started("GATE", 0, reason="concluded by another host")
    record(step, ExitObserved(at=time.time(), end=end))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    link = HostLink.open(state)
    link.send(Launch(runtime_id=STEP), (step.folder.fileno(), lock.fileno(), theirs.fileno()))
    link.close()
    theirs.close()
    lock.hand_over()
    with ours:
        ours.settimeout(WAIT_S)
        assert ours.recv(1) == b"", "no supervisor says that it is ready"
    adopted = Step.open(steps.path, STEP)
    assert adopted.wait(WAIT_S, completed=True).reason == "concluded by another host"
    assert not (tmp_path / "ran").exists()


def test_who_only_looks_while_the_lock_is_moved_is_waited_for(
    steps: Steps, published: tuple[StateFolder, StepFolder, FolderLock]
) -> None:
    """The supervisor frees the lock that it is given, and takes one of its own: in between a reader may have it for a moment."""
    state, step, reader = published
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    given = os.open(f"{step.folder.path}/lock", os.O_RDWR | os.O_CLOEXEC)
    with closing(HostLink.open(state)) as link:
        link.send(Launch(runtime_id=STEP), (step.folder.fileno(), given, theirs.fileno()))
        theirs.close()
        os.close(given)
        while (supervisor := _supervisor_of(_peer(link))) is None:
            assert not readable(ours.fileno(), 0), "it has given up"
        await_sleep(supervisor, "poll")
    reader.close()
    with ours:
        ours.settimeout(WAIT_S)
        assert b"welcome" in ours.recv(65536)
    steps.keep(Step.open(steps.path, STEP)).terminate()


def test_who_only_looks_at_a_new_folder_is_waited_for(tmp_path: Path) -> None:
    """An fsck, or a `gc`, may have the lock of the file that the launcher has just made before the launcher has it."""
    found: list[FolderLock] = []
    with PrivateFolder.create(tmp_path / ".new") as folder:
        reader = FolderLock.take(folder, create=True)
        assert reader is not None
        launcher = threading.Thread(target=lambda: found.append(_first_lock(folder)))
        with reader:
            launcher.start()
            assert launcher.native_id is not None
            await_sleep(launcher.native_id, "poll")
        launcher.join()
        (lock,) = found
        with lock:
            assert FolderLock.take(folder) is None


def _supervisor_of(host: int) -> int | None:
    """The child that is called so."""
    for pid in children_of(host):
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended
            if Path(f"/proc/{pid}/comm").read_text() == f"spurstepd {STEP}\n":
                return pid
    return None


def _peer(link: HostLink) -> int:
    """Its pid; unix(7), SO_PEERCRED."""
    return int(struct.unpack("=iII", link._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def _said_elsewhere(step: StepFolder, lock: FolderLock) -> str:
    """What a supervisor says that this process forks into another pid namespace."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    host = ProcessIdentity.of(os.getpid())
    if ctypes.CDLL(None).unshare(_CLONE_NEWPID) != 0:
        raise OSError("cannot leave the pid namespace")
    fds = {"lock_fd": lock.fileno(), "connection_fd": theirs.fileno()}
    fork_supervisor(ForkRequest(step=step, host=host, root=None, **fds))
    theirs.close()
    return ours.recv(1000).decode()


@pytest.mark.needs_root
def test_a_supervisor_that_stands_elsewhere_than_its_host_gives_up(published: tuple[StateFolder, StepFolder, FolderLock]) -> None:
    """In another pid namespace its own number is a stranger's in /proc, and nothing is written down of that."""
    _, step, lock = published
    assert in_fork(partial(_said_elsewhere, step, lock)) == ""
    assert step.descriptor() is None


def test_a_launch_whose_prolog_may_have_run_is_not_taken_back(published: tuple[StateFolder, StepFolder, FolderLock]) -> None:
    """Its epilog is owed: an adopter has started it meanwhile."""
    state, step, lock = published
    record(step, HookBegun(at=time.time(), hook="prolog"))
    lock.close()
    raised = withdrawn(state, step, SystemCallError(110, "it says nothing in time"))
    assert "its prolog may have run: it can be adopted as 1.1.0" in str(raised)
    assert step.folder.is_named()


def test_who_starts_a_step_makes_its_name_durable_first(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launcher may have died before it did: a power cut would undo the name of a step that has run."""
    step = steps.launch(["true"], start=False)
    synced: list[str] = []
    monkeypatch.setattr(PrivateFolder, "sync_above", lambda folder: synced.append(folder.path))
    step.start()
    assert synced == [str(steps.path / "runtime" / str(step.runtime_id))]
    assert step.wait(WAIT_S).succeeded
