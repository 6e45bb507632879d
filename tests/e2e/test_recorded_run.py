"""A run whose launcher is killed right after the launch is found, watched, signalled and told the end of by another process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.durable.lock import FolderLock
from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.recorded import launch
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import begin
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import Busy, WaitTimeout
from tests.recording import Launcher, read_from_new_process
from tests.relatives import Blocked

CONTAINMENTS = [pytest.param("cgroup", marks=pytest.mark.needs_cgroup_v2), "descendants"]
KILL = KillPlan(steps=((signal.SIGKILL, None),))

# name: (body after `read line < go`, how it ends). $DIR is a private folder.
SCRIPTS = {
    "plain": ("exit 7", (ExitKind.EXITED, 7)),
    "killed": ("kill -9 $$", (ExitKind.SIGNALED, 9)),
    "aborted": ('ulimit -c unlimited; cd "$DIR"; kill -6 $$', (ExitKind.SIGNALED, 6)),
    "segfault": ('cd "$DIR"; kill -11 $$', (ExitKind.SIGNALED, 11)),
    "syntax": ('echo ran > "$DIR/ran"\nif then fi )(', (ExitKind.EXITED, 2)),
    "trap": ("trap 'echo bye > \"$DIR/ran\"' EXIT; exit 7", (ExitKind.EXITED, 7)),
    "false-trap": ("trap 'false' EXIT; exit 0", (ExitKind.EXITED, 0)),
    "exec": ('exec sh -c "exit 9"', (ExitKind.EXITED, 9)),
    "errexit": ("set -e; false; exit 0", (ExitKind.EXITED, 1)),
    "137": ("exit 137", (ExitKind.EXITED, 137)),
    "300": ("exit 300", (ExitKind.EXITED, 44)),
    "minus": ("exit -1", (ExitKind.EXITED, 255)),
    "no-tmpdir": ("export TMPDIR=/nowhere; exit 5", (ExitKind.EXITED, 5)),
}


class Job:
    """A script that waits at a FIFO until the test lets it go on."""

    def __init__(self, folder: Path, body: str) -> None:
        self.go = folder / "go"
        os.mkfifo(self.go)
        self.script = folder / "job.sh"
        self.script.write_text(f'DIR="{folder}"\nread line < "$DIR/go"\n{body}\n')
        self.argv = ["bash", str(self.script)]

    def let_go(self) -> None:
        """Blocks until the job stands at the FIFO."""
        self.go.write_text("go\n")


def outcome(info: ExitInfo) -> tuple[ExitKind, int | None]:
    return info.kind, info.code if info.kind is ExitKind.EXITED else info.signal


def launch_and_kill(folder: Path, containment: str, argv: list[str], *, mask: str = "") -> None:
    launcher = Launcher(folder, containment, argv, mask=mask)
    said = launcher.outcome()
    launcher.kill()
    assert said == "launched"


def recorder_ended(run: RecordedRun) -> None:
    """Blocks until it has."""
    assert run._held.recorder is not None
    run._held.recorder.wait(10, reap_grace_s=0)


def open_names(pid: int) -> set[str]:
    """What the process has open, by the last part of the name; what it closes meanwhile is left out."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(Path(os.readlink(f"/proc/{pid}/fd/{name}")).name)
    return found


def strongest() -> ExitSource:
    return ExitSource.PIDFD if Facilities.current().pidfd_exit_info else ExitSource.RECORDED


@pytest.mark.parametrize("containment", CONTAINMENTS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_outlives_its_launcher_and_tells_its_true_end(tmp_path: Path, name: str, containment: str) -> None:
    """WR-02, WR-03, WR-06, WR-07, WR-13, WR-17, SE-08: what the kernel saw, from a process that was not there."""
    body, expected = SCRIPTS[name]
    job = Job(tmp_path, body)
    launch_and_kill(tmp_path / "run", containment, job.argv)
    with RecordedRun.open(tmp_path / "run") as run:
        assert run.liveness() is Liveness.ALIVE
        assert run.exit_info().kind is ExitKind.UNKNOWN
        assert run.containment is Containment(containment)
        job.let_go()
        info = run.wait(10)
        assert outcome(info) == expected
        assert info.source is strongest()
        assert info.core_dumped is (tmp_path / "core").exists()
        assert info.usage is not None
        later = read_from_new_process(tmp_path / "run", mask="pidfd_exit_info")
        assert (later["kind"], later["source"], later.get("core_dumped", False)) == (
            info.kind.value,
            "recorded",
            info.core_dumped,
        )
        run.remove()
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "ran").exists() is (name in ("syntax", "trap"))


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_trap_that_sees_status_0_does_not_hide_the_signal(tmp_path: Path, containment: str) -> None:
    """WR-01: bash runs its EXIT trap with $? 0 when it is told to end; the end is signal 15 all the same."""
    job = Job(tmp_path, "")
    # The child says that it is there: one that bash forks after the signal is not told to end, and bash waits for it.
    job.script.write_text(f"trap 'echo $? > {tmp_path}/rc' EXIT\nsh -c 'echo > {tmp_path}/go; exec sleep 1000'\ntrue\n")
    launch_and_kill(tmp_path / "run", containment, job.argv)
    job.go.read_text()
    with RecordedRun.open(tmp_path / "run") as run:
        assert run.terminate().empty
        assert outcome(run.wait(10)) == (ExitKind.SIGNALED, 15)
        run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_job_without_a_reader_ends_as_it_ends(tmp_path: Path, containment: str) -> None:
    """WR-14: the reader of its output is gone; the code is recorded."""
    reader, writer = os.pipe()
    os.close(reader)
    plan = SpawnPlan(argv=["bash", "-c", "trap '' PIPE; echo lost; exit 5"], stdout=writer)
    with launch_recorded(plan, tmp_path / "run", containment=Containment(containment)) as run:
        os.close(writer)
        assert outcome(run.wait(10)) == (ExitKind.EXITED, 5)
        run.terminate()
        run.remove()


def test_nothing_of_the_recorder_stands_between_a_job_and_its_output(tmp_path: Path) -> None:
    """A pipe gives EOF when the job has ended, though its recorder lives on for a grandchild."""
    reader, writer = os.pipe()
    hold_reader, hold_writer = os.pipe()
    plan = SpawnPlan(argv=["bash", "-c", f"cat <&{hold_reader} >/dev/null 2>&1 & echo hi"], stdout=writer, pass_fds=[hold_reader])
    with launch_recorded(plan, tmp_path / "run", containment=Containment.DESCENDANTS) as run:
        os.close(writer)
        os.close(hold_reader)
        assert run.wait(10).succeeded
        with open(reader, "rb") as output:
            assert output.read() == b"hi\n"
        assert run.liveness() is Liveness.ALIVE
        with pytest.raises(Busy):
            run.remove()
        os.close(hold_writer)
        recorder_ended(run)
        assert run.observe().evidence == "empty"
        run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_the_recorder_stands_outside_the_job(tmp_path: Path, containment: str) -> None:
    """Another session, group and cgroup, / as its folder, every signal blocked, nothing open but its own."""
    job = Job(tmp_path, "exit 0")
    with launch_recorded(SpawnPlan(argv=job.argv), tmp_path / "run", containment=Containment(containment)) as run:
        assert run.recorder is not None
        assert run.leader is not None
        recorder, leader = run.recorder.pid, run.leader.pid
        assert os.getsid(recorder) == recorder != os.getsid(leader) == leader
        assert os.readlink(f"/proc/{recorder}/cwd") == "/"
        status = Path(f"/proc/{recorder}/status").read_text()
        assert "SigBlk:\tfffffffe7ffbfeff" in status or "SigBlk:\tfffffffffffbfeff" in status
        # The channel to the launcher is closed right after the last word on it, which the launcher may act on first.
        while any(name.startswith("socket:") for name in open_names(recorder)):
            os.sched_yield()
        assert open_names(recorder) == {"run", "lock", "started", "exit.tmp", "usage"}
        assert FolderLock.take(run._held.files.folder) is None
        if containment == "cgroup":
            assert Path(f"/proc/{recorder}/cgroup").read_text().rstrip().endswith("/supervisors")
            assert "/steps/" in Path(f"/proc/{leader}/cgroup").read_text()
        job.let_go()
        run.wait(10)
        recorder_ended(run)
        run.remove()


@pytest.mark.needs_cgroup_v2
@pytest.mark.parametrize("mask", ["clone_into_cgroup", "clone3", "clone_into_cgroup,pidfd_info"])
def test_a_recorder_that_cannot_be_born_there_joins_the_supervisors(tmp_path: Path, mask: str) -> None:
    """By its own hand, before it starts the job: it must not end with its launcher's cgroup."""
    os.mkfifo(tmp_path / "go")
    launch_and_kill(tmp_path / "run", "cgroup", ["sh", "-c", f"read go < {tmp_path}/go"], mask=mask)
    with RecordedRun.open(tmp_path / "run") as run:
        assert run.recorder is not None
        assert Path(f"/proc/{run.recorder.pid}/cgroup").read_text().rstrip().endswith("/supervisors")
        run.terminate(KILL)
        run.remove()


def test_a_fork_of_the_launcher_keeps_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked by another thread in the middle of a launch, it has a copy of the lock's descriptor, and lives on."""
    forks: list[Blocked] = []

    def fork_first(*arguments: Any, **options: Any) -> Any:
        forks.append(Blocked())
        return begin(*arguments, **options)

    monkeypatch.setattr(launch, "begin", fork_first)
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run") as run:
        run.wait(10)
        recorder_ended(run)
        lock = FolderLock.take(run._held.files.folder)
        assert lock is not None
        lock.close()
        forks[0].reap()
        run.remove()


@pytest.mark.needs_facility("clone_into_cgroup")
@pytest.mark.needs_facility("cgroup_kill")
@pytest.mark.needs_cgroup_v2
def test_a_leader_that_is_killed_at_its_birth_joins_its_cgroup(
    tmp_path: Path, cgroup_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cgroup.kill in the recorder's own cgroup and none in the job's: the kernel kills what is born across."""
    monkeypatch.setenv("SPURPROC_CGROUP_ROOT", str(cgroup_root / "root"))
    CgroupRoot(path=str(cgroup_root / "root")).prepare()
    (cgroup_root / "root" / "supervisors" / "cgroup.kill").write_text("1")
    with launch_recorded(SpawnPlan(argv=["sh", "-c", "grep /steps/ /proc/self/cgroup"]), tmp_path / "run") as run:
        assert run.wait(10).code == 0
        run.terminate()
        run.remove()


@pytest.mark.needs_facility("pidfd_exit_info")
@pytest.mark.parametrize(("script", "ending"), [("exit 7", (7, None)), ("kill -6 $$", (None, 6)), ("kill -34 $$", (None, 34))])
def test_the_recorder_ends_as_the_leader_did(tmp_path: Path, script: str, ending: tuple[int | None, int | None]) -> None:
    """Same code or signal, for whoever watches it instead of the record; but it leaves no core of its own, in /."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        plan = SpawnPlan(argv=["bash", "-c", script], limits={resource.RLIMIT_CORE: (0, 0)})
        with launch_recorded(plan, tmp_path / "run") as run:
            run.wait(10)
            assert run._held.recorder is not None
            own = run._held.recorder.wait(10)
            assert (own.code, own.signal, own.core_dumped) == (*ending, False)
            run.terminate()
            run.remove()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_whole_tree_is_ended_and_its_run_removed(tmp_path: Path, containment: str) -> None:
    """Members that left the session are reached; only then is the folder removed."""
    reader, writer = os.pipe()
    script = "trap '' TERM; (setsid sh -c 'sleep 1000' &) ; echo up; while :; do sleep 1000; done"
    plan = SpawnPlan(argv=["sh", "-c", script], stdout=writer)
    with launch_recorded(plan, tmp_path / "run", containment=Containment(containment)) as run:
        os.close(writer)
        assert os.read(reader, 3) == b"up\n"
        with pytest.raises(Busy):
            run.remove()
        report = run.terminate(KillPlan(steps=((signal.SIGTERM, 0.05), (signal.SIGKILL, None))))
        assert report.empty
        assert outcome(run.wait(10)) == (ExitKind.SIGNALED, 9)
        assert run.liveness() is Liveness.GONE
        run.remove()
        run.remove()
    with open(reader, "rb") as output:
        assert output.read() == b""


@pytest.mark.needs_cgroup_v2
def test_a_grandchild_keeps_the_run_alive_after_its_recorder_has_ended(tmp_path: Path) -> None:
    """The leader's end is known, the tree lives on: nothing is removed until it is proven empty."""
    with launch_recorded(SpawnPlan(argv=["sh", "-c", "sleep 1000 & exit 7"]), tmp_path / "run") as run:
        assert outcome(run.wait(10)) == (ExitKind.EXITED, 7)
        recorder_ended(run)
        assert run.liveness() is Liveness.ALIVE
        with pytest.raises(Busy, match="not proven empty"):
            run.remove()
        assert sorted(os.listdir(run.folder)) == ["exit", "lock", "run.json", "started", "usage"]
        assert run.terminate().empty
        run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_waiting_in_asyncio(tmp_path: Path, containment: str) -> None:
    """Same answer; a cancelled wait leaves nothing behind."""
    job = Job(tmp_path, "exit 7")

    async def watch(run: RecordedRun) -> ExitInfo:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.wait_async(), 0.05)
        with pytest.raises(WaitTimeout):
            await run.wait_async(0.01)
        waiting = asyncio.create_task(run.wait_async())
        await asyncio.to_thread(job.let_go)
        return await waiting

    with launch_recorded(SpawnPlan(argv=job.argv), tmp_path / "run", containment=Containment(containment)) as run:
        info = asyncio.run(watch(run))
        assert outcome(info) == (ExitKind.EXITED, 7)
        assert info.source is strongest()
        run.terminate()
        run.remove()


def test_a_removed_folder_is_never_made_again(tmp_path: Path) -> None:
    """The recorder ends without a record, and a reader that holds the run says why it knows nothing."""
    job = Job(tmp_path, "exit 7")
    with launch_recorded(SpawnPlan(argv=job.argv), tmp_path / "run") as run:
        for name in os.listdir(tmp_path / "run"):
            (tmp_path / "run" / name).unlink()
        (tmp_path / "run").rmdir()
        job.let_go()
        info = run.wait(10)
        assert info.kind is ExitKind.UNKNOWN or info.source is ExitSource.PIDFD
        assert not (tmp_path / "run").exists()
        run.terminate()
        if run.record.cgroup is not None:
            os.rmdir(run.record.cgroup.path)


@pytest.mark.needs_root
@pytest.mark.parametrize(("user", "trusted"), [(65534, True), (None, False)])
def test_a_record_that_the_job_could_have_written_is_not_trusted(tmp_path: Path, user: int | None, trusted: bool) -> None:
    """The recorder's user, or root, could have written it; another user could not. The kernel's own word always counts."""
    plan = SpawnPlan(argv=["sh", "-c", "exit 7"], user=user, group=user)
    with launch_recorded(plan, tmp_path / "run") as run:
        assert run.wait(10).trusted or strongest() is ExitSource.RECORDED
        run.terminate()
        later = read_from_new_process(tmp_path / "run", mask="pidfd_exit_info")
        assert (later["kind"], later["source"], later["trusted"]) == ("exited", "recorded", trusted)
        run.remove()


@pytest.mark.parametrize("spoil", ["fifo", "symlink", "other nonce", "garbage"])
def test_a_spoilt_sentinel_is_unknown_and_blocks_nobody(tmp_path: Path, spoil: str) -> None:
    """Without the kernel's word a record that may not be believed is UNKNOWN, with the reason; never 0."""
    with launch_recorded(SpawnPlan(argv=["sh", "-c", "exit 7"]), tmp_path / "run") as run:
        run.wait(10)
        run.terminate()
        exit_file = tmp_path / "run" / "exit"
        line = exit_file.read_text()
        exit_file.unlink()
        spoilers: dict[str, Callable[[], object]] = {
            "fifo": lambda: os.mkfifo(exit_file, 0o600),
            "symlink": lambda: exit_file.symlink_to("/etc/hostname"),
            "other nonce": lambda: exit_file.write_text(line.replace(run.record.nonce, "0" * 32)),
            "garbage": lambda: exit_file.write_text("spurproc-exit 1 exited 0\n"),
        }
        spoilers[spoil]()
        if exit_file.is_file() and not exit_file.is_symlink():
            exit_file.chmod(0o600)
        later = read_from_new_process(tmp_path / "run", mask="pidfd_exit_info")
        assert later["kind"] == "unknown"
        assert "may not be believed" in later["reason"]
        run.remove()


def test_a_run_of_another_boot_is_unknown_unless_its_end_was_recorded(tmp_path: Path) -> None:
    """SE-03, ID-03: its numbers mean nothing now."""
    with launch_recorded(SpawnPlan(argv=["sh", "-c", "exit 7"]), tmp_path / "run") as run:
        run.wait(10)
        run.terminate()
        record = tmp_path / "run" / "run.json"
        record.write_text(record.read_text().replace(run.record.boot_id, "00000000-0000-4000-8000-000000000000"))
        assert read_from_new_process(tmp_path / "run", mask="pidfd_exit_info")["kind"] == "exited"
        (tmp_path / "run" / "exit").unlink()
        later = read_from_new_process(tmp_path / "run", mask="pidfd_exit_info")
        assert later["kind"] == "unknown"
        assert "restarted" in later["reason"]
        run.remove()
