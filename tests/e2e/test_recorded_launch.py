"""Launching a recorded run: what it leaves when it fails, which folders it takes, and what it costs the disk."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.exit_info import ExitKind
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.recorded import launch
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.termination import KillPlan, TerminationReport, terminate_tree
from spurproc.errors import AlreadyGone, InvalidArgument, NotPermitted, RecordInvalid, SpawnError, SpurprocError, WaitTimeout
from tests.pace import ahead, at_this_pace
from tests.rungs import without
from tests.spawning import in_child
from tests.syscall_watch import held_at

CONTAINMENTS = [pytest.param("cgroup", marks=pytest.mark.needs_cgroup_v2), "descendants"]
KILL = KillPlan(steps=((signal.SIGKILL, None),))


@pytest.mark.parametrize("containment", CONTAINMENTS)
@pytest.mark.parametrize(
    ("argv", "stage", "interpreter"),
    [(["/no/such/program"], "EXEC", None), (["{}/script"], "EXEC", "/no/such/interpreter")],
)
def test_a_launch_that_fails_leaves_nothing(
    tmp_path: Path, argv: list[str], stage: str, interpreter: str | None, containment: str
) -> None:
    """SpawnError with stage, errno and interpreter; no folder, cgroup, process or descriptor (the leak guard looks)."""
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    plan = SpawnPlan(argv=[argv[0].format(tmp_path)])
    with pytest.raises(SpawnError) as caught:
        launch_recorded(plan, tmp_path / "run", containment=Containment(containment))
    assert (caught.value.stage, caught.value.errno, caught.value.interpreter) == (stage, 2, interpreter)
    assert not (tmp_path / "run").exists()


def test_a_missing_cwd_is_told_at_once_with_its_path(tmp_path: Path) -> None:
    """WR-15: at launch, not after a timeout."""
    with pytest.raises(SpawnError, match="/no/such/folder") as caught:
        launch_recorded(SpawnPlan(argv=["true"], cwd="/no/such/folder"), tmp_path / "run")
    assert caught.value.stage == "CWD"
    assert os.listdir(tmp_path) == []


def test_a_failed_launch_empties_a_folder_that_it_was_given(tmp_path: Path) -> None:
    """What was there before stays: the folder."""
    (tmp_path / "run").mkdir(mode=0o700)
    with pytest.raises(SpawnError):
        launch_recorded(SpawnPlan(argv=["/no/such/program"]), tmp_path / "run")
    assert (tmp_path / "run").is_dir()
    assert os.listdir(tmp_path / "run") == []
    (tmp_path / "run").rmdir()


def test_a_job_that_is_stuck_before_exec_is_returned_as_it_is(tmp_path: Path) -> None:
    """A FIFO as stdout blocks the job and not its launcher; it can be seen, ended, and never counts as started."""
    os.mkfifo(tmp_path / "fifo")
    with launch_recorded(SpawnPlan(argv=["true"], stdout=tmp_path / "fifo"), tmp_path / "run", confirm_timeout_s=0.1) as run:
        assert run.liveness() is Liveness.ALIVE
        with pytest.raises(WaitTimeout):
            run.wait(0.05)
        assert run.terminate(KILL).empty
        info = run.wait(10)
        assert (info.kind, info.stage, info.errno) == (ExitKind.NOT_STARTED, "STDOUT", 0)
        run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_an_interrupted_launch_leaves_nothing(tmp_path: Path, containment: str) -> None:
    """KeyboardInterrupt while a job is stuck before its exec: no process, cgroup or file stays."""
    os.mkfifo(tmp_path / "fifo")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            launch_recorded(
                SpawnPlan(argv=["true"], stdout=tmp_path / "fifo"), tmp_path / "run", containment=Containment(containment)
            )
    finally:
        signal.signal(signal.SIGALRM, before)
    assert os.listdir(tmp_path) == ["fifo"]


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """Neither somebody's files nor another run is launched over."""
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(InvalidArgument, match="not empty"):
        launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "mine")
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run") as run:
        with pytest.raises(InvalidArgument, match="not empty"):
            launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run")
        run.wait(10)
        run.terminate()
        run.remove()
    assert (tmp_path / "mine" / "file").exists()


def test_what_a_killed_launch_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    """Killed before run.json was there: nothing was started, so the folder is as good as empty once its lock is free."""
    folder = PrivateFolder.create(tmp_path / "run")
    lock = FolderLock.take(folder, create=True)
    assert lock is not None
    os.close(folder.create_file("exit.tmp", bytes(128)))
    with pytest.raises(RecordInvalid, match="cut short"):
        RecordedRun.open(tmp_path / "run")
    with pytest.raises(InvalidArgument, match="not empty"):
        launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run")
    lock.close()
    folder.close()
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run") as run:
        assert run.wait(10).succeeded
        run.terminate()
        run.remove()


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"version": 2}', b"{" * 100000])
def test_a_bad_run_file_is_invalid_and_stays(tmp_path: Path, content: bytes) -> None:
    """ST-03: that one run is refused, by a class of its own; nothing is filled in and nothing removed."""
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "run" / "run.json").write_bytes(content)
    with pytest.raises(RecordInvalid):
        RecordedRun.open(tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_bytes() == content


def test_no_folder_and_an_open_folder(tmp_path: Path) -> None:
    """What is not there is gone; what others may enter is not trusted."""
    with pytest.raises(AlreadyGone):
        RecordedRun.open(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o755)
    with pytest.raises(NotPermitted):
        RecordedRun.open(tmp_path / "run")


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_missing_program_is_told_within_20_ms(containment: str) -> None:
    """The best of five, as the machine is shared, and in memory: on a disk the launch's fsyncs alone may cost more."""
    took_s = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, ahead():
        for _ in range(5):
            begun = time.monotonic()
            with pytest.raises(SpawnError) as caught:
                launch_recorded(SpawnPlan(argv=["/no/such/program"]), f"{folder}/run", containment=Containment(containment))
            took_s.append(time.monotonic() - begun)
            assert (caught.value.stage, caught.value.errno) == ("EXEC", errno.ENOENT)
    assert min(took_s) < at_this_pace(0.020)


def test_three_fsyncs_before_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record, its folder, the folder above; not one more: each costs up to 10 ms on a slow disk."""
    synced: list[str] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run") as run:
        assert [name[:9] for name in synced] == [".run.json", "run", tmp_path.name[:9]]
        run.wait(10)
        run.terminate()
        run.remove()


# argv: folder. Waits for a byte, so that two of them begin together; says how it went.
_RIVAL = """
import sys
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.errors import SpurprocError
print("up", flush=True)
sys.stdin.read(1)
try:
    run = launch_recorded(SpawnPlan(argv=["sh", "-c", "exit 7"]), sys.argv[1], containment=Containment.DESCENDANTS)
    print(run.wait(10).code)
    run.terminate()
except SpurprocError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("made", [False, True])
def test_two_launches_into_one_folder(tmp_path: Path, *, made: bool) -> None:
    """One of them runs, whole; the other one is refused and takes nothing away."""
    for place in range(10):
        folder = tmp_path / f"run{place}"
        if made:
            folder.mkdir(mode=0o700)
        command = [sys.executable, "-c", _RIVAL, str(folder)]
        rivals = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for rival in rivals:
            assert rival.stdout is not None
            rival.stdout.readline()
        for rival in rivals:
            assert rival.stdin is not None
            rival.stdin.write("x")
            rival.stdin.flush()
        said = sorted(rival.communicate()[0].strip() for rival in rivals)
        assert said == ["7", "InvalidArgument"]
        with RecordedRun.open(folder) as run:
            assert run.exit_info().code == 7
            run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_an_exec_that_blocks_is_not_yet_a_launch(tmp_path: Path, containment: str) -> None:
    """A slow file system; here a lease. Announced is not confirmed: it fails later, and never reads as the job's own 127."""
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # how the kernel asks for the lease back
    held = os.open(script, os.O_RDWR | os.O_CLOEXEC)
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    try:
        plan = SpawnPlan(argv=[str(script)])
        run = launch_recorded(plan, tmp_path / "run", containment=Containment(containment), confirm_timeout_s=0.3)
    finally:
        os.close(held)
        signal.signal(signal.SIGIO, before)
    with run:
        info = run.wait(10)
        assert (info.kind, info.stage, info.errno) == (ExitKind.NOT_STARTED, "EXEC", 2)
        run.terminate()
        run.remove()


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_launch_without_descriptors_leaves_nothing(tmp_path: Path, containment: str) -> None:
    """Whichever call is the first to find none left; and once there are enough, the job runs."""
    used = len(os.listdir("/proc/self/fd"))
    run: RecordedRun | None = None
    refusals: list[str] = []
    while run is None:
        run, refusal = launch_with_room(used + len(refusals), tmp_path / "run", Containment(containment))
        refusals.append(refusal)
        assert run is not None or ("Too many open files" in refusal and os.listdir(tmp_path) == [])
    with run:
        assert 4 < len(refusals) < 30
        assert run.wait(10).succeeded
        run.terminate()
        run.remove()


def launch_with_room(limit: int, folder: Path, containment: Containment) -> tuple[RecordedRun | None, str]:
    """The run, or the reason why it was not launched with no more than `limit` descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        return launch_recorded(SpawnPlan(argv=["true"]), folder, containment=containment), ""
    except SpurprocError as error:
        return None, str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_nonsense_confirm_timeout_is_refused(tmp_path: Path) -> None:
    """Before anything is made."""
    with pytest.raises(InvalidArgument):
        launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run", confirm_timeout_s=math.nan)
    assert os.listdir(tmp_path) == []


def test_an_interrupt_while_the_folder_is_claimed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock file is there, and nobody has it yet."""

    def interrupted(_: PrivateFolder, name: str) -> bool:
        monkeypatch.undo()
        raise KeyboardInterrupt(name)

    monkeypatch.setattr(PrivateFolder, "has", interrupted)
    with pytest.raises(KeyboardInterrupt):
        launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run")
    assert os.listdir(tmp_path) == []


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfd_info")
def test_a_leader_that_joins_its_cgroup_after_all_in_it_were_killed_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not born there joins by its own hand, and may be slow: its launch was given up, and its recorder has ended.

    Held before it joins, and let go between the last look and the removal. It would then wait for a reader for ever.
    """
    os.mkfifo(tmp_path / "fifo")
    stands, given_up = threading.Event(), threading.Event()
    kills: list[ProcessTree] = []

    def stand(_: int) -> None:
        stands.set()
        assert given_up.wait(20)

    def interrupted(*_: object) -> None:
        assert stands.wait(20)
        raise KeyboardInterrupt

    def kill(tree: ProcessTree, *arguments: Any, **more: Any) -> TerminationReport:
        report = terminate_tree(tree, *arguments, **more)
        kills.append(tree)
        if len(kills) == 2:  # the recorder has ended
            given_up.set()
            assert tree.cgroup is not None
            while tree.cgroup.liveness() is not Liveness.ALIVE:
                os.sched_yield()
        return report

    def body() -> None:
        monkeypatch.setattr(launch._Launch, "confirm", interrupted)
        monkeypatch.setattr(launch, "terminate_tree", kill)
        plan = SpawnPlan(argv=["true"], stdout=tmp_path / "fifo")
        # Its recorder asks for a pidfd of its own before it joins a cgroup and after, and for the inode in its name.
        slow = held_at("pidfd_open", stand, passed=2 + Facilities.current().pidfs_inode)
        with without("clone_into_cgroup"), slow, pytest.raises(KeyboardInterrupt):
            launch_recorded(plan, tmp_path / "run", containment=Containment.CGROUP)
        assert os.listdir(tmp_path) == ["fifo"]

    in_child(body)
