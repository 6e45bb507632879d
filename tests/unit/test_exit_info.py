"""How a process ended, as a value."""

from __future__ import annotations

import errno
import json
import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource, ResourceUsage
from spurproc.errors import ExitUnknown, InvalidArgument, NotStarted, ProcessFailed

WAITED = ExitSource.WAITED


@pytest.mark.parametrize("code", range(256))
def test_exit_code_is_the_return_code(code: int) -> None:
    """137 is a code that the program chose, not SIGKILL."""
    info = ExitInfo.from_wait_status(code << 8, source=WAITED)
    assert (info.kind, info.code, info.signal, info.returncode) == (ExitKind.EXITED, code, None, code)
    assert info.succeeded is (code == 0)


@pytest.mark.parametrize("number", range(1, 65))
@pytest.mark.parametrize("core", [0, 0x80])
def test_signal_is_the_negative_return_code(number: int, core: int) -> None:
    info = ExitInfo.from_wait_status(number | core, source=WAITED)
    assert (info.kind, info.signal, info.code, info.core_dumped) == (ExitKind.SIGNALED, number, None, bool(core))
    assert info.returncode == -number
    assert not info.succeeded


@given(st.integers(-(2**70), 2**70) | st.integers(0, 0xFFFF))
def test_wait_status_as_the_standard_library_reads_it(status: int) -> None:
    """Every status that is an end agrees with os.waitstatus_to_exitcode; a stop, a continue or garbage is refused."""
    try:
        info = ExitInfo.from_wait_status(status, source=WAITED)
    except InvalidArgument:
        assert (
            not 0 <= status <= 0xFFFF
            or os.WIFSTOPPED(status)
            or status & 0x7F in (0x7F, 0)
            or status & 0x7F > 64
            or status > 0xFF
        )
        return
    assert info.returncode == os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("status", [0x137F, 0xFFFF, 0x80, -1, 0x10000, True, "0", None, 0.0])
def test_what_is_no_end_is_refused(status: int) -> None:
    with pytest.raises(InvalidArgument):
        ExitInfo.from_wait_status(status, source=WAITED)


def test_unknown_has_no_return_code() -> None:
    info = ExitInfo.unknown("its recorder was killed")
    with pytest.raises(ExitUnknown, match="its recorder was killed"):
        _ = info.returncode
    assert not info.succeeded
    assert info.source is ExitSource.NONE


def test_not_started_has_no_return_code() -> None:
    info = ExitInfo.not_started("EXEC", errno.ENOENT, interpreter="/no/such")
    with pytest.raises(NotStarted, match=r"ENOENT.*EXEC"):
        _ = info.returncode
    assert not info.succeeded


def test_check_returns_success_and_raises_anything_else() -> None:
    good = ExitInfo.from_wait_status(0, source=WAITED)
    assert good.check() is good
    killed = ExitInfo.from_wait_status(signal.SIGABRT | 0x80, source=WAITED)
    for bad in (killed, ExitInfo.unknown("why"), ExitInfo.not_started("EXEC", errno.EACCES)):
        with pytest.raises(ProcessFailed) as caught:
            bad.check()
        assert caught.value.exit_info is bad
    with pytest.raises(ProcessFailed, match="SIGABRT, core dumped"):
        killed.check()


def test_json_form_has_what_is_set() -> None:
    usage = ResourceUsage(user_usec=1, system_usec=2, max_rss_bytes=3)
    info = ExitInfo.from_wait_status(7 << 8, source=WAITED, usage=usage, oom_kills=0)
    form = json.loads(json.dumps(info.to_json()))
    assert (form["kind"], form["code"], form["source"], form["oom_kills"], form["trusted"]) == ("exited", 7, "waited", 0, True)
    assert form["usage"]["max_rss_bytes"] == 3
    assert "signal" not in form
    assert json.loads(json.dumps(ExitInfo.from_wait_status(9, source=WAITED).to_json()))["core_dumped"] is False
    assert ExitInfo.unknown("why").to_json()["reason"] == "why"
    assert ExitInfo.not_started("EXEC", 2).to_json()["stage"] == "EXEC"


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (ExitInfo.from_wait_status(0, source=WAITED), "exited 0"),
        (ExitInfo.from_wait_status(9, source=WAITED), "killed by SIGKILL"),
        (ExitInfo.from_wait_status(33, source=WAITED), "killed by signal 33"),
        (ExitInfo.unknown("why"), "unknown: why"),
        (ExitInfo.not_started("GATE", 0), "not started: ended before exec at stage GATE"),
    ],
)
def test_people_can_read_it(info: ExitInfo, text: str) -> None:
    assert str(info) == text
