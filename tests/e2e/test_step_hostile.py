"""Peers that mean ill, or nothing at all: the step is undisturbed, memory bounded, and who speaks as one should is served."""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from spurproc.client.step import Step
from spurproc.proto.messages import HostRequest, Launch, Status, StatusReply, Subscribe, TakeOver
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_state import StepState
from spurproc.version import VERSION
from tests.asleep import await_state
from tests.descriptors import descriptors_left_of
from tests.fifo import Gate
from tests.host_peer import HostPeer
from tests.pace import at_this_pace
from tests.relatives import NOBODY, in_fork
from tests.step_peer import StepPeer
from tests.steps import WAIT_S, Steps

GROWTH_KIB = 2048
"""Of a process that holds tens of megabytes, mostly shared: what a buffer, a few connections and the allocator may add."""
_SECONDS = 25  # longer than anybody is waited for to say Hello
SERVED_WITHIN_S = 5.0
STATUS = b'{"request":"status","runtime_id":{"job_id":1,"run_attempt":1,"step_id":0}}\n'


def resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture
def running(steps: Steps, gate: Callable[[str], Gate]) -> Iterator[Step]:
    """A step that runs from before the attack until after it, and ends as it should have without."""
    go = gate("go")
    step = steps.launch(["sh", "-c", f"read x <{go.path}; exit 33"])
    with undisturbed(steps, step):
        yield step
    go.open()
    assert step.wait(WAIT_S, completed=True).code == 33


@contextmanager
def undisturbed(steps: Steps, step: Step) -> Iterator[None]:
    """Supervisor and host are the same afterwards, and have grown by no more than a bound; whoever asks now is answered."""
    before = steps.descriptor(step)
    keepers = (before.supervisor.pid, before.host.pid)
    ask(step)
    for pid in keepers:
        await_state(pid, "S")  # the host was woken by a leader handed over to it before the step ran, and holds it by now
    sizes, files = [resident_kib(pid) for pid in keepers], [open_files(pid) for pid in keepers]
    yield
    asked = time.monotonic()
    ask(step)
    assert time.monotonic() - asked < at_this_pace(SERVED_WITHIN_S)
    grown = [resident_kib(pid) - size for pid, size in zip(keepers, sizes, strict=True)]
    print(f"grown by {grown} KiB")
    assert max(grown) < GROWTH_KIB
    assert steps.descriptor(step) == before
    with HostPeer(steps.path) as peer:
        until = time.monotonic() + WAIT_S  # others that were launched meanwhile are left by their supervisors after a while
        while not all(open_files(pid) <= count + 1 for pid, count in zip(keepers, files, strict=True)):
            assert time.monotonic() < until, "descriptors were kept"
            peer.say(TakeOver(runtime_id=step.runtime_id))
            assert peer.hear()


def ask(step: Step) -> None:
    with StepPeer(step).greet() as peer:
        peer.say(Status(runtime_id=step.runtime_id))
        answer = peer.hear()
        assert isinstance(answer, StatusReply)
        assert answer.state is StepState.RUNNING


GARBAGE = [
    b"\n",
    b"\0\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff\xfe\xfd\n",
    b"{}\n",
    b"[]\n",
    b"null\n",
    b"[" * 60000 + b"\n",
    b'{"request":' * 5000 + b"\n",
    b'{"request":"hello"}\n',
    b'{"request":"hello","runtime_id":null,"capability":""}\n',
    b'{"request":"hello","runtime_id":{"job_id":1e400,"run_attempt":1,"step_id":0},"capability":""}\n',
    b'{"request":"hello","runtime_id":{"job_id":0,"run_attempt":0,"step_id":0},"capability":""}\n',
    b'{"request":"nothing","runtime_id":{"job_id":1,"run_attempt":1,"step_id":0}}\n',
]


@pytest.mark.parametrize("greeted", [False, True])
def test_garbage_is_answered_once_and_hung_up_on(running: Step, greeted: bool) -> None:
    for garbage in GARBAGE:
        with StepPeer(running) as peer:
            if greeted:
                peer.greet()
            with suppress(BrokenPipeError):
                peer.say(garbage)
            assert peer.wait_hung_up().count(b"\n") <= 1


BAD_PLANS = [
    '"steps":[]',
    '"steps":[[15,-1],[9,null]]',
    '"steps":[[15,null],[9,null]]',
    '"steps":[[0,1]]',
    '"steps":[[99999999999999999999,null]]',
    '"steps":[["a",null]]',
]


def test_a_kill_plan_that_is_none_ends_nothing(running: Step) -> None:
    for plan in BAD_PLANS:
        with StepPeer(running).greet() as peer:
            peer.say(STATUS[:-2].replace(b"status", b"terminate") + b',"plan":{' + plan.encode() + b"}}\n")
            assert b"refused" in peer.wait_hung_up(), plan


@pytest.mark.parametrize("greeted", [False, True])
def test_a_gibibyte_without_a_newline_is_cut_short(running: Step, greeted: bool) -> None:
    sent, chunk = 0, b"a" * (1 << 16)
    with StepPeer(running) as peer:
        if greeted:
            peer.greet()
        with suppress(BrokenPipeError, ConnectionResetError):
            while sent < 1 << 30:
                sent += peer.socket.send(chunk)
        peer.wait_hung_up()
    assert sent < 1 << 21, "no more than a few buffers of it were ever taken"


def test_those_who_send_one_byte_and_wait_keep_nobody_out(running: Step) -> None:
    with ExitStack() as held:
        for _ in range(200):
            held.enter_context(StepPeer(running)).say(b"{")
        ask(running)
        for _ in range(200):
            held.enter_context(StepPeer(running)).say(b"{")


def test_one_byte_a_second_keeps_nobody_waiting(running: Step) -> None:
    """Who has not said Hello in time is hung up on, busy as it looks. Who was let in may take its time. Others are served."""
    with StepPeer(running) as slow, StepPeer(running).greet() as patient:
        poll = select.poll()
        poll.register(slow.socket, select.POLLIN)
        patient.say(STATUS[:-_SECONDS])
        rest = STATUS[-_SECONDS:]
        while not poll.poll(1000):
            assert rest, "it was never hung up on"
            with suppress(BrokenPipeError):  # it may be hung up on between the look and the byte: the next look sees that
                slow.say(b"{")
            patient.say(rest[:1])
            rest = rest[1:]
            ask(running)
        assert slow.wait_hung_up() == b""
        patient.say(rest)
        assert isinstance(patient.hear(), StatusReply)


@pytest.mark.parametrize("who", ["supervisor", "host"])
def test_a_thousand_who_come_and_go(steps: Steps, running: Step, who: str) -> None:
    for _ in range(1000):
        with StepPeer(running) if who == "supervisor" else HostPeer(steps.path):
            pass


@pytest.mark.parametrize("who", ["supervisor", "host"])
def test_a_thousand_at_once(steps: Steps, running: Step, who: str) -> None:
    """They stay as long as they can. Whoever speaks meanwhile is served."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with ExitStack() as held:
            for _ in range(1000):
                held.enter_context(StepPeer(running) if who == "supervisor" else HostPeer(steps.path))
            began = time.monotonic()
            ask(running)
            assert steps.launch(["true"]).wait(WAIT_S).succeeded
            assert time.monotonic() - began < at_this_pace(SERVED_WITHIN_S)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask_without_end(peer: StepPeer) -> None:
    while True:
        peer.say(STATUS * 100)


def test_one_who_asks_and_does_not_read_is_hung_up_on(running: Step) -> None:
    """What it is told and does not take is kept only up to a bound."""
    with StepPeer(running).greet() as peer:
        peer.say(Subscribe(runtime_id=running.runtime_id))
        peer.socket.settimeout(WAIT_S)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            ask_without_end(peer)
    ask(running)


def test_one_who_asks_the_host_and_does_not_read_is_told_no_more(steps: Steps, running: Step) -> None:
    with HostPeer(steps.path) as peer:
        for number in range(2000):
            peer.say(TakeOver(runtime_id=RuntimeId(number + 1, 1, 0)))
        assert steps.launch(["true"]).wait(WAIT_S).succeeded


def pipes(made: ExitStack, count: int) -> tuple[list[int], list[int]]:
    """Reading ends, and writing ends to be sent along."""
    ends = [os.pipe() for _ in range(count)]
    for read, _ in ends:
        made.callback(os.close, read)
    return [read for read, _ in ends], [write for _, write in ends]


def let_go_of(reading: list[int], writing: list[int]) -> None:
    """The sender's own ends are closed here; end of file: nobody else has kept one."""
    for fd in writing:
        os.close(fd)
    for fd in reading:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(WAIT_S * 1000), "somebody holds what was sent along"
        assert os.read(fd, 1) == b""


def test_descriptors_that_nobody_asked_for_are_not_kept_by_a_supervisor(running: Step) -> None:
    with ExitStack() as made, StepPeer(running).greet() as peer:
        reading, writing = pipes(made, 100)
        peer.socket.sendmsg([STATUS], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", writing))])
        assert isinstance(peer.hear(), StatusReply)
        let_go_of(reading, writing)


@pytest.mark.parametrize("what", ["launch", "garbage", "take over"])
def test_descriptors_that_nobody_asked_for_are_not_kept_by_a_host(steps: Steps, running: Step, what: str) -> None:
    """Three with a launch are what belongs to it: of another kind than a folder, a lock and a connection."""
    said: HostRequest | bytes = {
        "launch": Launch(runtime_id=running.runtime_id),
        "garbage": b"garbage",
        "take over": TakeOver(runtime_id=running.runtime_id),
    }[what]  # type: ignore[assignment]  # its values have that in common
    for count in (1, 2, 3, 4, 5, 250):
        with ExitStack() as made, HostPeer(steps.path) as peer:
            reading, writing = pipes(made, count)
            peer.say(said, writing)
            let_go_of(reading, writing)


def test_packets_of_any_size_that_say_nothing_to_a_host(steps: Steps, running: Step) -> None:
    for size in (0, 1, 65535, 65536, 150_000):
        with HostPeer(steps.path) as peer:
            with suppress(OSError):  # more than a packet may be
                peer.say(b"a" * size)
            if 0 < size <= 65536:
                assert b"refused" in peer.hear()
    assert running.status().state is StepState.RUNNING


def test_a_launch_of_a_step_that_runs_already_disturbs_nothing(steps: Steps, running: Step) -> None:
    """Its very folder and its very lock file, once more: the lock is held, and the second supervisor gives up."""
    folder = steps.folder(running)
    folder_fd, lock_fd = os.open(folder, os.O_RDONLY), os.open(folder / "lock", os.O_RDWR)
    ours, theirs = socket.socketpair()
    with ours, theirs, HostPeer(steps.path) as peer:
        peer.say(Launch(runtime_id=running.runtime_id), (folder_fd, lock_fd, theirs.fileno()))
        theirs.close()
        ours.settimeout(WAIT_S)
        with suppress(ConnectionResetError):
            while ours.recv(65536):
                pass
    os.close(folder_fd)
    os.close(lock_fd)


@pytest.mark.needs_root
def test_another_user_is_hung_up_on_unheard(steps: Steps, running: Step) -> None:
    """Even where somebody has opened the way to the sockets for everybody. SO_PEERCRED"""
    folder = steps.folder(running)
    host = steps.path / f"host-{VERSION}"
    for place, name in ((folder, "control.sock"), (host, "host.sock")):
        place.chmod(0o711)
        (place / name).chmod(0o777)
        place_fd = os.open(place, os.O_PATH)
        kind = socket.SOCK_STREAM if name == "control.sock" else socket.SOCK_SEQPACKET
        try:
            assert in_fork(partial(said_to, place_fd, kind, name), uid=NOBODY) == ""
        finally:
            os.close(place_fd)
            place.chmod(0o700)


def said_to(folder_fd: int, kind: int, name: str) -> str:
    """What a peer is told that has asked for the status."""
    with socket.socket(socket.AF_UNIX, kind) as end:
        end.settimeout(WAIT_S)
        end.connect(f"/proc/self/fd/{folder_fd}/{name}")
        with suppress(BrokenPipeError, ConnectionResetError):
            end.send(STATUS)
            return end.recv(65536).decode()
    return ""


def switches(pid: int) -> int:
    """How often it has given up its processor, by itself or not. proc_pid_status(5)"""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def test_whoever_has_nothing_to_do_is_not_woken(steps: Steps, running: Step, tmp_path: Path) -> None:
    """For as long as another step, of another state folder, takes for all its life."""
    descriptor = steps.descriptor(running)
    keepers = (descriptor.supervisor.pid, descriptor.host.pid)
    with StepPeer(running).greet() as peer, HostPeer(steps.path) as host:
        peer.say(Status(runtime_id=running.runtime_id))
        peer.hear()
        host.say(TakeOver(runtime_id=running.runtime_id))
        host.hear()
        for pid in keepers:
            await_state(pid, "S")
        before = [switches(pid) for pid in keepers]
        others = Steps(tmp_path / "others")
        assert others.launch(["sh", "-c", "exit 0"]).wait(WAIT_S, completed=True).succeeded
        others.end_all()
        assert [switches(pid) for pid in keepers] == before


def processor_ticks(pid: int) -> int:
    """Of 10 ms each. proc_pid_stat(5)"""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_one_without_descriptors_waits_for_some_and_does_not_spin(steps: Steps, running: Step, tmp_path: Path) -> None:
    """A peer that cannot be accepted stays in the backlog, which is told of again and again."""
    supervisor = steps.descriptor(running).supervisor.pid
    with ExitStack() as held:
        with descriptors_left_of(supervisor, 0):
            peer = held.enter_context(StepPeer(running))
            used = processor_ticks(supervisor)
            with Steps(tmp_path / "others") as others:
                assert others.launch(["true"]).wait(WAIT_S, completed=True).succeeded
            assert processor_ticks(supervisor) - used < 10
        peer.greet()
