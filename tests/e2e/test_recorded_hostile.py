"""Runs in bad company: a job that tampers with its own records, readers and removers at once, a view that is cut off."""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.durable.lock import FolderLock
from spurproc.core.exit_info import ExitKind
from spurproc.core.observation import Liveness
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.errors import Busy, InvalidArgument, SpurprocError, WaitTimeout, from_errno
from tests.e2e.test_recorded_run import KILL
from tests.recording import read_from_new_process

DAEMON = ["sh", "-c", "(setsid sleep 1000 > /dev/null 2>&1 &); exit 7"]


def clean(run: RecordedRun) -> None:
    """End it, by a proof, and remove it."""
    assert run.terminate(KILL).empty
    run.remove()


@pytest.mark.needs_cgroup_v2
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.ENOENT])
def test_a_cgroup_that_cannot_be_opened_is_never_gone(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader has ended and its group is empty, but a daemon lives: UNKNOWN, and nothing weaker is signalled instead."""
    with launch_recorded(SpawnPlan(argv=DAEMON), tmp_path / "run", containment=Containment.CGROUP) as run:
        assert run.wait(10).code == 7
        with monkeypatch.context() as patch:

            def refuse(path: str, inode: int) -> Cgroup:
                raise from_errno(number, "open", f"{path} {inode}")

            patch.setattr(Cgroup, "open", refuse)
            with RecordedRun.open(tmp_path / "run") as reader:
                assert reader.observe().liveness is Liveness.UNKNOWN
                assert reader.exit_info().code == 7
                with pytest.raises(SpurprocError):
                    reader.terminate(KILL)
                with pytest.raises(Busy):
                    reader.remove(timeout_s=0)
        assert run.liveness() is Liveness.ALIVE
        clean(run)


@pytest.mark.parametrize("containment", [pytest.param("cgroup", marks=pytest.mark.needs_cgroup_v2), "descendants"])
def test_another_boot_has_ended_all_of_it(tmp_path: Path, containment: str) -> None:
    """Whatever held it together; so it can be removed."""
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run", containment=Containment(containment)) as run:
        run.wait(10)
        run.terminate()
        started = tmp_path / "run" / "started"
        started.write_bytes(started.read_bytes().partition(b"empty")[0])
        for name in ("run.json", "started"):
            path = tmp_path / "run" / name
            path.write_text(path.read_text().replace(run.record.boot_id, "00000000-0000-4000-8000-000000000000"))
        with RecordedRun.open(tmp_path / "run") as later:
            assert (later.observe().liveness, later.observe().evidence) == (Liveness.GONE, "boot")
            later.remove()
        if run.record.cgroup is not None and os.path.isdir(run.record.cgroup.path):
            os.rmdir(run.record.cgroup.path)


def test_a_record_of_a_leader_that_is_seen_to_live_is_no_end(tmp_path: Path) -> None:
    """Written by the job into its own folder, well formed or not: the true end comes, and takes the name."""
    os.mkfifo(tmp_path / "go")
    plan = SpawnPlan(argv=["sh", "-c", f"read go < {tmp_path}/go; exit 7"])
    with launch_recorded(plan, tmp_path / "run") as run:
        forged = tmp_path / "run" / "exit"
        forged.write_text(f"spurproc-exit 1 {run.record.nonce} exited 0\n")
        forged.chmod(0o600)
        assert run.exit_info().reason == "it still runs"
        with pytest.raises(WaitTimeout):
            run.wait(0.05)
        forged.unlink()
        os.mkfifo(forged)
        with pytest.raises(WaitTimeout):
            run.wait(0.05)
        (tmp_path / "go").write_text("go\n")
        assert run.wait(10).code == 7
        clean(run)


def test_a_job_that_wipes_its_records_gains_no_trust(tmp_path: Path) -> None:
    """It ran, killed its recorder and wiped the notes: what is concluded from their absence may be its own doing."""
    folder = tmp_path / "run"
    os.mkfifo(tmp_path / "go")
    wipe = f"read go < {tmp_path}/go; kill -9 $PPID; head -c 2048 /dev/zero > {folder}/started"
    with launch_recorded(SpawnPlan(argv=["sh", "-c", wipe]), folder, containment=Containment.DESCENDANTS) as run:
        (tmp_path / "go").write_text("go\n")
        run.wait(10)
    later = read_from_new_process(folder)
    assert (later["kind"], later["trusted"]) == ("not-started", False)


@pytest.mark.needs_cgroup_v2
def test_a_note_of_the_last_descendants_end_says_nothing_of_a_cgroup(tmp_path: Path) -> None:
    """That is a subreaper's word. The cgroup is asked."""
    with launch_recorded(SpawnPlan(argv=DAEMON), tmp_path / "run", containment=Containment.CGROUP) as run:
        run.wait(10)
        started = tmp_path / "run" / "started"
        started.write_bytes(started.read_bytes().rstrip(b"\0") + b"empty\n")
        assert run.liveness() is Liveness.ALIVE
        clean(run)


@pytest.mark.needs_cgroup_v2
def test_what_was_noted_once_stays_known(tmp_path: Path) -> None:
    """The job wipes the notes of its recorder while somebody holds the run: who was named can still be waited for, and ended."""
    with launch_recorded(SpawnPlan(argv=["sleep", "1000"]), tmp_path / "run", containment=Containment.CGROUP) as run:
        known = run.leader, run.recorder
        assert None not in known
        (tmp_path / "run" / "started").write_bytes(bytes(2048))
        assert (run.leader, run.recorder) == known
        assert run.terminate(KILL).empty
        assert run.liveness() is Liveness.GONE  # by its cgroup: nobody notes there that the last one has ended
        run.remove()


def test_a_run_that_was_moved_away_is_left_alone(tmp_path: Path) -> None:
    """What stands at its path is gone; who moved it has its records still."""
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run") as run:
        run.wait(10)
        run.terminate()
        moved = (tmp_path / "run").rename(tmp_path / "moved")
        before = sorted(os.listdir(moved))
        run.remove()
        assert sorted(os.listdir(moved)) == before
    with RecordedRun.open(moved) as run:
        run.remove()


def test_a_readers_lock_delays_a_removal_and_does_not_refuse_it(tmp_path: Path) -> None:
    """A reader holds the lock for the moment of a conclusion."""
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run") as run:
        run.wait(10)
        run.terminate()
        lock = FolderLock.take_within(run._held.files.folder, 10)
        assert lock is not None
        letting_go = subprocess.Popen(["sleep", "0.1"], pass_fds=[lock.fileno()])
        lock.close()
        run.remove(timeout_s=10)
        letting_go.wait()
    assert os.listdir(tmp_path) == []


def test_two_removals_at_once(tmp_path: Path) -> None:
    """Both succeed: it is gone."""
    remover = "import sys; from spurproc.core.recorded.run import RecordedRun; run = RecordedRun.open(sys.argv[1])\n"
    remover += "print('up', flush=True); sys.stdin.read(1); run.remove(10)"
    for place in range(5):
        folder = tmp_path / str(place)
        with launch_recorded(SpawnPlan(argv=["true"]), folder) as run:
            run.wait(10)
            run.terminate()
        removers = Together([sys.executable, "-c", remover, str(folder)])
        removers.go()
        assert removers.codes() == [0, 0]
    assert os.listdir(tmp_path) == []


class Together:
    """Two processes of one program that wait for a byte, so that they begin at once."""

    def __init__(self, command: list[str]) -> None:
        self._both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for one in self._both:
            assert one.stdout is not None
            one.stdout.readline()

    def go(self) -> None:
        """Let both go on."""
        for one in self._both:
            assert one.stdin is not None
            one.stdin.write("x")
            one.stdin.flush()

    def codes(self) -> list[int]:
        """How they ended. Blocks until they have."""
        for one in self._both:
            one.communicate()
        return [one.returncode for one in self._both]


def test_a_file_of_others_keeps_the_whole_run(tmp_path: Path) -> None:
    """The job's output in the run's folder: nothing is removed by halves."""
    folder = tmp_path / "run"
    with launch_recorded(SpawnPlan(argv=["echo", "hi"], stdout=folder / "out"), folder) as run:
        run.wait(10)
        run.terminate()
        with pytest.raises(Busy, match="'out'"):
            run.remove()
        assert run.exit_info().code == 0
        assert (folder / "out").read_text() == "hi\n"
        (folder / "out").unlink()
        run.remove()


@pytest.mark.parametrize("timeout_s", [math.inf, 1e15])
def test_a_very_long_wait(tmp_path: Path, timeout_s: float) -> None:
    """Longer than poll(2) can count. What is no number is refused."""
    with launch_recorded(SpawnPlan(argv=["sleep", "0.1"]), tmp_path / "run") as run:
        with pytest.raises(InvalidArgument):
            run.wait(math.nan)
        assert run.wait(timeout_s).kind is ExitKind.EXITED
        clean(run)
