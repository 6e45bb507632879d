"""The control socket of a step: who is let in, and which request is taken in which state."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spurproc import KillPlan
from spurproc.client.connection import StepConnection
from spurproc.client.step import Step
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.proto.codec import encode
from spurproc.proto.launch_record import Hook
from spurproc.proto.messages import (
    Acknowledge,
    Completed,
    Ended,
    Hello,
    Refused,
    Reply,
    Request,
    Resume,
    Signal,
    Signalled,
    Start,
    Started,
    StateChanged,
    Status,
    StatusReply,
    Subscribe,
    Suspend,
    Terminate,
    Welcome,
)
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StepFolder
from spurproc.proto.step_state import StepState
from spurproc.stepd.control import Connection, ControlSocket
from spurproc.stepd.loop import Loop
from spurproc.stepd.table import REQUESTS, TABLE, StepEvent
from tests.fifo import Gate, Told
from tests.step_peer import StepPeer, capability_of
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps

KINDS = {
    StepEvent.START: Start,
    StepEvent.SIGNAL: Signal,
    StepEvent.SUSPEND: Suspend,
    StepEvent.RESUME: Resume,
    StepEvent.TERMINATE: Terminate,
    StepEvent.ACKNOWLEDGE: Acknowledge,
}


def request(event: StepEvent, step: Step) -> Request:
    more = {"signal": 0} if event is StepEvent.SIGNAL else {}
    made: Request = KINDS[event](runtime_id=step.runtime_id, **more)
    return made


@contextmanager
def standing(steps: Steps, state: StepState, say: Told, go: Gate) -> Iterator[Step]:
    """A step that stands in `state` until it is let go on."""
    waits = f"exec 3>{say.path}; echo up >&3; exec 3>&-; read x <{go.path}"
    hook = Hook(argv=("sh", "-c", waits))
    match state:
        case StepState.READY:
            yield steps.launch(["true"], start=False)
        case StepState.PROLOG | StepState.EPILOG:
            step = steps.launch(["true"], start=False, **{state.value: hook})  # type: ignore[arg-type]  # one by its name
            step.start()
            assert say.line() == "up"
            yield step
        case StepState.COMPLETED:
            step = steps.launch(["true"])
            step.wait(WAIT_S)
            yield step
        case _:
            deaf = KillPlan(steps=((0x1C, 600.0), (9, None)))  # SIGWINCH, which nobody minds
            script = f"(setsid sh -c '{waits}' &); exec sleep 600" if state is StepState.EMPTYING else waits
            step = steps.launch(["sh", "-c", f"trap : TERM; {script}"], kill_plan=deaf)
            assert say.line() == "up"
            if state is StepState.SUSPENDED:
                step.suspend()
            if state is StepState.STOPPING:
                step.terminate()
            if state is StepState.EMPTYING:
                leader = steps.descriptor(step).leader
                assert leader is not None
                steps.kill(leader)
                step.wait(WAIT_S)
            yield step
            step.terminate(KILL_AT_ONCE)


LASTING = [
    StepState.READY,
    StepState.PROLOG,
    StepState.RUNNING,
    StepState.SUSPENDED,
    StepState.STOPPING,
    StepState.EMPTYING,
    StepState.EPILOG,
]


@pytest.mark.parametrize("state", LASTING, ids=lambda state: state.value)
def test_what_a_state_does_not_permit_is_refused_by_name(
    steps: Steps, told: Callable[[str], Told], gate: Callable[[str], Gate], state: StepState
) -> None:
    """And nothing comes of it. Whoever asks is told where the step stands, and stays connected."""
    go = gate("go")
    with standing(steps, state, told("say"), go) as step, StepPeer(step).greet() as peer:
        for event in sorted(REQUESTS, key=lambda event: event.value):
            if TABLE[state, event] is not None:
                continue
            peer.say(request(event, step))
            answer = peer.hear()
            assert isinstance(answer, Refused), event
            assert answer.state is state
            assert f"a step that is {state.value} takes no {event.value}" in answer.why
        peer.say(Status(runtime_id=step.runtime_id))
        status = peer.hear()
        assert isinstance(status, StatusReply)
        assert status.state is state
        go.open()


def test_an_acknowledged_step_is_left_by_its_supervisor(steps: Steps) -> None:
    step = steps.launch(["true"], start=False)
    with steps.descriptor(step).supervisor.open() as supervisor, StepPeer(step).greet() as peer:
        peer.say(Subscribe(runtime_id=step.runtime_id))
        peer.hear()
        step.start()
        while not isinstance(peer.hear(), Completed):
            pass
        peer.say(Acknowledge(runtime_id=step.runtime_id))
        peer.wait_hung_up()
        supervisor.wait(WAIT_S)
    assert steps.events(step)[-1] == "acknowledged"


def test_whoever_subscribes_hears_all_of_it_in_order(steps: Steps) -> None:
    step = steps.launch(["sh", "-c", "exit 9"], start=False, epilog=Hook(argv=("true",)))
    with StepPeer(step).greet() as peer:
        peer.say(Subscribe(runtime_id=step.runtime_id))
        assert isinstance(peer.hear(), StatusReply)
        peer.say(Start(runtime_id=step.runtime_id))
        heard: list[Reply] = []
        while not heard or heard[-1] != StateChanged(state=StepState.COMPLETED):
            heard.append(peer.hear())
    told = [event.state.value if isinstance(event, StateChanged) else type(event).__name__ for event in heard]
    assert told == [
        "starting",
        "StatusReply",
        "opening",
        *("Started", "running"),
        *("Ended", "emptying"),
        "epilog",
        *("Completed", "completed"),
    ], "a state is told once all that it means is done"
    ends = [event.end.code for event in heard if isinstance(event, Ended | Completed)]
    assert ends == [9, 9]


def test_a_launcher_is_told_nothing_but_what_it_waits_for(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word more would wake it up once more, beside a supervisor that is busy with its launch."""
    next_message, heard = StepConnection.next_message, []

    def noted(connection: StepConnection, timeout_s: float | None) -> Reply:
        heard.append(next_message(connection, timeout_s))
        return heard[-1]

    monkeypatch.setattr(StepConnection, "next_message", noted)
    steps.launch(["true"])
    assert [type(message) for message in heard] == [Welcome, StatusReply, Started]


HELLOS: dict[str, Callable[[Step], Request]] = {
    "another step": lambda step: Hello(runtime_id=RuntimeId(9, 9, 9), capability=capability_of(step)),
    "an attempt before": lambda step: Hello(runtime_id=RuntimeId(1, 2, 0), capability=capability_of(step)),
    "another capability": lambda step: Hello(runtime_id=step.runtime_id, capability="0" * 32),
    "an empty capability": lambda step: Hello(runtime_id=step.runtime_id, capability=""),
    "a version beyond": lambda step: Hello(runtime_id=step.runtime_id, capability=capability_of(step), v=99),
    "no hello": lambda step: Status(runtime_id=step.runtime_id),
}


@pytest.mark.parametrize("hello", HELLOS)
def test_who_does_not_know_the_step_is_let_in_to_nothing(steps: Steps, hello: str) -> None:
    step = steps.launch(["true"], start=False)
    with StepPeer(step) as peer:
        # In one packet: after the first it may have hung up already.
        peer.say(encode(HELLOS[hello](step)) + b"\n" + encode(Terminate(runtime_id=step.runtime_id)) + b"\n")
        assert peer.wait_hung_up().count(b"\n") == 1
    assert step.status().state is StepState.READY


def test_a_peer_of_the_version_before_or_after_is_let_in(steps: Steps) -> None:
    """Whatever they may have to say to each other is for the messages to tell."""
    step = steps.launch(["true"], start=False)
    with StepPeer(step) as peer:
        peer.say(Hello(runtime_id=step.runtime_id, capability=capability_of(step), v=2))
        assert isinstance(peer.hear(), Welcome)


def test_a_hello_that_has_come_is_waited_for_no_longer(tmp_path: Path) -> None:
    """Whoever has nothing to do is not woken for it: the loop has a time for it only until then."""
    runtime_id, loop = RuntimeId(1, 1, 0), Loop()
    hello = encode(Hello(runtime_id=runtime_id, capability="known")) + b"\n"

    def let_in(_: Connection, __: Request) -> Reply:
        loop.stop()
        return Welcome(state=StepState.READY)

    with PrivateFolder.create(tmp_path / "step") as folder, socket.socket(socket.AF_UNIX) as peer:
        control = ControlSocket(loop, runtime_id, "known", let_in)
        control.bind(StepFolder(folder, runtime_id))
        peer.connect(str(tmp_path / "step" / "control.sock"))
        peer.sendall(hello)
        loop.run()
        assert loop._wait_s() is None
        control.close()
        loop.close()


def test_two_messages_in_one_packet_and_one_in_many(steps: Steps) -> None:
    step = steps.launch(["true"], start=False)
    with StepPeer(step).greet() as peer:
        one = b'{"request":"status","runtime_id":{"job_id":1,"run_attempt":1,"step_id":0}}\n'
        peer.say(one + one)
        assert peer.hear() == peer.hear()
        for byte in one:
            peer.say(bytes([byte]))
        assert isinstance(peer.hear(), StatusReply)


@pytest.mark.parametrize("number", [0, 10, 64])
def test_a_signal_is_sent_where_it_means_something(steps: Steps, gate: Callable[[str], Gate], number: int) -> None:
    go = gate("go")
    step = steps.launch(["sh", "-c", f"trap : USR1 RTMAX; read x <{go.path}"])
    with StepPeer(step).greet() as peer:
        peer.say(Signal(runtime_id=step.runtime_id, signal=number))
        answer = peer.hear()
        assert isinstance(answer, Signalled)
        assert answer.report["signalled"] == 1


@pytest.mark.parametrize("number", [-1, 65, 2**31, 2**70])
def test_a_number_that_is_no_signal_is_refused(steps: Steps, gate: Callable[[str], Gate], number: int) -> None:
    step = steps.launch(["sh", "-c", f"read x <{gate('go').path}"])
    with StepPeer(step).greet() as peer:
        text = f'{{"request":"signal","runtime_id":{{"job_id":1,"run_attempt":1,"step_id":0}},"signal":{number}}}\n'
        peer.say(text.encode())
        assert isinstance(peer.hear(), Refused)
    assert step.status().state is StepState.RUNNING
