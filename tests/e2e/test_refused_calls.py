"""System calls that a sandbox really refuses, by a seccomp filter around us, our children, the static program and its recorder.

`SPURPROC_MASK` hides a facility from our own probe alone. Here nobody gets it, whoever asks for it without the probe.
"""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import liveness_many
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.command.run import run
from spurproc.core.exit_info import ExitSource
from spurproc.core.facilities import Facilities, check_call
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import IdentityStrength, ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.spawn import SpawnPlan, spawn
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.termination import KillPlan, Proof
from spurproc.errors import NotPermitted, RunUnproven, SpawnError, SystemCallError, Unsupported
from tests import sandbox, seccomp
from tests.e2e.test_run import is_dead
from tests.rungs import environment, probe_again
from tests.spawning import DETACHED, ROUTES, in_child, no_child_is_left, output_of
from tests.syscall_watch import number as number_of

TREES = [
    pytest.param("cgroup", id="cgroup", marks=pytest.mark.needs_cgroup_v2),
    pytest.param("descendants", id="descendants"),
]
REFUSALS = pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS], ids=["EPERM", "ENOSYS"])
OLD = {"pidfd_open": errno.EPERM, "clone3": errno.ENOSYS, "close_range": errno.EPERM}
"""What sandboxes refuse that were written before these calls. clone3 by ENOSYS: by EPERM libc could start no thread."""
SANDBOXES = pytest.mark.parametrize(
    "calls", [{"pidfd_open": errno.EPERM}, {"pidfd_open": errno.ENOSYS}, OLD], ids=["EPERM", "ENOSYS", "old"]
)


def in_sandbox(calls: dict[str, int], body: Callable[[], None]) -> None:
    """Run `body` in a child to which `calls` are refused, and which knows nothing of it yet."""

    def enter() -> None:
        for name, number in calls.items():
            sandbox.refuse(name, number, spare_harness=False)
        facilities = probe_again()
        assert [name for name in calls if getattr(facilities, name)] == []
        body()

    in_child(enter)


@REFUSALS
def test_the_probe_says_what_is_refused_and_what_cannot_be_without_it(number: int) -> None:
    def body() -> None:
        refusals = dict(Facilities.current().refusals)
        assert refusals["pidfd_open"] == errno.errorcode[number]
        for name in ("pidfs_inode", "pidfd_info", "waitid_pidfd"):
            assert refusals[name] in ("needs pidfd_open", "masked")
        assert refusals["pidfs_handle"] in ("needs pidfs_inode", "masked")

    if "pidfd_open" not in environment()["SPURPROC_MASK"]:
        in_sandbox({"pidfd_open": number}, body)


@SANDBOXES
@pytest.mark.needs_facility("pidfd_send_signal")
def test_processes(calls: dict[str, int]) -> None:
    """Start, name, ask, signal, wait: on every way to a start, and by name alone."""

    def body() -> None:
        for fields in (*ROUTES, DETACHED):
            assert output_of(["/bin/echo", "-n", "here"], **fields)[0] == b"here"
            with pytest.raises(SpawnError, match="No such file"):
                spawn(SpawnPlan(argv=["/no/such/program"], **fields))
        for fields in ROUTES:
            spawned = spawn(SpawnPlan(argv=["/bin/sleep", "60"], **fields))
            assert spawned.identity.strength is IdentityStrength.START_TICKS
            assert spawned.identity == ProcessIdentity.of(spawned.pid)
            with spawned.identity.open() as held:
                assert liveness_many([spawned.identity, held, spawned.pidfd]) == [Liveness.ALIVE] * 3
                held.send_signal(signal.SIGTERM)
                assert spawned.pidfd.wait(5).signal == signal.SIGTERM
                assert liveness_many([spawned.identity, held, spawned.pidfd]) == [Liveness.GONE] * 3
            spawned.pidfd.close()
        no_child_is_left()

    in_sandbox(calls, body)


@SANDBOXES
@pytest.mark.parametrize("containment", TREES)
def test_recorded_run(calls: dict[str, int], containment: str) -> None:
    """The recorder, which has no probe of its own, starts the job, names itself and it by weaker names, and records the end."""

    def body() -> None:
        with tempfile.TemporaryDirectory() as above:
            folder, gate = Path(above, "run"), Path(above, "gate")
            os.mkfifo(gate)
            plan = SpawnPlan(argv=["sh", "-c", f"read go <{gate}; exit 4"])
            with launch_recorded(plan, folder, containment=Containment(containment)) as launched:
                assert launched.recorder is not None
                assert launched.leader is not None
                assert {launched.recorder.strength, launched.leader.strength} == {IdentityStrength.START_TICKS}
                assert launched.recorder.pidfs_inode is launched.leader.pidfs_inode is None
            with RecordedRun.open(folder) as run:
                assert run.liveness() is Liveness.ALIVE
                gate.write_text("go\n")
                info = run.wait(10)
                assert (info.code, info.source) == (4, ExitSource.RECORDED)
                run.remove(5)

    in_sandbox(calls, body)


@SANDBOXES
@pytest.mark.parametrize("containment", TREES)
@pytest.mark.needs_facility("pidfd_send_signal")
def test_recorded_run_is_signalled_and_ended(calls: dict[str, int], containment: str) -> None:
    def body() -> None:
        with tempfile.TemporaryDirectory() as above:
            plan = SpawnPlan(argv=["sh", "-c", "setsid sleep 100 & sleep 100"])
            with launch_recorded(plan, Path(above, "run"), containment=Containment(containment)) as run:
                assert run.signal(0).signalled >= 1
                report = run.terminate(KillPlan(steps=((signal.SIGTERM, 10.0), (signal.SIGKILL, None))))
                assert report.empty
                assert run.exit_info().signal == signal.SIGTERM
                run.remove(5)

    in_sandbox(calls, body)


@SANDBOXES
@pytest.mark.parametrize("containment", TREES)
@pytest.mark.needs_facility("pidfd_send_signal")
def test_run(calls: dict[str, int], containment: str) -> None:
    """How it ended, what it said, and that nothing of it lives on."""

    def body() -> None:
        result = run(["sh", "-c", "echo said; sleep 100 & exit 3"], capture=True, containment=Containment(containment))
        assert (result.code, result.stdout, result.containment) == (3, b"said\n", Containment(containment))
        assert result.leftovers is not None
        assert result.leftovers.proof in (Proof.CGROUP_EMPTY, Proof.NO_DESCENDANTS)
        no_child_is_left()

    in_sandbox(calls, body)


@pytest.mark.needs_facility("pidfd_send_signal")
def test_leader_is_held_by_the_launcher_too(tmp_path: Path) -> None:
    """The keeper hands its pidfd over though it may open none: when the job has killed its keeper, it is still ended."""

    def body() -> None:
        script = f"echo $$ > {tmp_path}/pid; kill -9 $PPID; exec sleep 1000"
        with pytest.raises(RunUnproven):
            run(["sh", "-c", script], containment=Containment.DESCENDANTS, timeout_s=1)
        assert is_dead(tmp_path / "pid")

    in_sandbox(OLD, body)


@REFUSALS
def test_without_pidfd_send_signal(number: int) -> None:
    """Nobody is signalled by another way: what should have ended lives, and is named."""

    def body() -> None:
        spawned = spawn(SpawnPlan(argv=["cat"], stdin=(pipe := os.pipe())[0]))
        os.close(pipe[0])
        with pytest.raises(Unsupported, match=r"needs pidfd_send_signal\(2\)"):
            spawned.pidfd.send_signal(signal.SIGKILL)
        assert spawned.pidfd.liveness() is Liveness.ALIVE
        os.close(pipe[1])
        assert spawned.pidfd.wait(5).succeeded
        spawned.pidfd.close()
        assert run(["true"], containment=Containment.DESCENDANTS).succeeded
        no_child_is_left()

    in_sandbox({"pidfd_send_signal": number}, body)


# A sandbox that is put on when the probe has been made: there is no rung to stand on, and what is refused is no answer.


@pytest.mark.needs_facility("pidfd_open")
@REFUSALS
def test_pidfd_open_lost_after_the_probe(number: int) -> None:
    """Each error names it; whether a process lives that can only be asked so is UNKNOWN, never GONE."""

    def body() -> None:
        spawned = spawn(SpawnPlan(argv=["cat"], stdin=(pipe := os.pipe())[0]))
        assert Facilities.current().pidfd_open
        sandbox.refuse("pidfd_open", number, spare_harness=False)
        for ask in (lambda: Pidfd.open(spawned.pid), lambda: ProcessIdentity.of(spawned.pid)):
            with pytest.raises(
                SystemCallError, match="since this process first looked, it has been refused pidfd_open"
            ) as caught:
                ask()
            assert caught.value.errno == number
        seen = spawned.identity.observe()
        if seen.evidence != "handle":
            assert seen.liveness is Liveness.UNKNOWN
            assert "refused pidfd_open" in seen.detail
        assert spawned.pidfd.liveness() is Liveness.ALIVE
        os.close(pipe[0])
        os.close(pipe[1])
        assert spawned.pidfd.wait(5).succeeded
        assert spawned.pidfd.liveness() is Liveness.GONE

    in_child(body)


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfd_info")
def test_pidfd_open_lost_before_a_launch(tmp_path: Path) -> None:
    """Neither launched nor half launched: an error that names it, and nothing is left."""

    def body() -> None:
        assert Facilities.current().pidfd_open
        sandbox.refuse("pidfd_open", errno.EPERM, spare_harness=False)
        for containment in (Containment.CGROUP, Containment.DESCENDANTS):
            with pytest.raises(SystemCallError, match="refused pidfd_open"):
                launch_recorded(SpawnPlan(argv=["/bin/true"]), tmp_path / "run", containment=containment)
            assert not (tmp_path / "run").exists()

    in_child(body)


@REFUSALS
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs_facility(name)) for name in ("clone3", "close_range")]
)
def test_a_call_of_the_start_lost_after_the_probe(name: str, number: int) -> None:
    """The start fails, and its error says what was taken away."""

    def body() -> None:
        assert getattr(Facilities.current(), name)
        sandbox.refuse(name, number)
        for fields in (*ROUTES, DETACHED):
            with pytest.raises(SpawnError, match=f"since this process first looked, it has been refused .*{name}") as caught:
                spawn(SpawnPlan(argv=["/bin/true"], **fields))
            assert caught.value.errno == number
        no_child_is_left()

    in_child(body)


@pytest.mark.needs_facility("pidfd_send_signal")
@REFUSALS
def test_pidfd_send_signal_lost_after_the_probe(number: int) -> None:
    """An EPERM is not taken for the word that the process is there: a reaped one has no identity any more."""

    def body() -> None:
        spawned = spawn(SpawnPlan(argv=["cat"], stdin=(pipe := os.pipe())[0]))
        sandbox.refuse("pidfd_send_signal", number)
        with pytest.raises((SystemCallError, Unsupported), match="refused pidfd_send_signal"):
            spawned.pidfd.send_signal(signal.SIGTERM)
        assert ProcessIdentity.of_pidfd(spawned.pidfd) == spawned.identity
        os.close(pipe[0])
        os.close(pipe[1])
        assert spawned.pidfd.wait(5).succeeded
        with pytest.raises(ProcessLookupError):
            ProcessIdentity.of_pidfd(spawned.pidfd)

    in_child(body)


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfd_send_signal")
def test_members_that_cannot_be_signalled_any_more_are_named(cgroup_root: Path) -> None:
    def body() -> None:
        with Cgroup.open(cgroup_root) as cgroup:
            spawned = spawn(SpawnPlan(argv=["sleep", "60"], cgroup=cgroup))
            sandbox.refuse("pidfd_send_signal", errno.EPERM)
            report = cgroup.signal(signal.SIGTERM)
            assert (report.signalled, [refusal.pid for refusal in report.refused]) == (0, [spawned.pid])
            assert ProcessTree(cgroup=cgroup).containment is Containment.CGROUP
            (cgroup_root / "cgroup.kill").write_text("1")
            assert spawned.pidfd.wait(5).signal == signal.SIGKILL

    in_child(body)


def test_a_refusal_of_the_kernels_own_says_no_more_than_that() -> None:
    """Nothing was taken away."""
    with pytest.raises(NotPermitted) as caught:
        check_call(-errno.EPERM, "open", "process 7")
    assert str(caught.value) == "cannot open process 7: Operation not permitted"


def test_a_recorder_that_may_not_wait_does_not_say_that_nobody_is_left(tmp_path: Path) -> None:
    """It ends without a word, and a descendant lives on: UNKNOWN, for the note that nobody is left would be believed."""
    held, hold = os.pipe()

    def body() -> None:
        seccomp.refuse(number_of("waitid"), errno.EPERM)
        argv = ["sh", "-c", f"(setsid sh -c 'read _ <&{held}' &)"]
        launch_recorded(SpawnPlan(argv=argv, pass_fds=[held]), tmp_path / "run", containment=Containment.DESCENDANTS).close()

    in_child(body)
    os.close(held)
    with RecordedRun.open(tmp_path / "run") as recorded:
        recorded.wait(10)
        assert recorded.liveness() is Liveness.UNKNOWN
    os.close(hold)
