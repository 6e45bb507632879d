"""Every word of the core has its text in spurproc-inspect, and signals are read as people write them."""

from __future__ import annotations

import signal

import pytest

from spurproc.core.cgroup.signal_report import Route
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.core.facilities import NAMES
from spurproc.core.process.identity import IdentityStrength
from spurproc.core.recorded.end import NotYet
from spurproc.core.tree.members import Containment
from spurproc.errors import (
    AlreadyGone,
    InvalidArgument,
    KernelTooOld,
    NotPermitted,
    SignalRefused,
    Unsupported,
    WaitTimeout,
)
from spurproc.inspect.doctor.facilities import LOST
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.main import exit_code_of, main
from spurproc.inspect.provenance import CONTAINMENT, EXIT_SOURCE, NOT_YET, ROUTE, STRENGTH, exit_rows
from spurproc.inspect.signal_name import parse_signal, signal_text
from spurproc.inspect.signalling import _exit_code


def test_every_facility_says_what_is_lost_without_it() -> None:
    assert tuple(LOST) == NAMES
    assert len(set(LOST.values())) == len(LOST)


def test_every_word_has_its_text() -> None:
    assert set(STRENGTH) == set(IdentityStrength)
    assert set(CONTAINMENT) == set(Containment)
    assert set(EXIT_SOURCE) == set(ExitSource)
    assert set(NOT_YET) == set(NotYet)
    assert set(ROUTE) == {way.name for way in Route}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgument("x"), ExitCode.USAGE),
        (Unsupported("x"), ExitCode.UNSUPPORTED),
        (KernelTooOld(38, "x"), ExitCode.UNSUPPORTED),
        (WaitTimeout("x"), ExitCode.STILL_RUNNING),
        (AlreadyGone(3, "x"), ExitCode.FAILS),
        (NotPermitted(1, "x"), ExitCode.FAILS),
        (SignalRefused("x"), ExitCode.FAILS),
        (OSError(24, "x"), ExitCode.FAILS),
    ],
)
def test_what_an_error_means(error: Exception, code: ExitCode) -> None:
    assert exit_code_of(error, {}) is code


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("KILL", signal.SIGKILL),
        ("SIGKILL", signal.SIGKILL),
        ("sigkill", signal.SIGKILL),
        ("9", signal.SIGKILL),
        ("0", 0),
        ("64", 64),
        ("cld", signal.SIGCHLD),
        ("RTMIN", signal.SIGRTMIN),
        ("SIGRTMIN+3", signal.SIGRTMIN + 3),
        ("rtmax-1", signal.SIGRTMAX - 1),
    ],
)
def test_signals(text: str, number: int) -> None:
    assert parse_signal(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "65",
        "-9",
        "+9",
        "09",
        "00",
        "9 ",
        "1e1",
        "\u0669",
        "SIG",
        "SIGSIGKILL",
        "BLOCK",
        "SIG_DFL",
        "DFL",
        "RTMIN+99",
        "RTMAX-99",
    ],
)
def test_what_is_no_signal(text: str) -> None:
    assert parse_signal(text) is None


@pytest.mark.parametrize(
    ("signalled", "reasons", "complete", "code"),
    [
        (3, [], True, ExitCode.HOLDS),
        (3, [], False, ExitCode.FAILS),
        (3, ["not permitted"], True, ExitCode.FAILS),
        (0, [], True, ExitCode.FAILS),
        (0, ["not permitted"], True, ExitCode.FAILS),
        (0, ["needs pidfd_send_signal"] * 2, True, ExitCode.UNSUPPORTED),
        (0, ["needs pidfd_send_signal", "pid 1"], True, ExitCode.FAILS),
    ],
)
def test_what_a_signal_report_means(signalled: int, reasons: list[str], complete: bool, code: ExitCode) -> None:
    refused = [{"pid": 7, "reason": reason} for reason in reasons]
    assert _exit_code({"signalled": signalled, "refused": refused, "complete": complete}) is code


def test_a_complaint_is_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    main.__self__._complain("a\x1b[2J\n" + "b" * 5000 + "/end")  # type: ignore[attr-defined]  # of its frame
    said = capsys.readouterr().err
    assert said.startswith(r"spurproc-inspect: a\x1b[2J\n")
    assert said.endswith("b/end\n")
    assert said[:-1].isprintable()
    assert len(said) < 700


def test_signals_in_words() -> None:
    assert signal_text(15) == "SIGTERM (15)"
    assert signal_text(0) == "signal 0, which only asks"
    assert signal_text(40) == "signal 40"


def test_a_program_that_did_not_start_says_why() -> None:
    info = ExitInfo.not_started("EXEC", 2, interpreter="/bin/nosuch", reason="its interpreter is missing")
    rows = dict(exit_rows(info))
    assert rows["interpreter"] == "/bin/nosuch"
    assert rows["reason"] == "its interpreter is missing"
