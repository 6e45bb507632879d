"""Each step of the recorder is a crash point: stopped there, launcher, recorder or both are killed; another process looks."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.durable.lock import FolderLock
from spurproc.core.recorded.end import NotYet
from spurproc.core.recorded.folder import RunFolder
from spurproc.core.recorded.held import HeldRun
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.recorded.waiting import wait_steps
from spurproc.core.recorded.watch import wait_for
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import Busy, WaitTimeout
from tests.pidfds import open_pidfd
from tests.recording import Launcher, adopting, build_failpoint, read_from_new_process

CONTAINMENTS = [pytest.param("cgroup", marks=pytest.mark.needs_cgroup_v2), "descendants"]
KILL = KillPlan(steps=((signal.SIGKILL, None),))
JOB = 'echo ran > "{}/ran"; exit 7'

# In the recorder's own order. Before the leader is named nothing can have run; before the gate opens, nothing has.
BEFORE_LEADER = ["BEGIN", "NAMED", "LOCKED", "CLONED"]
BEFORE_GATE = ["STARTED"]
BEFORE_CONFIRMED = ["GATE_OPENED", "CONFIRMED"]
BEFORE_RECORD = ["LAUNCHED", "ENDED", "WRITTEN"]
RECORDED = ["PUBLISHED", "REAPED"]
POINTS = [*BEFORE_LEADER, *BEFORE_GATE, *BEFORE_CONFIRMED, *BEFORE_RECORD, *RECORDED]


@dataclass
class Crash:
    """A launch whose recorder has stopped itself at a point. The recorder is a child of the test by now, or will be."""

    folder: Path
    launcher: Launcher
    recorder: int

    def kill_recorder(self) -> None:
        """Its pidfd pins it: it is stopped, so it cannot have ended."""
        signal.pidfd_send_signal(self.recorder, signal.SIGKILL)
        os.waitid(os.P_PIDFD, self.recorder, os.WEXITED)

    def go_on(self) -> None:
        """Let the recorder take its next steps."""
        signal.pidfd_send_signal(self.recorder, signal.SIGCONT)


@contextmanager
def stopped_at(point: str, tmp_path: Path, containment: str, argv: list[str]) -> Iterator[Crash]:
    """The recorder stops; seen as a fact, by waitid(2). At the end all orphans have ended and are reaped."""
    program = build_failpoint(point)
    with adopting():
        launcher = Launcher(tmp_path / "run", containment, argv, program=program)
        launcher.begun()
        stop = os.waitid(os.P_ALL, 0, os.WSTOPPED)
        assert stop is not None
        pidfd = open_pidfd(stop.si_pid)
        try:
            yield Crash(tmp_path / "run", launcher, pidfd)
        finally:
            launcher.kill()
            os.close(pidfd)


def adopted_leader_ends() -> None:
    """Blocks until the leader, a child of the test since its recorder is dead, is a zombie; leaves it one."""
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def clear(tmp_path: Path, answer: dict[str, Any]) -> None:
    """Remove by hand what may not be removed: without its subreaper, DESCENDANTS cannot be proven empty."""
    if "busy" in answer:
        assert answer["liveness"] == "unknown"
        files = RunFolder.open(tmp_path / "run")
        files.remove()
        files.close()


@pytest.mark.parametrize("containment", CONTAINMENTS)
@pytest.mark.parametrize("point", POINTS)
def test_launcher_killed(tmp_path: Path, point: str, containment: str) -> None:
    """The recorder needs nobody: the job runs, and its true end is told."""
    with stopped_at(point, tmp_path, containment, ["sh", "-c", JOB.format(tmp_path)]) as crash:
        crash.launcher.kill()
        crash.go_on()
        answer = read_from_new_process(tmp_path / "run")
        os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)  # the same answer once all have gone
        later = read_from_new_process(tmp_path / "run", remove=True)
    assert (answer["kind"], answer["code"]) == ("exited", 7)
    assert (later["kind"], later["code"], later["source"], later["liveness"]) == ("exited", 7, "recorded", "gone")
    assert sorted(os.listdir(tmp_path)) == ["ran"]


@pytest.mark.parametrize("containment", CONTAINMENTS)
@pytest.mark.parametrize("point", POINTS)
def test_both_killed(tmp_path: Path, point: str, containment: str) -> None:
    """The answer is right, or UNKNOWN with its reason; NOT_STARTED only for a job that never ran."""
    with stopped_at(point, tmp_path, containment, ["sh", "-c", JOB.format(tmp_path)]) as crash:
        crash.launcher.kill()
        crash.kill_recorder()
        if point in ("CLONED", *BEFORE_GATE, *BEFORE_CONFIRMED, *BEFORE_RECORD, "PUBLISHED"):
            adopted_leader_ends()
        first = read_from_new_process(tmp_path / "run")
        while _reap_one():
            continue
        answer = read_from_new_process(tmp_path / "run", remove=True)
    ran = (tmp_path / "ran").exists()
    check_both(point, first, answer, ran=ran)
    clear(tmp_path, answer)


def check_both(point: str, first: dict[str, Any], answer: dict[str, Any], *, ran: bool) -> None:
    """`first`: while the leader is an unreaped zombie, where there is one."""
    if point in BEFORE_LEADER:
        assert (answer["kind"], answer["stage"], ran) == ("not-started", "NONE", False)
        assert first["kind"] == "not-started"
    elif point in (*BEFORE_GATE, *BEFORE_CONFIRMED):
        assert first["kind"] == answer["kind"] == "unknown"
        assert "before it knew whether the job had started" in answer["reason"]
        assert ran is (point not in BEFORE_GATE)
    elif point in BEFORE_RECORD:
        assert ran
        # The leader is not reaped before its end is written: whoever may read a zombie's status knows it still.
        assert (first.get("code"), first["source"]) == ((7, "zombie") if os.geteuid() == 0 else (None, "none"))
        assert answer["kind"] == "unknown"
        assert "the recorder ended before the job did" in answer["reason"]
    else:
        assert (answer["kind"], answer["code"], answer["source"], ran) == ("exited", 7, "recorded", True)
        assert (first["kind"], first["source"]) == ("exited", "recorded")  # though the zombie of PUBLISHED says it too


@pytest.mark.parametrize(("point", "names"), [("ENDED", {"exit.tmp"}), ("WRITTEN", {"exit.tmp"}), ("PUBLISHED", {"exit"})])
def test_the_record_gets_its_name_when_it_is_whole(tmp_path: Path, point: str, names: set[str]) -> None:
    """Written first, and only then renamed."""
    with stopped_at(point, tmp_path, "descendants", ["sh", "-c", JOB.format(tmp_path)]) as crash:
        there = {"exit", "exit.tmp"} & set(os.listdir(tmp_path / "run"))
        content = (tmp_path / "run" / there.copy().pop()).read_bytes()
        assert there == names
        assert content == bytes(128) if point == "ENDED" else content.endswith(b" exited 7\n")
        crash.go_on()
        os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)
        read_from_new_process(tmp_path / "run", remove=True)


def _reap_one() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED) is not None
    except ChildProcessError:
        return False


@pytest.mark.parametrize("containment", CONTAINMENTS)
@pytest.mark.parametrize("point", [*BEFORE_LEADER, *BEFORE_GATE, *BEFORE_CONFIRMED])
def test_recorder_killed_before_the_launch_is_confirmed(tmp_path: Path, point: str, containment: str) -> None:
    """Its launcher says so at once, and leaves nothing: no process, cgroup or file."""
    with stopped_at(point, tmp_path, containment, ["sh", "-c", JOB.format(tmp_path) + "; sleep 1000"]) as crash:
        crash.kill_recorder()
        assert crash.launcher.outcome().startswith("failed ")
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("containment", CONTAINMENTS)
@pytest.mark.parametrize("point", [*BEFORE_RECORD, *RECORDED])
def test_recorder_killed_after_the_launch(tmp_path: Path, point: str, containment: str) -> None:
    """A process that has held the leader's pidfd all along has the kernel's word for it, recorder or not."""
    with stopped_at(point, tmp_path, containment, ["sh", "-c", JOB.format(tmp_path)]) as crash:
        assert crash.launcher.outcome() == "launched"
        with RecordedRun.open(tmp_path / "run") as run:
            crash.kill_recorder()
            if run._held.leader is not None:
                run._held.leader.wait(10)
            info = run.wait(10)
            assert (info.kind.value, info.code) == ("exited", 7)
            assert info.source.value in ("waited", "pidfd", "recorded")
            if containment == "cgroup":
                run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_missing_interpreter_is_named_by_a_later_reader(tmp_path: Path, containment: str) -> None:
    """The launcher is gone before it could know: NOT_STARTED, errno, and the interpreter's name."""
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter -x\n")
    script.chmod(0o755)
    with stopped_at("STARTED", tmp_path, containment, [str(script)]) as crash:
        crash.launcher.kill()
        crash.go_on()
        answer = read_from_new_process(tmp_path / "run", remove=True)
    assert (answer["kind"], answer["stage"], answer["errno"]) == ("not-started", "EXEC", 2)
    assert answer["interpreter"] == "/no/such/interpreter"
    assert "busy" in answer or not (tmp_path / "run").exists()
    clear(tmp_path, answer)


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_leader_killed_at_its_gate_is_never_the_job(tmp_path: Path, containment: str) -> None:
    """Its pidfd tells of a SIGKILL, the job was never exec'd: NOT_STARTED, by whatever source."""
    argv = ["sh", "-c", JOB.format(tmp_path)]
    with stopped_at("STARTED", tmp_path, containment, argv) as crash, RecordedRun.open(tmp_path / "run") as run:
        assert run._held.leader is not None
        crash.launcher.kill()  # it would remove what we look at
        run._held.leader.send_signal(signal.SIGKILL)
        crash.go_on()
        info = run.wait(10)
        assert (info.kind.value, info.errno) == ("not-started", 0)
        assert info.stage != "EXEC"
        os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)
        run.remove()
    assert os.listdir(tmp_path) == []


def test_a_spoilt_sentinel_is_no_answer_while_the_recorder_lives(tmp_path: Path) -> None:
    """The leader has ended and its recorder is about to write: that record takes the name, whatever the job has put there."""
    with stopped_at("ENDED", tmp_path, "descendants", ["sh", "-c", JOB.format(tmp_path)]) as crash:
        os.mkfifo(tmp_path / "run" / "exit", 0o600)
        with RecordedRun.open(tmp_path / "run") as run:
            assert run.exit_info().reason == NotYet.BEING_RECORDED.value
            with pytest.raises(WaitTimeout):
                run.wait(0.05)
            crash.go_on()
            assert run.wait(10).code == 7
            os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)
            run.remove()


def test_a_reader_sees_a_launch_under_way_as_unknown(tmp_path: Path) -> None:
    """Neither GONE nor NOT_STARTED while the recorder may still start it; and a wait begun then sees the end."""
    with stopped_at("BEGIN", tmp_path, "descendants", ["sh", "-c", JOB.format(tmp_path)]) as crash:
        with RecordedRun.open(tmp_path / "run") as run:
            assert (run.observe().liveness.value, run.observe().evidence) == ("unknown", "launching")
            assert run.exit_info().reason == NotYet.LAUNCHING.value
            crash.go_on()
            assert run.wait(10).code == 7
        os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)
        read_from_new_process(tmp_path / "run", remove=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("point", ["BEGIN", "NAMED", "LOCKED", "CLONED"])
def test_the_lock_passes_to_the_recorder_without_a_gap(tmp_path: Path, point: str) -> None:
    """Whoever could take it would conclude NOT_STARTED, if it cannot see that the recorder lives: from another pid namespace."""
    argv = ["sh", "-c", JOB.format(tmp_path)]
    with stopped_at(point, tmp_path, "descendants", argv) as crash, RecordedRun.open(tmp_path / "run") as run:
        crash.launcher.kill()
        assert FolderLock.take(run._held.files.folder) is None
        assert run.exit_info().reason == NotYet.LAUNCHING.value
        crash.go_on()
        assert run.wait(10).code == 7
        os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)
        run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_launcher_that_dies_before_it_holds_the_recorder_starts_nothing(tmp_path: Path, containment: str) -> None:
    """Until then it could not undo the launch either, were it interrupted: the recorder waits for its word."""
    with adopting():
        launcher = Launcher(tmp_path / "run", containment, ["sh", "-c", JOB.format(tmp_path)], commit=False)
        launcher.begun()
        with RecordedRun.open(tmp_path / "run") as run:
            assert run.observe().evidence == "launching"
            launcher.kill()
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            info = run.wait(10)
        assert (info.kind.value, info.stage) == ("not-started", "NONE")
    read_from_new_process(tmp_path / "run", remove=True)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_wait_begun_before_the_leader_is_named_ends_with_the_leader(tmp_path: Path, containment: str) -> None:
    """Not with its last descendant, which may live for ever. That it is named is a change of the folder, and wakes who waits."""
    argv = ["sh", "-c", "(setsid sleep 1000 > /dev/null 2>&1 &); exit 7"]
    with stopped_at("LOCKED", tmp_path, containment, argv) as crash, RecordedRun.open(tmp_path / "run") as run:
        crash.launcher.kill()
        steps = wait_steps(run._held, 10)
        named = select.poll()
        for fd, events in next(steps).entries:
            named.register(fd, events)
        crash.go_on()
        assert named.poll(10_000)
        for watch in steps:
            wait_for(watch)
        assert run.exit_info().code == 7
        assert run.terminate(KILL).empty
        run.remove()


@pytest.mark.needs_facility("pidfd_exit_info")
def test_a_recorder_that_stands_still_with_the_end_written_down_hangs_nobody(tmp_path: Path) -> None:
    """Stopped or traced between its record and the reap: the record counts."""
    with stopped_at("PUBLISHED", tmp_path, "descendants", ["sh", "-c", JOB.format(tmp_path)]) as crash:
        with RecordedRun.open(tmp_path / "run") as run:
            info = run.wait(10)
        assert (info.code, info.source.value) == (7, "recorded")
        crash.go_on()
        os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)
        read_from_new_process(tmp_path / "run", remove=True)


@pytest.mark.needs_facility("pidfd_exit_info")
def test_an_end_that_is_written_down_is_kept_back_for_the_word_of_the_kernel(tmp_path: Path) -> None:
    """Who waits while the leader is still to be reaped is told no less than who comes later."""
    with (
        stopped_at("PUBLISHED", tmp_path, "descendants", ["sh", "-c", JOB.format(tmp_path)]) as crash,
        RecordedRun.open(tmp_path / "run") as run,
    ):
        steps = wait_steps(run._held, 10)
        next(steps)
        crash.go_on()
        for watch in steps:
            wait_for(watch)
        info = run.exit_info()
        assert (info.code, info.source.value) == (7, "pidfd")
        os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)
        run.remove()


def test_descendants_are_not_gone_before_the_recorder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that finds nobody proves nothing of a tree that forks faster than that."""
    with (
        stopped_at("REAPED", tmp_path, "descendants", ["sh", "-c", JOB.format(tmp_path)]) as crash,
        RecordedRun.open(tmp_path / "run") as run,
    ):
        assert run.wait(10).code == 7
        assert run.observe().liveness.value == "unknown"
        with pytest.raises(Busy):
            run.remove(timeout_s=0)
        monkeypatch.setattr("spurproc.core.recorded.run._RECORDER_END_S", 0.0)
        assert not run.terminate(KILL).empty
        crash.go_on()
        os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED | os.WNOWAIT)
        assert run.observe().evidence == "empty"
        run.remove()


@contextmanager
def _looks_late(happens: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a reader that was not running for a while does: `happens` stands between its look at the notes and at the recorder."""

    def look(held: HeldRun) -> bool:
        happens()
        return False

    with monkeypatch.context() as patched:
        patched.setattr(HeldRun, "recorder_lives", look)
        yield


def test_a_leader_named_between_two_looks_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it in the notes that a reader had read before, the run would be called one that never started."""
    os.mkfifo(tmp_path / "go")
    with stopped_at("CLONED", tmp_path, "descendants", ["sh", "-c", f"read _ < {tmp_path}/go"]) as crash:

        def launch_and_die() -> None:
            crash.go_on()
            assert crash.launcher.outcome() == "launched"
            crash.kill_recorder()

        with RecordedRun.open(tmp_path / "run") as run:
            assert run.leader is None
            with _looks_late(launch_and_die, monkeypatch):
                assert run.exit_info().reason == NotYet.RUNNING.value
        (tmp_path / "go").write_text("\n")


def test_an_end_recorded_between_two_looks_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who lives can say it any more by the time that the reader has the lock: the record does."""
    with stopped_at("CLONED", tmp_path, "descendants", ["sh", "-c", JOB.format(tmp_path)]) as crash:

        def go_to_the_end() -> None:
            crash.go_on()
            os.waitid(os.P_PIDFD, crash.recorder, os.WEXITED)

        with RecordedRun.open(tmp_path / "run") as run, _looks_late(go_to_the_end, monkeypatch):
            assert run.exit_info().code == 7
