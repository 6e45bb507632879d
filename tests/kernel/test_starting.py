"""A program on its way to its exec: at a gate, at a FIFO, killed there, given up."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.process.identity import reader
from spurproc.core.spawn import starting
from spurproc.core.spawn.spawn import SpawnPlan, SpawnStage, begin, spawn
from spurproc.core.spawn.starting import Progress, read_progress
from spurproc.errors import SpawnError
from tests import capabilities
from tests.interruption import interrupted
from tests.pace import readable
from tests.spawning import DETACH, ROUTES, await_stage, in_child, no_child_is_left, wait_end


@pytest.mark.needs_facility("pidfd_send_signal")
@DETACH
def test_fifo_as_stdout_blocks_the_job_and_not_the_caller(tmp_path: Path, *, detach: bool) -> None:
    """`begin` returns; `confirm` gives up at its deadline, names the stage and leaves nothing."""
    os.mkfifo(tmp_path / "fifo")
    begun, spawned = begin(SpawnPlan(argv=["/bin/echo", "hello"], stdout=tmp_path / "fifo", detach=detach))
    await_stage(begun, SpawnStage.STDOUT)  # how soon it is there is the machine's affair
    with pytest.raises(SpawnError) as caught:
        begun.confirm(0.1)
    assert (caught.value.errno, caught.value.stage) == (errno.ETIMEDOUT, "STDOUT")
    assert spawned.identity.liveness().value == "gone"


def test_deadline_holds_for_a_plain_plan_too() -> None:
    """With a deadline nobody sleeps until the exec: the launcher waits on a channel, and can kill."""
    begun, spawned = begin(SpawnPlan(argv=["/bin/true"]), killable=True)
    assert begun.channel is not None
    begun.confirm(5)
    assert wait_end(spawned).succeeded
    assert wait_end(spawn(SpawnPlan(argv=["/bin/true"]), timeout_s=5)).succeeded


@pytest.mark.needs_facility("pidfd_send_signal")
def test_interrupted_wait_leaves_nothing(tmp_path: Path) -> None:
    """KeyboardInterrupt while the job is on its way: it is killed and reaped."""
    os.mkfifo(tmp_path / "fifo")
    with interrupted(), pytest.raises(KeyboardInterrupt):
        spawn(SpawnPlan(argv=["/bin/echo"], stdout=tmp_path / "fifo"))
    no_child_is_left()


@DETACH
@pytest.mark.parametrize("fields", ROUTES, ids=["plain", "program"])
def test_signals_of_the_caller_are_as_they_were(fields: dict[str, Any], *, detach: bool) -> None:
    """All of them wait while the clone is under way; what was blocked before stays so, and nothing else does."""

    def body() -> None:
        blocked = {signal.SIGUSR1, signal.SIGHUP}
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        begun, spawned = begin(SpawnPlan(argv=["/bin/true"], detach=detach, **fields))
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked
        begun.confirm(10)
        wait_end(spawned)

    in_child(body)


def test_fifo_with_a_reader_is_fine(tmp_path: Path) -> None:
    """The job waits for its reader, as open(2) does."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    begun, spawned = begin(SpawnPlan(argv=["/bin/echo", "hello"], stdout=path))
    with path.open("rb") as reader:
        begun.confirm(5)
        assert reader.read() == b"hello\n"
    assert wait_end(spawned).succeeded


def test_no_step_is_taken_after_one_that_failed(tmp_path: Path) -> None:
    """Nobody has looked yet, and nobody has killed it: a job does not run in another folder than it was to."""
    begun, spawned = begin(SpawnPlan(argv=["touch", tmp_path / "ran"], cwd=tmp_path / "missing"))
    assert readable(spawned.pidfd.fileno(), 20)
    with pytest.raises(SpawnError) as caught:
        begun.confirm(5)
    assert (caught.value.errno, caught.value.stage) == (errno.ENOENT, "CWD")
    assert os.listdir(tmp_path) == []


@DETACH
def test_killed_at_the_gate_is_not_started(*, detach: bool) -> None:
    """EOF on the channel without "about to exec" is a failure, and says by which signal."""
    gate_read, gate_write = os.pipe()
    begun, spawned = begin(SpawnPlan(argv=["/bin/true"], detach=detach), gate_fd=gate_read)
    await_stage(begun, SpawnStage.GATE)
    signal.pidfd_send_signal(spawned.pidfd.fileno(), signal.SIGKILL)
    with pytest.raises(SpawnError) as caught:
        begun.confirm(5)
    assert (caught.value.errno, caught.value.stage) == (0, "GATE")
    assert detach or "signal 9" in str(caught.value)
    os.close(gate_read)
    os.close(gate_write)


def test_gate() -> None:
    """One byte opens it; EOF means do not exec."""
    for opened in (True, False):
        gate_read, gate_write = os.pipe()
        begun, spawned = begin(SpawnPlan(argv=["/bin/true"]), gate_fd=gate_read)
        os.close(gate_read)
        if opened:
            os.write(gate_write, b"x")
            begun.confirm(5)
            assert wait_end(spawned).succeeded
        os.close(gate_write)
        if not opened:
            with pytest.raises(SpawnError) as caught:
                begun.confirm(5)
            assert (caught.value.errno, caught.value.stage) == (errno.ECANCELED, "GATE")


def test_what_was_exec_d_at_the_last_moment_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline passes, and the exec comes between our look and our kill: a job that has run is not called not started."""
    gate_read, gate_write = os.pipe()
    read_fd, write_fd = os.pipe()
    begun, spawned = begin(
        SpawnPlan(argv=["sh", "-c", "echo ran; exec cat"], stdin=gate_read, stdout=write_fd), gate_fd=gate_read
    )
    for fd in (gate_read, write_fd):
        os.close(fd)

    def look_and_then_it_runs(channel: Any, timeout_s: float) -> Progress:
        monkeypatch.setattr(starting, "read_progress", read_progress)
        progress = read_progress(channel, timeout_s)
        os.write(gate_write, b"x")
        assert os.read(read_fd, 100) == b"ran\n"
        return progress

    monkeypatch.setattr(starting, "read_progress", look_and_then_it_runs)
    begun.confirm(0.01)
    os.close(gate_write)
    assert wait_end(spawned).succeeded
    os.close(read_fd)


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_send_signal")
def test_launcher_that_may_not_kill_what_it_started(open_folder: Path) -> None:
    """CAP_SETUID without CAP_KILL: the deadline holds, and the error says that it lives on."""
    os.mkfifo(open_folder / "fifo")
    (open_folder / "fifo").chmod(0o666)

    def body() -> None:
        reader()
        capabilities.become_user_with(54321, capabilities.SETUID, capabilities.SETGID)
        begun, _ = begin(SpawnPlan(argv=["/bin/true"], user=54322, groups=[], stdout=open_folder / "fifo"))
        await_stage(begun, SpawnStage.STDOUT)
        with pytest.raises(SpawnError, match="may not kill it") as caught:
            begun.confirm(0.1)
        assert (caught.value.errno, caught.value.stage) == (errno.ETIMEDOUT, "STDOUT")
        os.close(os.open(open_folder / "fifo", os.O_RDONLY))  # now it goes on, and ends
        os.wait()

    in_child(body)


def test_channel_is_not_inherited() -> None:
    """By what another thread starts while we wait for the start."""
    begun, spawned = begin(SpawnPlan(argv=["/bin/true"], umask=0))
    assert begun.channel is not None
    assert not os.get_inheritable(begun.channel.fileno())
    begun.confirm(10)
    wait_end(spawned)
