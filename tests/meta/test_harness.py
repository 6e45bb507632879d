"""The harness itself, on planted tests: each thing that it guards against makes a test fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Plant = Callable[..., str]


@pytest.fixture
def run_planted(tmp_path: Path) -> Plant:
    """Run one planted test function in a pytest of its own that uses this harness; returns what it printed."""

    def run(body: str, **environment: str) -> str:
        (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra --strict-markers\n")
        (tmp_path / "test_planted.py").write_text("import os, pytest, signal, subprocess, sys\n" + body)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SPURPROC_")}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_planted.py"],
            cwd=tmp_path,
            env={**clean, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,  # it hangs
        )
        return done.stdout + done.stderr

    return run


def test_live_child_is_a_leak(run_planted: Plant) -> None:
    """A child that still runs is named, and ended: the test after it passes."""
    output = run_planted("""
process = None
def test_leaks():
    global process
    process = subprocess.Popen(["sleep", "1000"])
def test_next():
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
    process.returncode = 0
""")
    assert "live child process" in output, output
    assert "'sleep 1000'" in output
    assert "2 passed, 1 error" in output


def test_unreaped_child_is_a_leak(run_planted: Plant) -> None:
    """A zombie child is named: whoever started it has to reap it."""
    output = run_planted("""
def test_leaks():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
""")
    assert "zombie child, never reaped" in output


def test_orphan_is_a_leak(run_planted: Plant, payload_program: Callable[[str], Path]) -> None:
    """A grandchild in a session of its own, without a parent, is found, named and ended.

    It says itself when it stands there: the command line of one that a shell leaves behind is empty while its exec goes on.
    """
    program = payload_program("double_fork_setsid")
    output = run_planted(f"""
def test_leaks():
    ready, say = os.pipe()
    life, hold = os.pipe()
    env = dict(os.environ, PAYLOAD_READY_FD=str(say), PAYLOAD_HOLD_FD=str(life))
    # The orphan keeps the pipe's other end itself: nothing lets it go.
    process = subprocess.Popen(["{program}"], env=env, pass_fds=(say, life, hold))
    for descriptor in (say, life, hold):
        os.close(descriptor)
    assert sorted(os.read(ready, 1) + os.read(ready, 1)) == sorted(b"lg")
    os.close(ready)
    process.kill()
    process.wait()
def test_next():
    pass
""")
    assert "orphan process" in output
    assert program.name in output
    assert "2 passed, 1 error" in output


def test_orphan_that_ends_soon_is_no_leak(run_planted: Plant) -> None:
    """An orphan that is still about to end when the test is over gets a moment to do so."""
    output = run_planted("""
def test_orphan():
    subprocess.run(["sh", "-c", "sleep 0.2 >/dev/null 2>&1 &"], check=True)
""")
    assert "1 passed" in output
    assert "error" not in output


def test_orphan_that_ends_is_no_leak(run_planted: Plant, payload_program: Callable[[str], Path]) -> None:
    """An orphan that ends by itself is reaped without a word, as an init does."""
    output = run_planted(f"""
def test_orphan():
    ready, say = os.pipe()
    life, hold = os.pipe()
    env = dict(os.environ, PAYLOAD_READY_FD=str(say), PAYLOAD_HOLD_FD=str(life))
    process = subprocess.Popen(["{payload_program("double_fork_setsid")}"], env=env, pass_fds=(say, life))
    os.close(say)
    os.close(life)
    assert sorted(os.read(ready, 1) + os.read(ready, 1)) == sorted(b"lg")
    os.close(hold)
    assert process.wait() == 0
    os.close(ready)
""")
    assert "1 passed" in output
    assert "error" not in output


@pytest.mark.needs_cgroup_v2
def test_cgroup_of_somebody_else_is_let_be(run_planted: Plant, cgroup_root: Path) -> None:
    """Only what this run made is looked at, and killed: a cgroup beside it stays as it is."""
    output = run_planted(f"""
from pathlib import Path
def test_makes():
    Path("{cgroup_root}/beside").mkdir()
""")
    assert "1 passed" in output
    assert "error" not in output
    assert (cgroup_root / "beside").is_dir()


def test_descriptor_is_a_leak(run_planted: Plant) -> None:
    """An open descriptor is named with what it leads to."""
    output = run_planted("""
def test_leaks():
    os.open("/dev/null", os.O_RDONLY)
""")
    assert "-> /dev/null" in output
    assert "1 passed, 1 error" in output


@pytest.mark.needs_cgroup_v2
def test_cgroup_is_a_leak(run_planted: Plant) -> None:
    """A cgroup with a process in it is named, emptied and removed: at the end of the run nothing is left."""
    output = run_planted("""
from tests import cgroup_folder
folder = None
def test_leaks():
    global folder
    folder = cgroup_folder.make()
    (folder / "inner").mkdir()
    script = 'echo 0 > "$0"; setsid sleep 1000 > /dev/null 2>&1 &'
    subprocess.run(["sh", "-c", script, str(folder / "inner/cgroup.procs")], check=True)
def test_next():
    assert not folder.exists()
""")
    assert "cgroup /" in output
    assert "/inner (members:" in output
    assert "2 passed, 1 error" in output


@pytest.mark.parametrize("marker", ["forked", "own_pid_namespace(user=True)"])
def test_leak_of_a_test_in_another_process(run_planted: Plant, marker: str) -> None:
    """The guard works in a forked test and in a namespace too, and its words come back."""
    output = run_planted(f"""
@pytest.mark.{marker}
def test_leaks():
    os.open("/dev/null", os.O_RDONLY)
""")
    assert "-> /dev/null" in output
    assert "1 passed, 1 error" in output


def test_orphan_of_a_crashed_forked_test(run_planted: Plant) -> None:
    """A forked test that dies cannot look after its own children: the runner does."""
    output = run_planted("""
@pytest.mark.forked
def test_crashes():
    subprocess.Popen(["sleep", "1000"])
    os.abort()
""")
    assert "CRASHED with signal 6" in output
    assert "orphan process" in output


@pytest.mark.parametrize("strict", ["0", "1"])
@pytest.mark.parametrize("skip", ['pytest.skip("not today")', 'pytest.importorskip("no_such_module")'])
def test_skip_without_entry_fails(run_planted: Plant, skip: str, strict: str) -> None:
    """A skip that nobody wrote down is an error, in a strict run or not."""
    output = run_planted(f"def test_skips():\n    {skip}\n", SPURPROC_STRICT=strict)
    assert "a skip without an entry in tests/allowed_skips.toml" in output
    assert "1 failed" in output


def test_module_may_not_skip_itself(run_planted: Plant) -> None:
    """A skip of a whole module is an error."""
    output = run_planted('pytest.skip("all of it", allow_module_level=True)\n')
    assert "a module may not skip itself" in output
    assert "1 error" in output


def test_strict_run_asks_the_probe(run_planted: Plant) -> None:
    """A need that is truly unmet stays a skip in a strict run; one that the machine does not bear out fails."""
    output = run_planted(
        """
from tests import requirements
@pytest.mark.needs_kernel(99, 0)
def test_true_lack():
    pass
@pytest.mark.needs_kernel(3, 0)
def test_false_lack():
    pass
requirements._CHECKS["needs_kernel"] = lambda major, minor: "so it is said"
""",
        SPURPROC_STRICT="1",
    )
    assert "1 failed, 1 skipped" in output or "1 skipped, 1 error" in output
    assert "does not bear out: Skipped: needs_kernel(3, 0)" in output


def test_lenient_run_takes_the_entry(run_planted: Plant) -> None:
    """Without SPURPROC_STRICT an entry is enough."""
    output = run_planted("@pytest.mark.needs_kernel(99, 0)\ndef test_skips():\n    pass\n")
    assert "1 skipped" in output
    assert "the kernel is" in output


@pytest.mark.parametrize("text", ["plain", "with [brackets]::and spaces", "ü/é"])
@pytest.mark.own_pid_namespace(user=True)
def test_namespace_isolates(text: str) -> None:
    """Inside, there is nothing to hit but the test itself: few processes, and pid 1 is the reaper of this run."""
    assert text
    pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    assert pids <= set(range(1, 20))
    assert os.getppid() == 1


@pytest.mark.own_pid_namespace(user=True, boottime_s=100_000)
def test_namespace_moves_the_boot_time() -> None:
    """The offset of a time namespace is really there."""
    offsets = dict(line.split(maxsplit=1) for line in Path("/proc/self/timens_offsets").read_text().splitlines())
    assert offsets["boottime"].split() == ["100000", "0"]


def test_namespace_forwards_failure_skip_and_death(run_planted: Plant) -> None:
    """What happens inside is seen outside: the failing assertion, the skip, a death, a hang."""
    output = run_planted("""
inside = pytest.mark.own_pid_namespace(user=True)
@inside
def test_fails():
    assert 6 * 7 == 41
@inside
def test_skips():
    pytest.skip("needs_kernel(99, 0): a reason from inside")
@inside
def test_dies():
    os.abort()
@pytest.mark.own_pid_namespace(user=True, timeout_s=2)
def test_hangs():
    signal.pause()
""")
    assert "assert (6 * 7) == 41" in output
    assert "a reason from inside" in output
    assert "ended with status 134" in output
    assert "was killed after 2 s" in output
    assert "3 failed, 1 skipped" in output


@pytest.mark.needs_cgroup_v2
def test_death_of_the_runner_leaves_nothing(run_planted: Plant, tmp_path: Path) -> None:
    """A runner that is killed leaves no process (the guard around this test looks) and no cgroup."""
    output = run_planted("""
from pathlib import Path
from tests import cgroup_folder
def test_dies():
    Path("made").write_text(str(cgroup_folder.make()))
    subprocess.Popen(["sleep", "1000"])
    os.abort()
""")
    assert "passed" not in output
    made = Path((tmp_path / "made").read_text())
    assert made.name.startswith("test-")
    assert not made.parent.exists()
