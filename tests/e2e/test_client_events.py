"""What has happened to a step, and what happens next, told from its journal."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import termios
import threading
import time
from pathlib import Path
from typing import BinaryIO

from spurproc import EventKind, Hook, JournalEvent, Liveness, RuntimeId, Step, StepState
from spurproc.proto.codec import decode, encode
from spurproc.proto.journal_record import Terminating
from spurproc.proto.messages import Request, StateChanged, Subscribe, Welcome
from tests.asleep import await_sleep
from tests.step_records import ENDED, write_step
from tests.steps import KILL_AT_ONCE, WAIT_S, Gate, Steps

_HOOK = Hook(argv=("true",))


def _kinds(events: list[JournalEvent]) -> list[EventKind]:
    return [event.kind for event in events]


def test_all_of_it_is_told_in_order(steps: Steps) -> None:
    """With its hooks, how they ended, how the step ended, and how it is known that nothing is left."""
    step = steps.launch(["sh", "-c", "exit 3"], prolog=_HOOK, epilog=_HOOK)
    step.wait(WAIT_S, completed=True)
    step.acknowledge()
    events = list(step.events())
    assert _kinds(events) == [
        EventKind.HOOK_BEGUN,
        EventKind.HOOK_COMPLETED,
        EventKind.GATE_OPENING,
        EventKind.LAUNCHED,
        EventKind.EXIT_OBSERVED,
        EventKind.EMPTIED,
        EventKind.HOOK_BEGUN,
        EventKind.HOOK_COMPLETED,
        EventKind.ACKNOWLEDGED,
    ]
    assert [event.hook for event in events if event.hook] == ["prolog", "prolog", "epilog", "epilog"]
    assert [str(event.end) for event in events if event.end] == ["exited 0", "exited 3", "exited 0"]
    assert sorted(event.at for event in events) == [event.at for event in events]


def test_who_follows_is_told_when_it_happens_until_it_is_over(steps: Steps, tmp_path: Path) -> None:
    """Each once: what was there before, and what comes; by its supervisor."""
    step = steps.launch(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"], stdout=tmp_path / "out")
    assert next(step.logs(follow=True)) == b"ready\n"
    events = step.events(follow=True)
    assert _kinds([next(events), next(events)]) == [EventKind.GATE_OPENING, EventKind.LAUNCHED]
    step.terminate(steps.patient)
    told = next(events)
    assert (told.kind, told.detail) == (EventKind.TERMINATING, "it was asked for")
    assert step.status().liveness.liveness is Liveness.ALIVE, "told when it begins, not with what comes next"
    step.terminate(KILL_AT_ONCE)
    ended = next(events)
    assert ended.end is not None
    assert (ended.kind, ended.end.signal) == (EventKind.EXIT_OBSERVED, signal.SIGKILL)
    assert _kinds(list(events)) == [EventKind.EMPTIED]


def test_who_follows_goes_on_when_the_supervisor_dies(steps: Steps, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script("exit 8"))
    events = step.events(follow=True)
    assert _kinds([next(events), next(events)]) == [EventKind.GATE_OPENING, EventKind.LAUNCHED]
    steps.kill(steps.descriptor(step).supervisor)
    gate.open()
    assert _kinds(list(events)) == [EventKind.EXIT_OBSERVED, EventKind.EMPTIED]


def test_one_who_stops_following_leaves_nothing(steps: Steps, tmp_path: Path) -> None:
    """The leak guard looks."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script())
    events = step.events(follow=True)
    for _ in range(2):
        next(events)
    del events
    gate.open()
    assert Step.open(steps.path, step.runtime_id).wait(WAIT_S).code == 0


def _supervise(listener: socket.socket, journal: Path) -> None:
    """As a supervisor that tells its new state to one who waits for it, with what it means written down just before."""
    end, _ = listener.accept()
    with end, end.makefile("rb") as asked:
        _await(asked, Subscribe)
        end.sendall(encode(Welcome(state=StepState.RUNNING)) + b"\n")
        _await_taken(end)
        await_sleep(os.getpid(), "poll")
        with journal.open("ab") as file:
            file.write(encode(Terminating(at=2.5, why="in a moment")) + b"\n")
        end.sendall(encode(StateChanged(state=StepState.STOPPING)) + b"\n")
        assert asked.read() == b""


def _await_taken(end: socket.socket) -> None:
    """Blocks until the peer has read all that was sent to it. unix(7), SIOCOUTQ"""
    deadline = time.monotonic() + WAIT_S
    while struct.unpack("i", fcntl.ioctl(end, termios.TIOCOUTQ, bytes(4)))[0]:
        assert time.monotonic() < deadline
        os.sched_yield()


def _await(asked: BinaryIO, kind: type) -> None:
    while not isinstance(decode(asked.readline(), Request, "a request"), kind):  # type: ignore[arg-type]  # a union
        continue


def test_what_a_new_state_means_is_told_with_it(tmp_path: Path) -> None:
    """Not only once the next thing happens."""
    state = tmp_path / "state"
    folder = write_step(state, RuntimeId(1, 1, 0), ENDED[:2])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "control.sock"))
        listener.listen()
        thread = threading.Thread(target=_supervise, args=(listener, folder / "journal.jsonl"))
        thread.start()
        events = Step.open(state, RuntimeId(1, 1, 0)).events(follow=True)
        assert _kinds([next(events) for _ in range(3)])[2] is EventKind.TERMINATING
        del events
        thread.join(WAIT_S)
