"""A launch that fails takes back what it has published, where nothing of it can have run; else it says what is left."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from spurproc import (
    AlreadyGone,
    Containment,
    LaunchedBefore,
    ProcessIdentity,
    RuntimeId,
    SpawnError,
    SpurprocError,
    Step,
    SystemCallError,
    Unsupported,
    WaitTimeout,
    adopt,
)
from spurproc.client import launch as launch_module
from spurproc.client import withdrawal
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.proto.codec import encode
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.host_folder import host_address, open_host_folder
from spurproc.proto.messages import Refused
from spurproc.proto.step_folder import StateFolder
from tests.steps import WAIT_S, Steps

_NAME = "1.1.0"


def _left(steps: Steps) -> list[str]:
    return os.listdir(steps.path / "runtime")


def test_without_the_program_nothing_is_published(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not there, and one that ends at once."""
    monkeypatch.setenv("SPURPROC_STEPD", "/no/such/spurstepd")
    with pytest.raises(SpawnError, match="/no/such/spurstepd"):
        steps.launch(["true"])
    assert _left(steps) == []
    monkeypatch.setenv("SPURPROC_STEPD", "/bin/false")
    with pytest.raises(Unsupported, match="each that was started has ended at once"):
        steps.launch(["true"])
    assert _left(steps) == []


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_a_supervisor_that_gives_up_before_it_is_ready_leaves_nothing(steps: Steps) -> None:
    """No cgroup may be made below `steps`: its reason is the launcher's error, and the same id can be launched again."""
    root = find_cgroup_root()
    assert root is not None
    most = Path(root.steps, "cgroup.max.descendants")
    most.write_text("0")
    try:
        with pytest.raises(SystemCallError, match=rf"cannot launch step {_NAME}: cannot .*cgroup"):
            steps.launch(["true"], containment=Containment.CGROUP)
    finally:
        most.write_text("max")
    assert _left(steps) == []
    again = Steps(steps.path).launch(["true"], containment=Containment.CGROUP)
    assert (str(again.runtime_id), again.wait(WAIT_S).code) == (_NAME, 0)


Reaction = Callable[[int, int, int], None]
"""What a host does with the three descriptors of a launch: the folder, its lock, the connection."""


@contextmanager
def _host(steps: Steps, react: Reaction) -> Iterator[None]:
    """Another host in the place of ours: it takes one launch, reacts, and is gone with all that it was sent."""
    steps.path.mkdir(mode=0o700)
    with StateFolder.open(steps.path, create=True) as state, open_host_folder(state) as folder:
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listener:
            listener.bind(host_address(folder))
            listener.listen()
            thread = threading.Thread(target=_take_one, args=(listener, react))
            thread.start()
            yield
            thread.join(WAIT_S)
            assert not thread.is_alive()
        os.unlink(host_address(folder))


def _take_one(listener: socket.socket, react: Reaction) -> None:
    peer, _ = listener.accept()
    with peer:
        _, fds, _, _ = socket.recv_fds(peer, 1 << 16, 3)
        try:
            react(*fds)
        finally:
            for fd in fds:
                os.close(fd)


def _say(connection_fd: int, message: Refused) -> None:
    with socket.socket(fileno=os.dup(connection_fd)) as end:
        end.sendall(encode(message) + b"\n")


def _refuse(_folder: int, _lock: int, connection_fd: int) -> None:
    _say(connection_fd, Refused(why="no room for another process"))


def _die(*_: int) -> None:
    return


def _refuse_once_more(_folder: int, _lock: int, connection_fd: int) -> None:
    _say(connection_fd, Refused(why="no", launched_before=True))


def _refuse_in_the_same_words(_folder: int, _lock: int, connection_fd: int) -> None:
    _say(connection_fd, Refused(why="it was launched before"))


@pytest.mark.parametrize(
    ("react", "known"), [(_refuse_once_more, True), (_refuse_in_the_same_words, False)], ids=["says so", "words alone"]
)
def test_a_step_that_its_host_knows_is_told_by_an_error_of_its_own(steps: Steps, react: Reaction, *, known: bool) -> None:
    """Whatever the words are."""
    with _host(steps, react), pytest.raises(SystemCallError, match="the host refuses") as caught:
        steps.launch(["true"])
    assert isinstance(caught.value, LaunchedBefore) is known
    assert _left(steps) == []


@pytest.mark.parametrize(
    ("react", "why"), [(_refuse, "the host refuses: no room for another process"), (_die, "has ended")], ids=["refuses", "dies"]
)
def test_a_host_that_refuses_or_dies_leaves_nothing(steps: Steps, react: Reaction, why: str) -> None:
    """Its lock is free and no leader is on record: under the lock that is proof that nothing ran."""
    with _host(steps, react), pytest.raises(SystemCallError, match=rf"cannot launch step {_NAME}: .*{why}$"):
        steps.launch(["true"])
    assert _left(steps) == []


def test_nothing_runs_before_that_is_noted(steps: Steps) -> None:
    """It stands ready meanwhile; where it cannot be noted nothing is left."""
    seen: list[str | None] = []

    def look() -> None:
        step = Step.open(steps.path, RuntimeId.parse(_NAME))
        seen.append(step.status().state.value)
        seen.append(None if step.status().leader is None else "a leader")

    def fail() -> None:
        raise SystemCallError(errno.ENOSPC, "no space for a note")

    with pytest.raises(SystemCallError, match=rf"cannot launch step {_NAME}: no space for a note$"):
        launch_module.launch(steps.spec(["true"]), steps.path, before_start=fail)
    assert _left(steps) == []
    step = steps.keep(
        launch_module.launch(steps.spec(["true"], runtime_id=RuntimeId.parse(_NAME)), steps.path, before_start=look)
    )
    assert step.wait(WAIT_S).code == 0
    assert seen == ["ready", None]


def _describe_leader(folder_fd: int, _lock: int, _connection: int) -> None:
    """As a supervisor that died right after row 6."""
    me = ProcessIdentity.of(os.getpid()).to_text()
    content = Descriptor(
        runtime_id=RuntimeId.parse(_NAME),
        supervisor_text=me,
        host_text=me,
        containment=Containment.DESCENDANTS,
        leader_text=me,
        joined=True,
    )
    fd = os.open("descriptor.json", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder_fd)
    with closing(os.fdopen(fd, "wb")) as file:
        file.write(encode(content))


def _await(event: threading.Event) -> None:
    event.wait(WAIT_S)


def test_what_may_have_run_is_left_and_named(steps: Steps) -> None:
    """A leader is on record: whoever adopts the step learns its end."""
    why = rf"cannot launch step {_NAME}: .*; its leader may have run: it can be adopted as {_NAME}$"
    with _host(steps, _describe_leader), pytest.raises(SystemCallError, match=why):
        steps.launch(["true"])
    assert [str(step.runtime_id) for step in adopt(steps.path).steps] == [_NAME]
    (steps.path / "runtime" / _NAME / "descriptor.json").unlink()


def test_a_supervisor_that_may_be_at_work_is_left_and_named(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock is held, and it says nothing: it can be adopted."""
    monkeypatch.setattr(launch_module, "_READY_WITHIN_S", 0.1)
    monkeypatch.setattr(withdrawal, "_LOCK_WITHIN_S", 0.1)
    given_up = threading.Event()
    why = rf"cannot launch step {_NAME}: .*says nothing in time; its supervisor may be at work: it can be adopted as {_NAME}$"
    with _host(steps, lambda *_: _await(given_up)):
        with pytest.raises(WaitTimeout, match=why):
            steps.launch(["true"])
        given_up.set()
    assert [str(step.runtime_id) for step in adopt(steps.path).steps] == [_NAME]


def test_nothing_is_left_where_the_disk_is_full(steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the write of the launch record, and at the fsync of the folder above, when a supervisor is there already."""
    steps.launch(["true"]).wait(WAIT_S)  # a host
    real = os.fsync

    def full(fd: int) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(28, "No space left on device")
        real(fd)

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SystemCallError, match="No space left"):
        steps.launch(["true"])
    monkeypatch.setattr("os.fsync", real)
    monkeypatch.setattr("spurproc.core.durable.private_folder.PrivateFolder.sync_above", _raise_eio)
    with pytest.raises(SystemCallError, match=r"cannot launch step 3\.1\.0: cannot fsync"):
        steps.launch(["true"])
    monkeypatch.undo()
    assert [name for name in _left(steps) if not name.startswith("1.")] == []


def _raise_eio(_: object) -> None:
    raise SystemCallError(5, "cannot fsync the folder above: Input/output error")


def test_a_start_that_blocks_is_shown_and_goes_on(steps: Steps, tmp_path: Path) -> None:
    """A FIFO as standard output: it waits for a reader, and its launcher does not."""
    fifo = tmp_path / "out"
    os.mkfifo(fifo)
    step = launch_module.launch(steps.spec(["echo", "hello"], stdout=fifo), steps.path, timeout_s=0.2)
    status = step.status()
    assert (status.state.value, status.blocked_at) == ("starting", "STDOUT")
    with fifo.open("rb") as reader:
        assert reader.read() == b"hello\n"
    assert step.wait(WAIT_S).code == 0


def test_a_launcher_that_fails_leaks_no_descriptor(steps: Steps) -> None:
    """The leak guard looks; a lock that stayed open would keep the next one out."""
    with _host(steps, _die), pytest.raises(SpurprocError):
        steps.launch(["true"])
    step = Steps(steps.path).launch(["true"])
    assert step.wait(WAIT_S).code == 0
    with pytest.raises(AlreadyGone):
        Step.open(steps.path, type(step.runtime_id)(99, 1, 0))
