"""`run` returns only where nothing of the tree lives: else it says why that cannot be known, and who is left, in bounded time."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spurproc.core.command.run import run
from spurproc.core.exit_info import ExitKind
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.program import program_fd
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan, Proof
from spurproc.errors import RunTimeout, RunUnproven
from tests.interruption import interrupted
from tests.pace import at_this_pace
from tests.spawning import in_child

CONTAINMENTS = pytest.mark.parametrize(
    "containment", [pytest.param(Containment.CGROUP, marks=pytest.mark.needs_cgroup_v2), Containment.DESCENDANTS]
)
TERM_ONLY = KillPlan(steps=((signal.SIGTERM, 0.2),))
NOBODY = 65534
_TIMEOUT_S = 10.0


@contextmanager
def lifeline() -> Iterator[tuple[int, Callable[[float], bool]]]:
    """A descriptor to pass to a job, and whether all who hold it end within a time. The caller's own is closed by asking."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    held = [theirs]

    def is_let_go(timeout_s: float) -> bool:
        while held:
            os.close(held.pop())
        poll = select.poll()
        poll.register(ours, 0)
        return bool(poll.poll(timeout_s * 1000))

    try:
        yield theirs, is_let_go
    finally:
        for fd in (ours, *held):
            os.close(fd)


@contextmanager
def hold() -> Iterator[int]:
    """A descriptor that a job reads: at end of file once the block is left."""
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


@CONTAINMENTS
def test_what_the_plan_leaves_is_killed_and_reported(containment: Containment) -> None:
    """A plan without SIGKILL against a job that ignores all of it: at the deadline, and as a leftover."""
    begin = time.monotonic()
    with lifeline() as (fd, is_let_go):
        with pytest.raises(RunTimeout) as caught:
            run(
                ["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"],
                timeout_s=at_this_pace(0.3),
                kill_plan=TERM_ONLY,
                pass_fds=[fd],
                containment=containment,
            )
        result = caught.value.result
        assert (result.signal, result.leftovers.empty) == (9, True)
        assert [step.signal for step in result.leftovers.steps] == [15, 9]
        left = run(["sh", "-c", "trap '' TERM; sleep 1000 &"], kill_plan=TERM_ONLY, pass_fds=[fd], containment=containment)
        assert left.code == 0
        assert left.leftovers is not None
        assert ([step.signal for step in left.leftovers.steps], left.leftovers.empty) == ([15, 9], True)
        assert is_let_go(0)
    assert time.monotonic() - begin < at_this_pace(_TIMEOUT_S)


def test_a_killed_keeper_takes_the_leader_and_its_group_along() -> None:
    """It goes on to its own end or the deadline; then it and its group are killed, whatever the plan, and `run` raises."""
    argv = ["sh", "-c", "sleep 1000 & kill -9 $PPID; trap '' TERM; while :; do sleep 1000; done"]
    timeout_s = at_this_pace(0.5)
    begin = time.monotonic()
    with lifeline() as (fd, is_let_go):
        with pytest.raises(RunUnproven, match=rf"keeper was killed.*still ran after {timeout_s} s") as caught:
            run(argv, timeout_s=timeout_s, kill_plan=TERM_ONLY, pass_fds=[fd], containment=Containment.DESCENDANTS)
        assert is_let_go(at_this_pace(0.5))
    result = caught.value.result
    assert result.kind is ExitKind.UNKNOWN or result.signal == 9
    assert (result.leftovers.proof, result.leftovers.empty) == (Proof.NONE_FOUND, False)
    assert time.monotonic() - begin < at_this_pace(4)


def test_a_killed_keeper_is_never_a_normal_return() -> None:
    """What left the session cannot be found: it lives on, and that is why `run` raises, at once; the end is not invented."""
    begin = time.monotonic()
    with hold() as fd:
        script = f"setsid sh -c 'cat /dev/fd/{fd}' & kill -9 $PPID; sleep 0.3; exit 3"
        with pytest.raises(RunUnproven) as caught:
            run(["sh", "-c", script], pass_fds=[fd], containment=Containment.DESCENDANTS)
    result = caught.value.result
    assert result.code == 3 or result.kind is ExitKind.UNKNOWN  # it was let go on to its own end
    assert time.monotonic() - begin < at_this_pace(4)


@pytest.mark.needs_root
def test_who_may_not_be_killed_is_named(payload_program: Callable[[str], Path]) -> None:
    """A set-uid member that became root, under a caller who is not: bounded, and never a normal return."""
    program_fd()
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    program = shutil.copy(payload_program("become_root"), folder / "become_root")
    os.chmod(program, 0o4755)

    def body() -> None:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        begin = time.monotonic()
        ready, fd = os.pipe()
        with hold() as hold_fd:
            env = {"PAYLOAD_READY_FD": str(fd), "PAYLOAD_HOLD_FD": str(hold_fd), "PATH": os.defpath}
            with pytest.raises(RunUnproven, match=r"alive: process \d+ \('become_root', state S") as caught:
                run(
                    [program],
                    env=env,
                    pass_fds=[fd, hold_fd],
                    timeout_s=at_this_pace(1),
                    kill_plan=TERM_ONLY,
                    cwd="/",
                    containment=Containment.DESCENDANTS,
                )
            result = caught.value.result
            assert os.read(ready, 1) == b"r"
            assert (result.kind, len(result.leftovers.survivors)) == (ExitKind.UNKNOWN, 1)
            pidfd = Pidfd.open(result.leftovers.survivors[0].pid)
        assert time.monotonic() - begin < at_this_pace(5)
        pidfd.wait(_TIMEOUT_S)

    try:
        in_child(body)
    finally:
        shutil.rmtree(folder)


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
@pytest.mark.parametrize("ends", ["interrupt", "deadline"])
def test_a_leader_that_left_its_cgroup_is_ended(tmp_path: Path, cgroup_root: Path, ends: str) -> None:
    """Its cgroup is empty and says nothing: it is the leader's pidfd that counts."""
    script = f"echo 0 > {cgroup_root}/cgroup.procs; echo > {tmp_path}/up; exec sleep 1000"
    with lifeline() as (fd, is_let_go):
        if ends == "interrupt":
            up = tmp_path / "up"
            os.mkfifo(up)
            with interrupted(number=signal.SIGINT, when=up.read_text), pytest.raises(KeyboardInterrupt):
                run(["sh", "-c", script], pass_fds=[fd], containment=Containment.CGROUP)
        else:
            with pytest.raises(RunTimeout) as caught:
                run(["sh", "-c", script], pass_fds=[fd], timeout_s=0.5, containment=Containment.CGROUP)
            assert caught.value.result.leftovers.empty
        assert is_let_go(0)


@CONTAINMENTS
def test_the_result_has_a_form_for_json(containment: Containment) -> None:
    """All of it; and `check` gives back what it was asked of."""
    result = run(["sh", "-c", r"printf 'a\377'; sleep 1000 &"], capture=True, containment=containment).check()
    assert result.stdout == b"a\xff"
    form = json.loads(json.dumps(result.to_json()))
    assert (form["kind"], form["code"], form["containment"], form["stderr"]) == ("exited", 0, containment.value, "")
    assert form["stdout"].encode("utf-8", "surrogateescape") == b"a\xff"
    assert (form["leftovers"]["empty"], form["leftovers"]["survivors"]) == (True, [])
    assert form["leftovers"]["steps"][0]["signal"] == 15
    assert "leftovers" not in run(["true"], containment=containment).to_json()
