"""A step's output is read from files that the job itself writes, and may have turned into anything by then."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import AlreadyGone, Busy, InvalidArgument, NotPermitted, Step
from spurproc.client import output
from spurproc.client.job_file import JobFile
from tests.steps import WAIT_S, Gate, Steps

_NOBODY = 65534


def _text(step: Step, **how: object) -> bytes:
    return b"".join(step.logs(**how))  # type: ignore[arg-type]  # for stream and follow


def test_both_streams_are_read(steps: Steps, tmp_path: Path) -> None:
    """Relative paths start where the job did."""
    step = steps.launch(["sh", "-c", "echo out; echo error >&2"], stdout="out", stderr="error", cwd=tmp_path)
    step.wait(WAIT_S)
    assert _text(step) == b"out\n"
    assert _text(step, stream="stderr") == b"error\n"


def test_who_follows_reads_on_until_the_step_is_over(steps: Steps, tmp_path: Path) -> None:
    """What a grandchild writes after the leader's end belongs to it."""
    gate, last = Gate(tmp_path / "gate"), Gate(tmp_path / "last")
    script = f"trap '' TERM; echo one; read x <{gate.path}; echo two; (read x <{last.path}; echo three) & exit 0"
    step = steps.launch(["sh", "-c", script], stdout=tmp_path / "out", kill_plan=steps.patient)
    pieces = step.logs(follow=True)
    assert next(pieces) == b"one\n"
    gate.open()
    assert next(pieces) == b"two\n"
    assert step.wait(WAIT_S).code == 0
    last.open()
    assert next(pieces) == b"three\n"
    assert list(pieces) == []


def test_who_follows_before_the_start_waits_for_the_file(steps: Steps, tmp_path: Path) -> None:
    step = steps.launch(["echo", "hello"], stdout=tmp_path / "out", start=False)
    assert list(step.logs()) == []
    pieces = step.logs(follow=True)
    step.start()
    assert b"".join(pieces) == b"hello\n"


def test_who_has_just_looked_for_the_file_when_the_job_starts_finds_it(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there yet when it was looked for, and the step is on record as launched right after that."""
    step = steps.launch(["echo", "hello"], stdout=tmp_path / "out", start=False)

    def look_just_before_the_start(path: bytes, owners: set[int]) -> JobFile:
        try:
            return JobFile(path, owners)
        except AlreadyGone:
            step.start()
            step.wait(WAIT_S)
            raise

    monkeypatch.setattr(output, "JobFile", look_just_before_the_start)
    assert b"".join(step.logs(follow=True)) == b"hello\n"


def test_a_file_that_grows_without_end_is_read_up_to_now(steps: Steps, tmp_path: Path) -> None:
    step = steps.launch(["sh", "-c", "while :; do echo more; done"], stdout=tmp_path / "out")
    assert next(step.logs(follow=True)).startswith(b"more\n")
    assert sum(map(len, step.logs())) > 0


def test_a_file_that_is_cut_short_is_read_again_from_its_beginning(steps: Steps, tmp_path: Path) -> None:
    out, gate = tmp_path / "out", Gate(tmp_path / "gate")
    step = steps.launch(gate.script(f"true >{out}; echo b"), stdout=out)
    out.write_bytes(b"first\n")
    pieces = step.logs(follow=True)
    assert next(pieces) == b"first\n"
    gate.open()
    assert b"".join(pieces) == b"b\n"


def test_a_removed_file_is_told(steps: Steps, tmp_path: Path) -> None:
    out = tmp_path / "out"
    step = steps.launch(["sh", "-c", f"echo gone; rm {out}"], stdout=out)
    step.wait(WAIT_S)
    with pytest.raises(AlreadyGone, match=rf"cannot read '{out}' of step {step.runtime_id}: the job has removed it"):
        list(step.logs())


def test_a_file_that_is_replaced_while_it_is_followed_is_read_to_its_end_and_told(steps: Steps, tmp_path: Path) -> None:
    out, gate = tmp_path / "out", Gate(tmp_path / "gate")
    step = steps.launch(gate.script(f"echo last; echo other >{out}.new; mv {out}.new {out}; read x <{gate.path}"), stdout=out)
    out.write_bytes(b"first\n")
    pieces = step.logs(follow=True)
    assert next(pieces) == b"first\n"
    gate.open()
    assert next(pieces) == b"last\n"
    with pytest.raises(AlreadyGone, match="the job has removed or replaced it; what it held until then was read"):
        list(pieces)
    gate.open()


def _fifo(out: Path) -> None:
    os.mkfifo(out)


def _link(out: Path) -> None:
    out.symlink_to("/etc/hostname")


def _two_names(out: Path) -> None:
    out.write_bytes(b"x")
    os.link(out, f"{out}.other")


def _folder(out: Path) -> None:
    out.mkdir()


def _device(out: Path) -> None:
    os.mknod(out, 0o020666, os.makedev(1, 5))


def _foreign(out: Path) -> None:
    out.write_bytes(b"x")
    os.chown(out, _NOBODY, _NOBODY)


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("trick", "why"),
    [
        (_fifo, "it is a FIFO"),
        (_link, "it is a symbolic link"),
        (_two_names, "it has 2 names"),
        (_folder, "it is a folder"),
        (_device, "it is a device"),
        (_foreign, f"it belongs to user {_NOBODY}"),
    ],
)
@pytest.mark.parametrize("follow", [False, True], ids=["read", "followed"])
def test_what_a_job_has_put_in_its_place_is_not_opened(
    steps: Steps, tmp_path: Path, trick: Callable[[Path], None], why: str, follow: bool
) -> None:
    """It is named, and nobody waits for it: a FIFO without a writer blocks whoever opens it."""
    out, gate = tmp_path / "out", Gate(tmp_path / "gate")
    step = steps.launch(gate.script(), stdout=out)
    out.unlink()
    trick(out)
    with pytest.raises(NotPermitted, match=f"cannot trust '{out}': {why}"):
        list(step.logs(follow=follow))
    gate.open()


@pytest.mark.needs_root
def test_a_link_on_the_way_is_followed_only_where_root_or_the_reader_made_it(steps: Steps, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "via").symlink_to("real")
    step = steps.launch(["echo", "hello"], stdout=tmp_path / "via" / "out")
    step.wait(WAIT_S)
    assert _text(step) == b"hello\n"
    os.chown(tmp_path / "via", _NOBODY, _NOBODY, follow_symlinks=False)
    with pytest.raises(NotPermitted, match=f"a symbolic link of user {_NOBODY} stands on the way, 'via'"):
        list(step.logs())


def test_a_lease_on_it_holds_nobody_up(steps: Steps, tmp_path: Path) -> None:
    """To open such a file for reading blocks for as long as the kernel gives its holder, 45 s by default. fcntl(2)"""
    out = tmp_path / "out"
    step = steps.launch(["true"], stdout=out)
    step.wait(WAIT_S, completed=True)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    fd = os.open(out, os.O_WRONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        with pytest.raises(Busy, match=f"cannot read '{out}'"):
            list(step.logs())
    finally:
        os.close(fd)
        signal.signal(signal.SIGIO, before)


def test_a_stream_without_a_file_is_named(steps: Steps) -> None:
    step = steps.launch(["true"], start=False)
    with pytest.raises(InvalidArgument, match=f"the stdout of step {step.runtime_id}: its stdout is the null device"):
        step.logs()
    with pytest.raises(InvalidArgument, match="'stdin' is neither"):
        step.logs(stream="stdin")  # type: ignore[arg-type]  # that is the point
    extern = steps.launch(None, runtime_id=type(step.runtime_id)(1, 1, step.runtime_id.EXTERN), start=False)
    with pytest.raises(InvalidArgument, match="it has no leader"):
        extern.logs()
