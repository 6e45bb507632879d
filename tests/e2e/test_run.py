"""`run`: when it returns or raises, nothing of the tree lives, and nobody was waited for in vain."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.command.run import run
from spurproc.core.exit_info import ExitKind, ExitSource
from spurproc.core.tree.members import Containment
from spurproc.core.tree.process_walk import Descent, GroupOf
from spurproc.core.tree.termination import KillPlan, Proof
from spurproc.errors import InvalidArgument, ProcessFailed, RunTimeout, RunUnproven, SpawnError, SystemCallError, WaitTimeout
from tests.pace import ahead, at_this_pace

CONTAINMENTS = [pytest.param(Containment.CGROUP, marks=pytest.mark.needs_cgroup_v2), Containment.DESCENDANTS]
_PF_EXITING = 4
QUICK = KillPlan(steps=((signal.SIGTERM, 0.2), (signal.SIGKILL, None)))


@pytest.fixture(params=CONTAINMENTS)
def containment(request: pytest.FixtureRequest) -> Containment:
    """Whatever holds the tree together."""
    return Containment(request.param)


def is_dead(pidfile: Path) -> bool:
    """Whether the process that wrote its number there is gone, or on its way out, which nothing holds up any more.

    What is left of it is somebody else's to reap, and may be reaped while it is read. proc_pid_stat(5), flags: PF_EXITING
    """
    pid = int(pidfile.read_text())
    try:
        return bool(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6]) & _PF_EXITING)
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_command_ends_and_says_something(containment: Containment) -> None:
    """Code, both outputs, resources, and the parent's own word for it."""
    result = run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture=True, containment=containment)
    assert (result.kind, result.code, result.returncode) == (ExitKind.EXITED, 3, 3)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert (result.source, result.containment) == (ExitSource.WAITED, containment)
    assert result.usage is not None
    assert result.leftovers is None
    with pytest.raises(ProcessFailed):
        result.check()


def test_oom_kills_are_counted_or_not_known(containment: Containment) -> None:
    """0 is a count: where the memory controller does not count, or there is no cgroup to ask, it is None."""
    root = None if containment is Containment.DESCENDANTS else find_cgroup_root()
    result = run(["true"], containment=containment)
    counts = root is not None and "memory" in Path(root.steps, "cgroup.subtree_control").read_text().split()
    assert result.oom_kills == (0 if counts else None)


def test_a_signal_is_a_signal(containment: Containment) -> None:
    """As subprocess has it: minus the signal."""
    assert run(["sh", "-c", "kill -9 $$"], containment=containment).returncode == -9
    assert run(["sh", "-c", "exit 137"], containment=containment).returncode == 137


def test_input_is_fed_and_large_output_gathered(containment: Containment) -> None:
    """More than any pipe holds, both ways at once."""
    content = os.urandom(1 << 20) * 3
    assert run(["cat"], input=content, capture=True, containment=containment).stdout == content


def test_only_our_ends_of_the_pipes_stay_with_us(containment: Containment) -> None:
    """While the job runs: one descriptor for each pipe, not two. Input is fed once the job's ends are let go of."""
    script = "read go; readlink /proc/self/fd/1 /proc/$0/fd/*"
    said = run(["sh", "-c", script, str(os.getpid())], input=b"go\n", capture=True, containment=containment).stdout
    assert said is not None
    ours, *callers = said.splitlines()
    assert callers.count(ours) == 1


def test_a_command_that_does_not_read_its_input(containment: Containment) -> None:
    """No SIGPIPE, no wait."""
    assert run(["true"], input=bytes(1 << 20), containment=containment).succeeded


def test_both_outputs_at_once(containment: Containment) -> None:
    """Neither pipe fills up while the other one is read."""
    script = "import os\nfor _ in range(64): os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)"
    result = run([sys.executable, "-c", script], capture=True, containment=containment)
    assert (result.stdout, result.stderr) == (b"o" * (1 << 22), b"e" * (1 << 22))


def test_a_grandchild_that_holds_the_pipe_hangs_nobody(tmp_path: Path, containment: Containment) -> None:
    """SP-26: it is ended by the kill plan; what the command said is there."""
    script = f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000' &); while [ ! -s {tmp_path}/pid ]; do :; done; echo hi"
    begin = time.monotonic()
    result = run(["sh", "-c", script], capture=True, containment=containment)
    assert time.monotonic() - begin < at_this_pace(5)
    assert (result.stdout, result.code) == (b"hi\n", 0)
    assert result.leftovers is not None
    assert result.leftovers.empty
    assert is_dead(tmp_path / "pid")


def test_what_ends_by_itself_is_left_to(monkeypatch: pytest.MonkeyPatch, containment: Containment) -> None:
    """`> >(tee)`: its last words are not cut off."""
    monkeypatch.setattr(sys.modules[run.__module__], "_LEFTOVER_GRACE_S", 30.0)
    result = run(["bash", "-c", "echo hello > >(cat; echo done)"], capture=True, containment=containment)
    assert result.stdout == b"hello\ndone\n"
    assert result.leftovers is None


def test_at_the_deadline_all_of_it_is_ended(tmp_path: Path, containment: Containment) -> None:
    """TERM-ignoring members that left the session too; the exception carries what was said and how it ended."""
    script = (
        f"trap '' TERM; echo begun; (setsid sh -c 'echo $$ > {tmp_path}/pid; sleep 1000; sleep 1000' &);"
        f"while [ ! -s {tmp_path}/pid ]; do :; done; while :; do sleep 1000; done"
    )
    with pytest.raises(RunTimeout) as caught:
        run(["sh", "-c", script], capture=True, timeout_s=at_this_pace(0.5), kill_plan=QUICK, containment=containment)
    result = caught.value.result
    assert isinstance(caught.value, WaitTimeout)
    assert (result.stdout, result.signal) == (b"begun\n", 9)
    assert result.leftovers.empty
    assert [step.signal for step in result.leftovers.steps] == [15, 9]
    assert is_dead(tmp_path / "pid")


def test_last_words_at_the_deadline_are_read(containment: Containment) -> None:
    """A handler that writes more than a pipe holds is not blocked until it is killed."""
    script = (
        "import os, signal, sys\n"
        "signal.signal(15, lambda *_: (os.write(1, b'x' * 300000), sys.exit(4)))\n"
        "print('up', flush=True)\n"
        "signal.pause()"
    )
    with ahead(), pytest.raises(RunTimeout) as caught:  # or it is over before the interpreter has come as far as the handler
        run([sys.executable, "-c", script], capture=True, timeout_s=at_this_pace(1), containment=containment)
    assert caught.value.result.code == 4
    assert len(caught.value.result.stdout) == 300003


def test_an_interrupt_ends_all_of_it(tmp_path: Path, containment: Containment) -> None:
    """KeyboardInterrupt in the middle of the wait: everything is killed at once, then it is raised."""
    os.mkfifo(tmp_path / "up")

    def interrupt_when_up() -> None:
        (tmp_path / "up").read_text()
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt_when_up)
    thread.start()
    script = f"trap '' INT TERM; (setsid sh -c 'echo $$ > {tmp_path}/pid; echo > {tmp_path}/up; sleep 1000' &); sleep 1000"
    try:
        with pytest.raises(KeyboardInterrupt):
            run(["sh", "-c", script], containment=containment)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert is_dead(tmp_path / "pid")


def test_a_missing_program(containment: Containment) -> None:
    """SpawnError, in milliseconds, and nothing left."""
    begin = time.monotonic()
    with pytest.raises(SpawnError) as caught:
        run(["/no/such/program"], capture=True, input=b"x", containment=containment)
    assert (caught.value.errno, caught.value.stage) == (2, "EXEC")
    assert time.monotonic() - begin < at_this_pace(1)


def test_a_start_that_blocks_is_given_up(tmp_path: Path, containment: Containment) -> None:
    """A FIFO as stdout: SpawnError at its stage after the timeout, and nothing left."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SpawnError) as caught:
        run(["true"], stdout=tmp_path / "fifo", timeout_s=0.2, containment=containment)
    assert caught.value.stage == "STDOUT"


def test_options_reach_the_job(tmp_path: Path, containment: Containment) -> None:
    """Environment, folder, umask."""
    result = run(
        ["sh", "-c", "echo $A; pwd; umask"],
        env={"A": "b", "PATH": os.defpath},
        cwd=tmp_path,
        umask=0o027,
        capture=True,
        containment=containment,
    )
    assert result.stdout == f"b\n{tmp_path}\n0027\n".encode()


def test_output_goes_to_the_callers_own(tmp_path: Path, containment: Containment) -> None:
    """Like subprocess.run; and a caller without 1 and 2 is served too."""
    script = (
        "import os, sys; from spurproc.core.command.run import run; from spurproc.core.tree.members import Containment\n"
        "run(['echo', 'hi'], containment=Containment(sys.argv[1]))\n"
        "os.close(1); os.close(2)\n"
        "sys.exit(run(['echo', 'lost'], containment=Containment(sys.argv[1])).code)"
    )
    done = subprocess.run([sys.executable, "-c", script, containment.value], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"hi\n"


def test_a_process_group_is_not_enough(containment: Containment) -> None:
    """It cannot be proven empty."""
    with pytest.raises(InvalidArgument):
        run(["true"], containment=Containment.PROCESS_GROUP)


def test_a_kill_plan_without_a_kill_still_ends_all_of_it(containment: Containment) -> None:
    """Deaf to all that the plan has: killed at its end, and nobody waits for an end that does not come."""
    mild = KillPlan(steps=((signal.SIGTERM, 0.1),))
    with pytest.raises(RunTimeout) as caught:
        run(
            ["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"],
            timeout_s=at_this_pace(0.3),
            kill_plan=mild,
            containment=containment,
        )
    assert (caught.value.result.signal, caught.value.result.leftovers.empty) == (9, True)


@pytest.mark.parametrize(
    "options", [{"stdout": 1, "capture": True}, {"stderr": None, "capture": True}, {"stdin": 0, "input": b""}]
)
def test_two_wishes_for_one_stream_are_refused(options: dict[str, Any], containment: Containment) -> None:
    """Rather than one of them being forgotten in silence."""
    with pytest.raises(InvalidArgument, match="together with"):
        run(["true"], containment=containment, **options)


@pytest.mark.parametrize("timeout_s", [0, -1, 1e-6])
def test_no_time_at_all_is_a_timeout(timeout_s: float, containment: Containment) -> None:
    """It was started: that is not what failed."""
    with pytest.raises(RunTimeout):
        run(["sleep", "1000"], timeout_s=timeout_s, containment=containment)


def test_odd_lengths_of_time(containment: Containment) -> None:
    """For ever is one; what is no number is refused before anything is started."""
    assert run(["true"], timeout_s=math.inf, containment=containment).succeeded
    assert run(["true"], timeout_s=1e15, containment=containment).succeeded
    with pytest.raises(InvalidArgument):
        run(["true"], timeout_s=math.nan, containment=containment)


def test_a_pipe_that_cannot_be_made_is_an_error_of_ours(containment: Containment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of descriptors: nothing is started."""

    def none_left(flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), flags)

    monkeypatch.setattr(os, "pipe2", none_left)
    with pytest.raises(SystemCallError) as caught:
        run(["true"], capture=True, containment=containment)
    assert caught.value.errno == errno.EMFILE


@pytest.mark.needs_facility("pidfd_process_group")
def test_what_shares_the_leaders_session_ends_without_a_keeper(tmp_path: Path) -> None:
    """The keeper killed, the leader gone: its group is still found by the leader's pidfd. Empty is not claimed."""
    script = (
        f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000' & while [ ! -s {tmp_path}/pid ]; do :; done; read go; kill -9 $PPID"
    )
    begin = time.monotonic()
    with pytest.raises(RunUnproven) as caught:
        run(["sh", "-c", script], input=b"go\n", containment=Containment.DESCENDANTS)
    assert time.monotonic() - begin < at_this_pace(5)
    assert is_dead(tmp_path / "pid")
    assert not caught.value.result.leftovers.empty


def test_a_stopped_keeper_is_continued() -> None:
    """Its user's own job may stop it: the end is seen without it, and it proves it all the same."""
    for script in ("read go; kill -STOP $PPID; exit 3", "kill -STOP $PPID; exit 3"):
        result = run(["sh", "-c", script], input=b"go\n", timeout_s=at_this_pace(8), containment=Containment.DESCENDANTS)
        assert (result.code, result.source) == (3, ExitSource.WAITED)


def test_walks_alone_prove_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that no walk sees, since it forks faster than one: not called empty before its keeper says so."""
    monkeypatch.setattr(Descent, "find", lambda _: [])
    monkeypatch.setattr(GroupOf, "find", lambda _: [])
    script = f"(setsid sh -c 'sleep 0.5; echo end > {tmp_path}/end' > /dev/null 2>&1 &)"
    result = run(["sh", "-c", script], containment=Containment.DESCENDANTS, kill_plan=KillPlan(steps=((signal.SIGKILL, None),)))
    assert result.leftovers is not None
    assert result.leftovers.empty
    assert (tmp_path / "end").exists()


def test_a_tree_that_no_walk_sees_and_that_stays_is_unproven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often nobody was found: its keeper has not said that nobody is left."""
    monkeypatch.setattr(Descent, "find", lambda _: [])
    monkeypatch.setattr(GroupOf, "find", lambda _: [])
    os.mkfifo(tmp_path / "end")
    script = f"(setsid sh -c 'read _ < {tmp_path}/end' > /dev/null 2>&1 &)"
    with pytest.raises(RunUnproven) as caught:
        run(["sh", "-c", script], containment=Containment.DESCENDANTS, kill_plan=KillPlan(steps=((signal.SIGKILL, None),)))
    assert caught.value.result.leftovers is not None
    assert caught.value.result.leftovers.proof is Proof.NONE_FOUND
    (tmp_path / "end").write_text("\n")
