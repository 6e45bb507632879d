"""Supervised steps among odd things: no reader, no folder, no room, no time; and what a supervisor has about it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import ExitKind, ExitSource, Pidfd
from spurproc.client.host_link import PROGRAM_VARIABLE
from spurproc.client.step import Step
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.proto.launch_record import Hook
from spurproc.proto.messages import Ended, Status, StatusReply, Subscribe
from spurproc.proto.runtime_id import EXTERN_STEP, RuntimeId
from spurproc.proto.step_state import StepState
from tests.asleep import await_sleep
from tests.fifo import Gate, Told
from tests.relatives import NOBODY
from tests.step_peer import StepPeer, until, wait_taken_over
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps

SYS_RESOURCE = 24
KEPT = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 19
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_KILL, CAP_SYS_PTRACE."""


def status_line(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith(f"{name}:"))


def running(steps: Steps, say: Told, script: str = "exec sleep 600") -> tuple[Pidfd, Path]:
    """A step that runs; its supervisor, held, and its folder."""
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; echo up >&3; {script}"], kill_plan=KILL_AT_ONCE)
    assert say.line() == "up"
    return steps.descriptor(step).supervisor.open(), steps.folder(step)


# Starts that do not come about.


def test_nobody_says_start_in_time(steps: Steps, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    step = steps.launch(["touch", str(ran)], start=False, start_deadline_s=0.3)
    end = step.wait(WAIT_S, completed=True)
    assert (end.kind, end.stage, end.reason) == (ExitKind.NOT_STARTED, "GATE", "nobody sent start within 0.3 s")
    assert not ran.exists()


def blocked_at_output(steps: Steps, fifo: Path) -> StepPeer:
    """A step whose leader waits for a reader, and a peer that has asked until it was told so."""
    os.mkfifo(fifo)
    step = steps.launch(["echo", "hello"], start=False, stdout=fifo)
    step.start()
    peer = StepPeer(step).greet()
    until_then = time.monotonic() + WAIT_S
    while True:
        assert time.monotonic() < until_then
        peer.say(Status(runtime_id=step.runtime_id))
        answer = peer.hear()
        assert isinstance(answer, StatusReply)
        if answer.blocked_at == "STDOUT":
            assert answer.state is StepState.STARTING
            return peer


def test_output_that_nobody_reads_blocks_the_start_and_not_the_supervisor(steps: Steps, tmp_path: Path) -> None:
    """Told to end, it is gone; it never ran."""
    peer = blocked_at_output(steps, tmp_path / "fifo")
    with peer:
        peer.step.terminate()
    end = peer.step.wait(WAIT_S, completed=True)
    assert (end.kind, end.stage) == (ExitKind.NOT_STARTED, "STDOUT")


def test_a_time_limit_ends_a_start_that_is_blocked(steps: Steps, tmp_path: Path) -> None:
    """Whoever has put a FIFO there has what it holds for so long, and not for ever."""
    os.mkfifo(tmp_path / "fifo")
    step = steps.launch(["echo", "hello"], start=False, stdout=tmp_path / "fifo", time_limit_s=0.3)
    step.start()
    end = step.wait(WAIT_S, completed=True)
    assert (end.kind, end.stage, end.reason) == (ExitKind.NOT_STARTED, "STDOUT", "its time limit of 0.3 s is over")


def test_output_that_is_read_late_starts_it(steps: Steps, tmp_path: Path) -> None:
    peer = blocked_at_output(steps, tmp_path / "fifo")
    with peer, open(tmp_path / "fifo", "rb") as reader:
        assert reader.read() == b"hello\n"
    assert peer.step.wait(WAIT_S, completed=True).succeeded


# Its folder.


def test_a_socket_that_was_removed_is_bound_again(steps: Steps, told: Callable[[str], Told]) -> None:
    """SIGHUP. Whoever was connected stays so."""
    say = told("say")
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; echo up >&3; exec sleep 600"])
    assert say.line() == "up"
    with StepPeer(step).greet() as before, steps.descriptor(step).supervisor.open() as supervisor:
        (steps.folder(step) / "control.sock").unlink()
        with pytest.raises(FileNotFoundError):
            StepPeer(step)
        # What stands there instead is replaced, whatever it is.
        (steps.folder(step) / "control.sock").write_text("in its place")
        supervisor.send_signal(signal.SIGHUP)
        for _ in range(2):  # the second is read after the signal, whichever came first
            before.say(Status(runtime_id=step.runtime_id))
            assert isinstance(before.hear(), StatusReply)
    with StepPeer(step).greet() as after:
        after.say(Status(runtime_id=step.runtime_id))
        assert isinstance(after.hear(), StatusReply)
    assert sorted(os.listdir(steps.folder(step))) == ["control.sock", "descriptor.json", "journal.jsonl", "launch.json", "lock"]


def test_a_folder_that_is_removed_ends_what_runs_in_it(steps: Steps, told: Callable[[str], Told]) -> None:
    """With its kill plan, and nothing is made again in its place."""
    say = told("say")
    supervisor, folder = running(steps, say)
    with supervisor:
        shutil.rmtree(folder)
        supervisor.wait(WAIT_S)
    say.wait_end()
    assert not folder.exists()
    assert os.listdir(folder.parent) == []


def test_a_folder_that_is_removed_before_the_start_leaves_nothing(steps: Steps, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    step = steps.launch(["touch", str(ran)], start=False)
    with steps.descriptor(step).supervisor.open() as supervisor:
        shutil.rmtree(steps.folder(step))
        supervisor.wait(WAIT_S)
    assert not ran.exists()
    assert os.listdir(steps.folder(step).parent) == []


def test_a_folder_that_is_only_moved_goes_on(steps: Steps, gate: Callable[[str], Gate], tmp_path: Path) -> None:
    go = gate("go")
    step = steps.launch(["sh", "-c", f"read x <{go.path}"])
    folder = steps.folder(step)
    (folder / "theirs").touch()
    folder.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "theirs").unlink()
    (tmp_path / "elsewhere").rename(folder)
    assert step.status().state is StepState.RUNNING
    go.open()
    assert step.wait(WAIT_S, completed=True).succeeded


# Disks and files of the job.


@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(mount=True, timeout_s=120)
def test_a_job_that_fills_the_disk_of_its_own_records_has_its_end_recorded(tmp_path: Path) -> None:
    """Room for that was set aside before it ran."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    steps = Steps(disk / "state")
    step = steps.launch(["sh", "-c", f"cat /dev/zero >{disk}/full; exit 3"], stderr=disk / "err")
    end = step.wait(WAIT_S, completed=True)
    assert (end.code, end.source) == (3, ExitSource.WAITED)
    assert os.statvfs(disk).f_bavail == 0
    step.acknowledge()
    assert steps.events(step)[-3:] == ["exit_observed", "emptied", "acknowledged"]
    steps.end_all()


HAVOC = {
    "fills": "while echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; do :; done 2>&-",
    "deletes": "rm -f {commons}/out {commons}/err",
    "replaces": "rm -f {commons}/out; mkdir {commons}/out; ln -sf /etc/passwd {commons}/err",
    "makes FIFOs": "rm -f {commons}/out; mkfifo {commons}/out",
    "cuts short": ": >{commons}/out",
    "closes": "exec 1>&- 2>&-",
}


@pytest.mark.needs_root
@pytest.mark.parametrize("havoc", HAVOC)
def test_whatever_a_job_does_to_what_it_may_write_its_end_is_told(steps: Steps, commons: Path, havoc: str) -> None:
    """It is told by the kernel to its supervisor: no file of the job's stands in between."""
    script = HAVOC[havoc].format(commons=commons)
    limits = {1: (65536, 65536)}  # RLIMIT_FSIZE, for the one that fills
    step = steps.launch(
        ["sh", "-c", f"trap '' XFSZ; {script}; exit 11"],
        user=NOBODY,
        group=NOBODY,
        stdout=commons / "out",
        stderr=commons / "err",
        limits=limits,
    )
    end = step.wait(WAIT_S, completed=True)
    assert (end.code, end.source, end.trusted) == (11, ExitSource.WAITED, True)


def test_a_job_of_the_same_user_that_destroys_its_own_records_is_told_to_who_waits(
    steps: Steps, told: Callable[[str], Told], gate: Callable[[str], Gate]
) -> None:
    """Nothing is left to be read later; its supervisor still says how it ended, and that the job might have said so itself."""
    say, go = told("say"), gate("go")
    script = f"exec 3>{say.path}; rm -f *; echo up >&3; read x <{go.path}; exit 12"
    step = steps.launch(["sh", "-c", f"cd {steps.path}/runtime/1.1.0; {script}"], start=False)
    with StepPeer(step).greet() as peer:
        step.start()
        assert say.line() == "up"
        peer.say(Subscribe(runtime_id=step.runtime_id))
        go.open()
        while not isinstance(heard := peer.hear(), Ended):
            pass
        assert (heard.end.code, heard.end.trusted) == (12, False)
        peer.wait_hung_up()


# What a supervisor has about it.


def test_a_supervisor_is_named_for_its_step(steps: Steps, told: Callable[[str], Told]) -> None:
    say = told("say")
    supervisor, folder = running(steps, say)
    with supervisor:
        shown = subprocess.run(["ps", "-o", "comm=,args=", "-p", str(supervisor.pid)], capture_output=True, text=True, check=True)
        assert shown.stdout.split() == ["spurstepd", folder.name, "spurstepd:", "step", folder.name]


@pytest.mark.needs_root
def test_a_supervisor_has_only_the_capabilities_that_it_needs(steps: Steps, told: Callable[[str], Told]) -> None:
    """Cut once the leader runs; its job has all that the launcher gave it."""
    say = told("say")
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; echo up >&3; exec sleep 600"])
    assert say.line() == "up"
    step.status()  # answered behind all that its supervisor does once the leader runs
    descriptor = steps.descriptor(step)
    for held in ("CapEff", "CapPrm"):
        assert int(status_line(descriptor.supervisor.pid, held), 16) == KEPT & int(status_line(os.getpid(), held), 16)
    assert descriptor.leader is not None
    assert status_line(descriptor.leader.pid, "CapEff") == status_line(os.getpid(), "CapEff")


@pytest.mark.needs_root
@pytest.mark.parametrize("what", ["extern", pytest.param("successor", marks=pytest.mark.needs_cgroup_v2)])
def test_so_has_one_that_never_had_a_leader(steps: Steps, told: Callable[[str], Told], what: str) -> None:
    say = told("say")
    if what == "extern":
        step = steps.launch(None, runtime_id=RuntimeId(1, 1, EXTERN_STEP))
        until(step, StepState.RUNNING)
    else:
        script = f"(trap '' TERM; setsid sh -c 'exec 3>{say.path}; echo up >&3; sleep 600; :' &); exec sleep 600"
        step = steps.launch(["sh", "-c", script])
        assert say.line() == "up"
        descriptor = steps.descriptor(step)
        steps.kill(descriptor.supervisor)
        assert descriptor.leader is not None
        steps.kill(descriptor.leader)
        wait_taken_over(step)
        assert until(step, StepState.EMPTYING).end is not None
    supervisor = steps.descriptor(step).supervisor
    assert int(status_line(supervisor.pid, "CapEff"), 16) == KEPT & int(status_line(os.getpid(), "CapEff"), 16)


def test_a_supervisor_dies_last_for_want_of_memory_and_its_job_does_not(steps: Steps, told: Callable[[str], Told]) -> None:
    """Where that is permitted: it takes CAP_SYS_RESOURCE."""
    say = told("say")
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; echo up >&3; exec sleep 600"])
    assert say.line() == "up"
    descriptor = steps.descriptor(step)
    may = int(status_line(os.getpid(), "CapEff"), 16) >> SYS_RESOURCE & 1
    own = Path("/proc/self/oom_score_adj").read_text()
    assert Path(f"/proc/{descriptor.supervisor.pid}/oom_score_adj").read_text() == ("-999\n" if may else own)
    assert descriptor.leader is not None
    assert Path(f"/proc/{descriptor.leader.pid}/oom_score_adj").read_text() == "0\n"


def test_a_job_starts_where_nobody_may_lower_its_score(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[[str], Told]
) -> None:
    """As in a user's session, where all have 100 or more: to ask for 0 would be refused, and nothing would ever start."""
    program = tmp_path / "scored"
    stepd = Path(sys.executable).with_name("spurstepd")
    program.write_text(f'#!/bin/sh\necho 300 >/proc/self/oom_score_adj\nexec {stepd} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv(PROGRAM_VARIABLE, str(program))
    step = steps.launch(["sh", "-c", "exit $(cat /proc/self/oom_score_adj | head -c 2)"])
    may = int(status_line(os.getpid(), "CapEff"), 16) >> SYS_RESOURCE & 1
    assert step.wait(WAIT_S).code == (0 if may else 30)


def descriptors(pid: int) -> dict[int, str]:
    folder = f"/proc/{pid}/fd"
    return {int(name): os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}


def test_a_supervisor_has_nothing_of_another_step(steps: Steps, told: Callable[[str], Told]) -> None:
    """No lock, no channel, no pidfd: each that is kept is named here."""
    say = told("say")
    script = f"exec 3>{say.path}; echo up >&3; exec sleep 600"
    ready = steps.launch(["true"], start=False)
    before = steps.launch(["sh", "-c", script])
    assert say.line() == "up"
    step = steps.launch(["sh", "-c", script])
    assert say.line() == "up"
    leader = steps.descriptor(step).leader
    assert leader is not None
    await_sleep(leader.pid, "nanosleep")  # it is its program by now, and has loaded what that takes
    with StepPeer(ready).greet(), StepPeer(before).greet(), StepPeer(step).greet():  # each has seen its launcher hang up by now
        only_what_is_named(steps, step, others=(ready, before))


def only_what_is_named(steps: Steps, step: Step, others: tuple[Step, ...]) -> None:
    """With one peer connected."""
    descriptor, folder = steps.descriptor(step), steps.folder(step)
    assert descriptor.leader is not None
    there = descriptors(descriptor.supervisor.pid)
    files = sorted(target for target in there.values() if target.startswith("/"))
    cgroup = [] if descriptor.cgroup is None else [descriptor.cgroup.path, f"{descriptor.cgroup.path}/cgroup.events"]
    named = [*["/dev/null"] * 3, str(folder.parent), str(folder), f"{folder}/lock", f"{folder}/journal.jsonl", *cgroup]
    assert [file for file in files if not file.endswith("/spurproc-exec")] == sorted(named)
    kinds = sorted(target.partition("[")[2] for target in there.values() if target.startswith("anon_inode"))
    assert kinds == ["eventpoll]", "pidfd]", "signalfd]"]
    pidfd = next(fd for fd, target in there.items() if target == "anon_inode:[pidfd]")
    info = Path(f"/proc/{descriptor.supervisor.pid}/fdinfo/{pidfd}").read_text()
    assert f"Pid:\t{descriptor.leader.pid}\n" in info
    # Its way to the host, its leader's channel, its listener, the peer: and none of them is anybody else's.
    sockets = {target for target in there.values() if target.startswith("socket")}
    assert len(sockets) == 4
    for other in map(steps.descriptor, others):
        assert not sockets & set(descriptors(other.supervisor.pid).values())
    assert set(descriptors(descriptor.leader.pid)) == {0, 1, 2, 3}


def test_zombies_that_wait_behind_the_leader_are_reaped(
    steps: Steps, told: Callable[[str], Told], gate: Callable[[str], Gate]
) -> None:
    """Leader and orphan end while their supervisor looks away: it may reap neither before the leader's end is recorded."""
    say, later, go = told("say"), told("later"), gate("go")
    waits = f"echo up >&3; read x <{go.path}"
    epilog = Hook(argv=("sh", "-c", f"echo epilog >{later.path}; read x <{go.path}"))
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; (setsid sh -c '{waits}' &); {waits}; exit 5"], epilog=epilog)
    assert [say.line(), say.line()] == ["up", "up"]
    with steps.descriptor(step).supervisor.open() as supervisor:
        supervisor.send_signal(signal.SIGSTOP)
        go.open()
        go.open()
        say.wait_end()
        supervisor.send_signal(signal.SIGCONT)
        assert later.line() == "epilog"
        children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
        assert len(children) == 1, "the hook, and nobody else"
    go.open()
    assert step.wait(WAIT_S, completed=True).code == 5


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_a_cgroup_that_somebody_has_removed_had_nobody_left_in_it(steps: Steps, told: Callable[[str], Told]) -> None:
    """Its supervisor and host were killed. Whoever comes after finds neither leader nor cgroup, and that is proven."""
    say = told("say")
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; echo up >&3; exec sleep 600"])
    assert say.line() == "up"
    descriptor = steps.descriptor(step)
    assert descriptor.cgroup is not None
    assert descriptor.leader is not None
    steps.kill(descriptor.host, descriptor.supervisor, descriptor.leader)  # or a successor removes it
    with Cgroup.open(descriptor.cgroup.path) as cgroup:
        cgroup.remove(WAIT_S)
    step.wait(WAIT_S, completed=True)
    assert steps.history(step).emptied is not None
