"""Waiting for steps: many at once in one asyncio loop, without threads and without polling; whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from spurproc import ExitInfo, ExitKind, RuntimeId, Step, WaitTimeout
from tests.steps import WAIT_S, Gate, Steps

_MANY = 200
_MANY_WITHIN_S = 300.0


def _end(number: int) -> tuple[ExitKind, int]:
    """Every fifth is killed, by a signal of its own."""
    return (ExitKind.SIGNALED, 1 + number % 15) if number % 5 == 0 else (ExitKind.EXITED, number)


def _script(number: int) -> list[str]:
    kind, value = _end(number)
    return ["sh", "-c", f"kill -{value} $$; read x" if kind is ExitKind.SIGNALED else f"exit {value}"]


async def _ends(steps: list[Step]) -> list[ExitInfo]:
    return await asyncio.gather(*(step.wait_async(_MANY_WITHIN_S, completed=True) for step in steps))


def test_200_steps_at_once_end_as_they_did(steps: Steps) -> None:
    """All of them supervised at the same time, and waited for in one loop. All are acknowledged, and nothing is left."""
    launched = [
        steps.launch(_script(number), runtime_id=RuntimeId(1, 1, number), start=False, start_deadline_s=_MANY_WITHIN_S)
        for number in range(_MANY)
    ]
    assert len({steps.descriptor(step).supervisor for step in launched}) == _MANY
    for step in launched:
        step.start()
    ends = asyncio.run(_ends(launched))
    assert [(end.kind, end.signal if end.code is None else end.code) for end in ends] == list(map(_end, range(_MANY)))
    assert {end.source.value for end in ends} == {"waited"}


async def _cancelled(step: Step, times: int) -> tuple[int, int]:
    """How many descriptors there are before and after; nobody else's thread is made."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(times):
        task = asyncio.create_task(step.wait_async())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert threading.active_count() == 1
    return before, len(os.listdir("/proc/self/fd"))


def test_a_cancelled_wait_leaks_nothing(steps: Steps, tmp_path: Path) -> None:
    """With a supervisor; and without one, where a host is waited for. The step goes on."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script("exit 3"))
    before, after = asyncio.run(_cancelled(step, 10))
    assert before == after
    steps.kill(steps.descriptor(step).supervisor)
    before, after = asyncio.run(_cancelled(step, 10))
    assert before == after
    gate.open()
    assert asyncio.run(step.wait_async(WAIT_S)).code == 3


def test_a_wait_has_an_end(steps: Steps, tmp_path: Path) -> None:
    """In both ways; the message names the step."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script())
    with pytest.raises(WaitTimeout, match=f"step {step.runtime_id} has not ended after 0.05 s"):
        step.wait(0.05)
    with pytest.raises(WaitTimeout, match=f"step {step.runtime_id} is not over after 0.05 s"):
        asyncio.run(step.wait_async(0.05, completed=True))
    steps.kill(steps.descriptor(step).supervisor)
    with pytest.raises(WaitTimeout):
        step.wait(0.05)
    gate.open()
    assert step.wait(WAIT_S).code == 0


async def _killed_meanwhile(steps: Steps, step: Step, gate: Gate, victims: tuple[str, ...]) -> ExitInfo:
    waiting = asyncio.create_task(step.wait_async(WAIT_S, completed=True))
    descriptor = steps.descriptor(step)
    for _ in range(5):
        await asyncio.sleep(0)
    steps.kill(*(getattr(descriptor, victim) for victim in victims))
    gate.open()
    return await waiting


@pytest.mark.parametrize("victims", [(), ("supervisor",), ("host",), ("host", "supervisor")], ids=" and ".join)
def test_who_waits_learns_the_end_whoever_dies_meanwhile(steps: Steps, tmp_path: Path, victims: tuple[str, ...]) -> None:
    """With both gone nobody was there to see it: UNKNOWN, unless the kernel still tells."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script("kill -TERM $$"))
    end = asyncio.run(_killed_meanwhile(steps, step, gate, victims))
    if end.kind is ExitKind.UNKNOWN:
        assert set(victims) == {"host", "supervisor"}
    else:
        assert (end.kind, end.signal) == (ExitKind.SIGNALED, signal.SIGTERM)


def test_waiting_sleeps(steps: Steps, tmp_path: Path) -> None:
    """No processor time goes by while nothing happens: measured over a wait, in this process."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script())
    with pytest.raises(WaitTimeout):
        step.wait(0.05)
    before = os.times()
    switches = _switches()
    with pytest.raises(WaitTimeout):
        step.wait(1.0)
    assert _switches() - switches < 20, "it woke up for nothing"
    assert os.times().user - before.user < 0.5
    gate.open()
    step.wait(WAIT_S)


def _switches() -> int:
    """How often this process has gone to sleep. proc_pid_status(5)"""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
