"""Agents that own a state folder: one of them, until the folder is not there any more, and then nothing of it comes back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from spurproc.agent.node.ownership import Ownership, OwnershipState
from spurproc.agent.node.readiness import ReadyRecord, read_ready
from spurproc.agent.node.state_dir import OWNER_NAME, READY_NAME, StateDir
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import AlreadyOwned
from tests.pidfds import open_pidfd

# argv: the state folder, and after which function of which class it stops itself, once it was told so. Does what it is told.
_AGENT = """
import os, signal, subprocess, sys
from spurproc.agent.node import ownership, quarantine, readiness, state_dir
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import SpurprocError
path, *stop = sys.argv[1:]
armed = []
def stop_after(owner, name, nth):
    original = getattr(owner, name)
    def called(*arguments, **more):
        result = original(*arguments, **more)
        if armed:
            armed.append(name)
            if len(armed) == nth + 1:
                del armed[:]
                signal.raise_signal(signal.SIGSTOP)
        return result
    setattr(owner, name, called)
if stop:
    places = {"Ownership": ownership.Ownership, "PrivateFolder": PrivateFolder, "os": os}
    stop_after(places[stop[0]], stop[1], int(stop[2]))
state = state_dir.StateDir.open(path)
try:
    owned = ownership.Ownership.take(state)
except SpurprocError as error:
    print(type(error).__name__, error, flush=True)
    sys.exit(3)
ready = readiness.Readiness(state, owned)
record = readiness.ReadyRecord(
    node_name="n", identity_text=ProcessIdentity.of(os.getpid()).to_text(), version="1", socket=state.socket_path,
    started_at_s=1.0, heartbeat_at_s=2.0, heartbeat_interval_s=3.0, registered=True)
print("owned", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "arm":
        armed.append("armed")
        answer = "armed"
    elif word == "check":
        answer = owned.check().value
    elif word == "publish":
        answer = ready.publish(record).value
    elif word == "withdraw":
        answer = str(ready.withdraw())
    elif word == "fork":
        if os.fork() == 0:
            print(os.getpid(), flush=True)  # by then it has given up what it was not to have
            os.read(0, 1)
            os._exit(0)
        continue
    elif word == "exec":
        child = subprocess.Popen(["sleep", "1000"], close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        answer = child.pid
    print(answer, flush=True)
"""


class Agent:
    """A process that owns, or tries to. Ended with the test."""

    def __init__(self, path: Path, *stop: str) -> None:
        argv = [sys.executable, "-c", _AGENT, str(path), *stop]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.line()

    def line(self) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, word: str) -> None:
        """Without waiting for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def ask(self, word: str) -> str:
        """And the answer."""
        self.tell(word)
        return self.line()

    def wait_stopped(self) -> None:
        """Until it stands still at its place."""
        found = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        assert found.si_code == os.CLD_STOPPED

    def go_on(self) -> str:
        """Continued; what it answers then."""
        self.process.send_signal(signal.SIGCONT)
        return self.line()

    def kill(self) -> None:
        """As a crash does it."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        for end in (self.process.stdin, self.process.stdout):
            assert end is not None
            end.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of the state folder; nothing stands there."""
    return tmp_path / "above" / "state"


@pytest.fixture
def agent(path: Path) -> Iterator[Agent]:
    """One that owns it."""
    path.parent.mkdir()
    with Agent(path) as started:
        assert started.said == "owned"
        yield started


def everything_in(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))


# Two agents


def test_a_second_agent_is_refused_with_the_identity_of_the_first(agent: Agent, path: Path) -> None:
    """In the error, and for whoever reads it as a program."""
    with Agent(path) as second:
        assert second.said.startswith(f"AlreadyOwned cannot own the state folder '{path}': process {agent.process.pid}, spurd ")
        assert second.process.wait() == 3
    with StateDir.open(path) as state, pytest.raises(AlreadyOwned) as caught:
        Ownership.take(state)
    assert caught.value.owner == ProcessIdentity.of(agent.process.pid).to_text()
    assert agent.ask("check") == "held"


def test_a_refused_agent_changes_nothing(agent: Agent, path: Path) -> None:
    """Not even the name in the file."""
    agent.ask("publish")
    before = {each: (path / each).read_bytes() for each in (OWNER_NAME, READY_NAME)}
    with Agent(path) as second:
        second.process.wait()
    assert {each: (path / each).read_bytes() for each in before} == before


@pytest.mark.parametrize("how", ["fork", "exec"])
def test_no_child_keeps_the_ownership_of_an_agent_that_was_killed(agent: Agent, path: Path, how: str) -> None:
    """Neither one that execs nor one that does not has a descriptor of the state folder's lock."""
    pidfd = open_pidfd(int(agent.ask(how)))
    try:
        agent.kill()
        with StateDir.open(path) as state, Ownership.take(state, timeout_s=0) as owned:
            assert owned.check() is OwnershipState.HELD
    finally:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)


def test_a_program_that_inherits_all_descriptors_inherits_none_of_the_state_folder(agent: Agent, path: Path) -> None:
    """Folders as well as the lock are close-on-exec."""
    pid = int(agent.ask("exec"))
    pidfd = open_pidfd(pid)
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert [link for link in links if link.startswith(str(path))] == []
    finally:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)


def test_the_next_agent_takes_over_what_a_killed_one_left(agent: Agent, path: Path) -> None:
    """At once, and it says so in the file."""
    agent.ask("publish")
    agent.kill()
    with Agent(path) as second:
        assert second.said == "owned"
        with StateDir.open(path) as state:
            left = read_ready(state)
        assert left is not None
        assert left.identity.liveness() is Liveness.GONE
        with Agent(path) as third:
            assert f"process {second.process.pid}, " in third.said


# What becomes of the folder


def removed(path: Path) -> None:
    shutil.rmtree(path)


def removed_with_what_is_above(path: Path) -> None:
    shutil.rmtree(path.parent)


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def moved_above(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replaced_by_a_folder(path: Path) -> None:
    moved(path)
    path.mkdir(mode=0o711)


def replaced_by_a_copy(path: Path) -> None:
    moved(path)
    shutil.copytree(path.with_name("elsewhere"), path)


def replaced_by_a_link_to_another(path: Path) -> None:
    moved(path)
    path.with_name("other").mkdir(mode=0o711)
    path.symlink_to("other")


def replaced_by_a_link_to_itself(path: Path) -> None:
    moved(path)
    path.symlink_to("elsewhere")


def replaced_above_by_a_link(path: Path) -> None:
    moved_above(path)
    path.parent.symlink_to("elsewhere")


def replaced_by_a_file(path: Path) -> None:
    moved(path)
    path.touch()


def owner_replaced(path: Path) -> None:
    (path / OWNER_NAME).rename(path / "kept")
    (path / OWNER_NAME).write_bytes((path / "kept").read_bytes())


def owner_removed(path: Path) -> None:
    (path / OWNER_NAME).unlink()


Change = Callable[[Path], None]
REPLACED: list[Change] = [
    moved,
    moved_above,
    replaced_by_a_folder,
    replaced_by_a_copy,
    replaced_by_a_link_to_another,
    replaced_by_a_link_to_itself,
    replaced_above_by_a_link,
    replaced_by_a_file,
    owner_replaced,
    owner_removed,
]
REMOVED: list[Change] = [removed, removed_with_what_is_above]
CHANGES = [*((change, "replaced") for change in REPLACED), *((change, "removed") for change in REMOVED)]
CHANGED = pytest.mark.parametrize(("change", "state"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])


@CHANGED
def test_what_is_lost_is_seen_and_takes_nothing_more(
    agent: Agent, tmp_path: Path, path: Path, change: Change, state: str
) -> None:
    """Nothing is published, nothing is removed, nothing comes back."""
    agent.ask("publish")
    change(path)
    before = everything_in(tmp_path)
    assert [agent.ask(word) for word in ("check", "publish", "publish", "withdraw", "check")] == [
        state,
        state,
        state,
        "None",
        state,
    ]
    assert everything_in(tmp_path) == before


def test_what_was_lost_is_not_owned_again(agent: Agent, path: Path) -> None:
    """Somebody may have owned what stood there meanwhile, even if it is back. Removed is still told from replaced."""
    moved(path)
    assert agent.ask("check") == "replaced"
    path.with_name("elsewhere").rename(path)
    assert (agent.ask("check"), agent.ask("publish")) == ("replaced", "replaced")
    removed(path)
    assert agent.ask("check") == "removed"


def test_a_replacement_is_owned_by_the_next_agent(agent: Agent, path: Path) -> None:
    """Really: it has a lock on what stands there now, and the first has none on that."""
    replaced_by_a_folder(path)
    with Agent(path) as second:
        assert second.said == "owned"
        assert (second.ask("publish"), second.ask("check")) == ("held", "held")
        assert agent.ask("publish") == "replaced"
        with StateDir.open(path) as state:
            ready = read_ready(state)
        assert ready is not None
        assert ready.identity == ProcessIdentity.of(second.process.pid)


# The window: each place in the replacement of the readiness file, at which the agent stands still while its folder goes away.
WINDOW = [
    ("Ownership", "check", "1"),
    ("PrivateFolder", "discard_file", "1"),
    ("PrivateFolder", "create_file", "1"),
    ("Ownership", "check", "2"),
    ("os", "rename", "1"),
]


@pytest.mark.parametrize("place", WINDOW, ids=["-".join(place) for place in WINDOW])
@CHANGED
def test_nothing_comes_back_at_any_place_in_a_replacement(
    tmp_path: Path, path: Path, change: Change, state: str, place: tuple[str, str, str]
) -> None:
    """A replacement was seen; in the next one it is stopped, the folder changes, it goes on: it has made nothing, and knows."""
    path.parent.mkdir()
    with Agent(path, *place) as agent:
        assert agent.ask("publish") == "held"
        assert (path / READY_NAME).exists()
        assert agent.ask("arm") == "armed"
        agent.tell("publish")
        agent.wait_stopped()
        change(path)
        before = everything_in(tmp_path)
        assert agent.go_on() == state
        # In the folder itself, which it still holds, it may finish what it had begun. Nowhere else, and never in a removed one.
        new = set(everything_in(tmp_path)) - set(before)
        assert {Path(each).name for each in new} <= {READY_NAME, f".{READY_NAME}.new"}
        if state == "removed" or (path.exists() and not change.__name__.startswith("owner")):
            assert not any(each.startswith(str(path.relative_to(tmp_path))) for each in new)
        assert (agent.ask("publish"), agent.ask("withdraw")) == (state, "None")


def test_the_readiness_file_is_replaced_whole_and_withdrawn(agent: Agent, path: Path) -> None:
    """Each time another file, complete; at the end none, nor anything beside it."""
    assert agent.ask("publish") == "held"
    first = (path / READY_NAME).stat().st_ino
    with (path / READY_NAME).open() as held:
        assert agent.ask("publish") == "held"
        assert (path / READY_NAME).stat().st_ino != first
        assert os.fstat(held.fileno()).st_nlink == 0
    assert (path / READY_NAME).stat().st_mode & 0o777 == 0o600
    with StateDir.open(path) as state:
        record = read_ready(state)
        assert isinstance(record, ReadyRecord)
        assert record.identity == ProcessIdentity.of(agent.process.pid)
    agent.ask("withdraw")
    assert everything_in(path) == ["hooks", OWNER_NAME, "scratch", "spool", "steps"]
    with StateDir.open(path) as state:
        assert read_ready(state) is None


def test_what_a_killed_agent_had_half_written_is_replaced(tmp_path: Path, path: Path) -> None:
    """The new file stands beside; the next heartbeat is one all the same."""
    path.parent.mkdir()
    with Agent(path, "PrivateFolder", "create_file", "1") as agent:
        agent.ask("arm")
        agent.tell("publish")
        agent.wait_stopped()
    assert (path / f".{READY_NAME}.new").exists()
    with Agent(path) as second:
        assert second.ask("publish") == "held"
        assert not (path / f".{READY_NAME}.new").exists()
