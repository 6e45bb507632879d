"""What is said of a run's end: right after it was ended, while nobody can know, and when its records were tampered with."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.durable.lock import FolderLock
from spurproc.core.exit_info import ExitKind, ExitSource
from spurproc.core.observation import Liveness, Observation
from spurproc.core.recorded.end import NotYet
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import AlreadyGone, Busy, SpurprocError, WaitTimeout
from tests.asleep import await_sleep
from tests.e2e.test_recorded_run import CONTAINMENTS, KILL
from tests.e2e.test_recorder_crash import stopped_at
from tests.pidfds import open_pidfd, wait_ended, wait_reaped

_SEE = """
import json, sys
from spurproc.core.recorded.run import RecordedRun
with RecordedRun.open(sys.argv[1]) as run:
    print(json.dumps([run.exit_info().to_json(), run.liveness().value]))
"""


def see_from_another_namespace(folder: Path) -> tuple[str, str]:
    """The reason and the liveness that a process in its own pid namespace gives: it can see neither leader nor recorder."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", _SEE, str(folder)]
    info, liveness = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=20).stdout)
    return info["reason"], liveness


def kill_recorder(run: RecordedRun) -> None:
    """Blocks until it has ended."""
    assert run._held.recorder is not None
    run._held.recorder.send_signal(signal.SIGKILL)
    run._held.recorder.wait(10, reap_grace_s=0)


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_the_end_is_known_right_after_terminate(tmp_path: Path, containment: str) -> None:
    """The README's second example: found by its folder, terminated, and asked at once."""
    for place in range(10):
        folder = tmp_path / str(place)
        launch_recorded(SpawnPlan(argv=["sleep", "1000"]), folder, containment=Containment(containment)).close()
        with RecordedRun.open(folder) as run:
            assert run.terminate(KillPlan.default()).empty
            info = run.exit_info()
            assert (info.kind, info.signal) == (ExitKind.SIGNALED, signal.SIGTERM), str(info)
            run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_held_lock_is_no_running_job(tmp_path: Path, containment: str) -> None:
    """Job and recorder are dead, and another reader holds the lock: that is the reason, and no conclusion is drawn."""
    with launch_recorded(SpawnPlan(argv=["sleep", "1000"]), tmp_path / "run", containment=Containment(containment)) as run:
        assert run.exit_info().reason == NotYet.RUNNING.value
        kill_recorder(run)
        assert run.exit_info().reason == NotYet.RUNNING.value
        assert run._held.leader is not None
        run._held.leader.send_signal(signal.SIGKILL)
        run._held.leader.wait(10)
        wait_reaped(run._held.leader.fileno())  # before, the zombie would tell how it ended
    with RecordedRun.open(tmp_path / "run") as later:
        lock = FolderLock.take_within(later._held.files.folder, 10)
        assert lock is not None
        with lock:
            assert later.exit_info().reason == NotYet.LOCK_HELD.value
            with pytest.raises(WaitTimeout, match="somebody holds the lock"):
                later.wait(0.05)
        assert "the recorder ended before the job did" in (later.wait(10).reason or "")
        if containment == "cgroup":
            later.remove()


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_a_reader_that_can_see_nobody_concludes_nothing(tmp_path: Path) -> None:
    """From another pid namespace: the cgroup shows that it lives, and nothing shows whether the leader does."""
    with launch_recorded(SpawnPlan(argv=["sleep", "1000"]), tmp_path / "run", containment=Containment.CGROUP) as run:
        assert see_from_another_namespace(tmp_path / "run") == (NotYet.LOCK_HELD.value, "alive")
        kill_recorder(run)
        assert see_from_another_namespace(tmp_path / "run") == (NotYet.OUT_OF_SIGHT.value, "alive")
        assert run.terminate(KILL).empty
        run.remove()


@pytest.mark.needs_cgroup_v2
def test_a_job_that_cuts_its_notes_is_still_seen_and_ended(tmp_path: Path) -> None:
    """It killed its recorder and wiped `started`: not GONE while its cgroup has a member, and reached by that."""
    reader, writer = os.pipe()
    os.mkfifo(tmp_path / "go")
    wipe = f"kill -9 $PPID; head -c 2048 /dev/zero > {tmp_path}/run/started"
    script = f"read go < {tmp_path}/go; {wipe}; sleep 1000 & echo up; wait"
    plan = SpawnPlan(argv=["sh", "-c", script], stdout=writer)
    with launch_recorded(plan, tmp_path / "run", containment=Containment.CGROUP) as launched:
        assert launched.recorder is not None
        recorder = open_pidfd(launched.recorder.pid)
    os.close(writer)
    (tmp_path / "go").write_text("go\n")
    with open(reader, "rb") as output:
        assert output.readline() == b"up\n"
    wait_ended(recorder)  # it was killed, and holds the lock until it has died of it
    with RecordedRun.open(tmp_path / "run") as run:
        assert run.exit_info().reason == NotYet.UNNAMED.value
        assert run.liveness() is Liveness.ALIVE
        with pytest.raises(WaitTimeout):
            run.wait(0.05)
        assert run.signal(signal.SIGCONT).signalled == 2
        assert run.terminate(KILL).empty
        info = run.wait(10)
        assert (info.kind, info.trusted) == (ExitKind.NOT_STARTED, False)
        run.remove()


@pytest.mark.needs_cgroup_v2
def test_notes_that_name_nobody_and_a_cgroup_out_of_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never GONE: the job may have cut the notes, and the cgroup cannot be asked from here."""
    unseen = Observation(liveness=Liveness.UNKNOWN, evidence="inode", detail="another cgroup stands at its path")
    with launch_recorded(SpawnPlan(argv=["sleep", "1000"]), tmp_path / "run", containment=Containment.CGROUP) as run:
        kill_recorder(run)
        (tmp_path / "run" / "started").write_bytes(bytes(2048))
        with monkeypatch.context() as patch, RecordedRun.open(tmp_path / "run") as reader:
            patch.setattr(CgroupRecord, "observe", lambda _: unseen)
            assert reader.observe() == unseen
        assert run.terminate(KILL).empty
        run.remove()


@pytest.mark.needs_facility("pidfd_exit_info")
@pytest.mark.needs_root
@pytest.mark.parametrize(("user", "trusted"), [(65534, True), (None, False)])
def test_the_end_of_whom_the_notes_name_is_as_good_as_the_notes(tmp_path: Path, user: int | None, trusted: bool) -> None:
    """A job that may write them could have named another process; the launcher was handed the leader itself."""
    plan = SpawnPlan(argv=["sleep", "1000"], user=user, group=user)
    with launch_recorded(plan, tmp_path / "run") as launched, RecordedRun.open(tmp_path / "run") as found:
        launched.terminate(KILL)
        here, there = launched.wait(10), found.wait(10)
        assert (here.source, there.source) == (ExitSource.PIDFD, ExitSource.PIDFD)
        assert (here.trusted, there.trusted) == (True, trusted)
        launched.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_core_that_was_dumped_is_told(tmp_path: Path, containment: str) -> None:
    """By the kernel's flag, in the record and through the pidfd; here the file is there too."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    plan = SpawnPlan(argv=["sh", "-c", "kill -6 $$"], cwd=tmp_path, limits={resource.RLIMIT_CORE: unlimited})
    with launch_recorded(plan, tmp_path / "run", containment=Containment(containment)) as run:
        info = run.wait(10)
        assert (info.kind, info.signal, info.core_dumped) == (ExitKind.SIGNALED, signal.SIGABRT, True)
        run.terminate()
        assert " signaled 6 core\n" in (tmp_path / "run" / "exit").read_text()
        run.remove()
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    assert pattern[0] in "|/" or list(tmp_path.glob("core*"))


def test_a_reader_holds_up_a_removal_only_for_its_moment(tmp_path: Path) -> None:
    """Of a run that never started: who has the lock might be launching it, and might just look. It is waited for."""
    with stopped_at("LOCKED", tmp_path, "descendants", ["true"]) as crash:
        crash.launcher.kill()
        crash.kill_recorder()
        with RecordedRun.open(tmp_path / "run") as run:
            with pytest.raises(Busy, match="launching"), _reader(run):
                run.remove(timeout_s=0)
            remover = threading.Thread(target=run.remove, args=(60,))
            with _reader(run):
                remover.start()
                assert remover.native_id is not None
                await_sleep(remover.native_id, "poll")
            remover.join()
    assert not (tmp_path / "run").exists()


def test_a_reader_holds_up_a_termination_only_for_its_moment(tmp_path: Path) -> None:
    """Of a run that never started, and whose recorder is gone."""
    refused: list[SpurprocError] = []
    with stopped_at("LOCKED", tmp_path, "descendants", ["true"]) as crash:
        crash.launcher.kill()
        crash.kill_recorder()
        with RecordedRun.open(tmp_path / "run") as run:

            def terminate() -> None:
                with pytest.raises(AlreadyGone) as caught:
                    run.terminate()
                refused.append(caught.value)

            ender = threading.Thread(target=terminate)
            with _reader(run):
                ender.start()
                assert ender.native_id is not None
                await_sleep(ender.native_id, "poll")
            ender.join()
            assert len(refused) == 1
            run.remove()


def _reader(run: RecordedRun) -> FolderLock:
    lock = FolderLock.take(run._held.files.folder)
    assert lock is not None
    return lock


def test_its_repr_asks_nobody(tmp_path: Path) -> None:
    """Of an open run as of a closed one: the folder."""
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run") as run:
        run.wait(10)
        run.terminate()
        run.remove()
    assert repr(run) == f"<RecordedRun '{tmp_path}/run'>"
