"""Steps without a leader: they hold an allocation, and whatever is put into their cgroup."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc import ExitKind, KillPlan
from spurproc.client.step import Step
from spurproc.proto import messages
from spurproc.proto.launch_record import Hook
from spurproc.proto.runtime_id import BATCH_STEP, EXTERN_STEP, RuntimeId
from spurproc.proto.step_state import StepState
from tests.fifo import Gate, Told
from tests.payload import Payload
from tests.step_peer import StepPeer, capability_of, until
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps

Start = Callable[..., Payload]


def extern(steps: Steps, job: int = 1, **more: Any) -> Step:
    step = steps.launch(None, runtime_id=RuntimeId(job, 1, EXTERN_STEP), **more)
    until(step, StepState.RUNNING)
    return step


def cgroup_of(steps: Steps, step: Step) -> Path:
    record = steps.descriptor(step).cgroup
    assert record is not None
    return Path(record.path)


def test_one_runs_until_it_is_told_to_end(steps: Steps) -> None:
    """It has started nothing, and says so."""
    step = extern(steps)
    descriptor = steps.descriptor(step)
    assert descriptor.leader is None
    step.terminate()
    end = step.wait(WAIT_S, completed=True)
    assert (end.kind, end.reason) == (ExitKind.NOT_STARTED, "it has no leader, and was told to end")
    assert steps.events(step) == ["exit_observed", "emptied"]


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_what_is_put_into_it_is_signalled_suspended_and_ended(steps: Steps, payload: Start) -> None:
    """As a container's processes, or those of a session of ssh(1), that were born elsewhere."""
    step = extern(steps, kill_plan=KillPlan(steps=((15, 0.2), (9, None))))
    inside = cgroup_of(steps, step)
    first, deaf = payload("on_term", cgroup=inside), payload("deaf", cgroup=inside)
    first.wait_ready()
    deaf.wait_ready(2)
    step.suspend()
    assert "frozen 1" in (inside / "cgroup.events").read_text()
    step.resume()
    done = step.signal(signal.SIGCONT)
    assert done.signals is not None
    assert done.signals.signalled == 3
    step.terminate()
    step.wait(WAIT_S, completed=True)
    first.wait_exit()
    deaf.wait_exit()
    assert not inside.exists()


def test_its_hooks_run(steps: Steps, tmp_path: Path) -> None:
    log = tmp_path / "log"
    hooks: dict[str, Any] = {
        name: Hook(argv=("sh", "-c", f"echo {name} $SPURPROC_STEP >>{log}")) for name in ("prolog", "epilog")
    }
    step = extern(steps, **hooks)
    step.terminate()
    step.wait(WAIT_S, completed=True)
    assert log.read_text() == "prolog 1.1.extern\nepilog 1.1.extern\n"


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_one_whose_supervisor_dies_ends_with_all_that_is_in_it(steps: Steps, payload: Start) -> None:
    step = extern(steps, kill_plan=KILL_AT_ONCE)
    inside = cgroup_of(steps, step)
    held = payload("hold", cgroup=inside)
    held.wait_ready()
    steps.kill(steps.descriptor(step).supervisor)
    end = step.wait(WAIT_S, completed=True)
    assert end.kind is ExitKind.NOT_STARTED
    held.wait_exit()
    assert not inside.exists()


def test_the_steps_of_one_attempt_have_nothing_in_common(
    steps: Steps, told: Callable[[str], Told], gate: Callable[[str], Gate]
) -> None:
    """Batch, extern and two numbered ones: each act reaches the one that is named, and its end is its own."""
    say, go = told("say"), gate("go")
    script = "trap 'echo usr1 $0 >&3' USR1; exec 3>{}; echo up $0 >&3; read x <{}; exit $0"

    def numbered(step_id: int, code: int) -> Step:
        argv = ["sh", "-c", script.format(say.path, go.path), str(code)]
        return steps.launch(argv, runtime_id=RuntimeId(1, 1, step_id), kill_plan=KILL_AT_ONCE)

    others = extern(steps)
    batch, one, two = numbered(BATCH_STEP, 20), numbered(0, 21), numbered(1, 22)
    assert {say.line() for _ in range(3)} == {"up 20", "up 21", "up 22"}
    assert len({steps.descriptor(step).supervisor for step in (others, batch, one, two)}) == 4
    two.suspend()
    one.terminate()
    assert one.wait(WAIT_S, completed=True).signal == signal.SIGKILL
    assert batch.status().state is StepState.RUNNING
    assert others.status().state is StepState.RUNNING
    assert two.status().state is StepState.SUSPENDED
    two.resume()
    go.open()
    go.open()
    assert batch.wait(WAIT_S).code == 20
    assert two.wait(WAIT_S).code == 22
    assert others.status().state is StepState.RUNNING


@pytest.mark.parametrize("act", ["signal", "suspend", "terminate", "acknowledge"])
def test_a_late_request_for_an_attempt_before_reaches_nobody(steps: Steps, gate: Callable[[str], Gate], act: str) -> None:
    """Attempt 1 is over, 2 runs under the same numbers: it never hears of it."""
    go = gate("go")
    first = steps.launch(["true"], runtime_id=RuntimeId(1, 1, 0))
    assert first.wait(WAIT_S, completed=True).succeeded
    second = steps.launch(["sh", "-c", f"read x <{go.path}"], runtime_id=RuntimeId(1, 2, 0))
    requests: dict[str, messages.Request] = {
        "signal": messages.Signal(runtime_id=first.runtime_id, signal=15),
        "suspend": messages.Suspend(runtime_id=first.runtime_id),
        "terminate": messages.Terminate(runtime_id=first.runtime_id),
        "acknowledge": messages.Acknowledge(runtime_id=first.runtime_id),
    }
    with StepPeer(second).greet() as peer:
        peer.say(requests[act])
        assert b"this is step 1.2.0, not 1.1.0" in peer.wait_hung_up()
    with StepPeer(second) as peer:  # with its own id from the start, and whatever capability
        peer.say(messages.Hello(runtime_id=first.runtime_id, capability=capability_of(second)))
        assert b"this is step 1.2.0, not 1.1.0" in peer.wait_hung_up()
    assert second.status().state is StepState.RUNNING
    go.open()
    assert second.wait(WAIT_S).succeeded
