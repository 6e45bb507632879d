"""What is typed to spurd: read strictly, or named."""

from __future__ import annotations

import pytest

from spurproc.agent.cli.arguments import (
    Gpus,
    JobName,
    parse_duration,
    parse_generic,
    parse_gpus,
    parse_job,
    parse_kill_plan,
    parse_size,
)
from spurproc.agent.cli.exit_code import code_of_end
from spurproc.agent.cli.fields import cpu_list, size_text, time_text
from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource
from spurproc.errors import InvalidArgument


@pytest.mark.parametrize(("text", "job"), [("7", JobName(7)), ("7.2", JobName(7, 2)), (str(2**63 - 1), JobName(2**63 - 1))])
def test_jobs(text: str, job: JobName) -> None:
    assert parse_job(text) == job
    assert str(job) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "+7",
        "07",
        "7.",
        "7.0",
        ".1",
        "7.01",
        "7.1.0",
        "a",
        " 7",
        "7\n",
        "\u0667",
        "9" * 19,
        "1" * 5000,
        "7.1\x1b[m",
    ],
)
def test_no_jobs(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is not JOB or JOB\.ATTEMPT") as refused:
        parse_job(text)
    assert len(str(refused.value)) < 200
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("1k", 1024), ("1.5G", 3 << 29), ("2GiB", 2 << 30), ("3 mb", 3 << 20), ("1T", 1 << 40), ("7B", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "1X", "G", "1e3", "0x10", "9999999P", "1.G", "\u0661"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86400),
        ("1:30", 90),
        ("1:30:00", 5400),
        ("5 min", 300),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "1:60", "1:2", "inf", "nan", "1w", "1e3", "0:00", "1_0", "::"])
def test_no_durations(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a span of time above 0"):
        parse_duration(text)


def test_counts() -> None:
    assert parse_gpus("2") == Gpus(2)
    assert parse_gpus("2:nvidia") == Gpus(2, "nvidia")
    assert parse_generic("licence=2") == ("licence", 2)
    assert parse_generic("licence") == ("licence", 1)
    assert parse_kill_plan("TERM:1,KILL").steps == ((15, 1.0), (9, None))


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_gpus, "nvidia"),
        (parse_gpus, "2:"),
        (parse_gpus, "-1"),
        (parse_generic, "=2"),
        (parse_generic, "licence=0"),
        (parse_generic, "licence=x"),
        (parse_kill_plan, "NONE"),
        (parse_kill_plan, ""),
    ],
)
def test_no_counts(parse: object, text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not"):
        parse(text)  # type: ignore[operator]


def ended(kind: ExitKind, *, code: int | None = None, signal: int | None = None) -> ExitInfo:
    return ExitInfo(kind=kind, source=ExitSource.WAITED, observed_at=1.0, code=code, signal=signal)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ended(ExitKind.EXITED, code=0), 0),
        (ended(ExitKind.EXITED, code=255), 255),
        (ended(ExitKind.SIGNALED, signal=9), 137),
        (ended(ExitKind.SIGNALED, signal=64), 192),
        (ExitInfo.not_started("EXEC", 2), 126),
        (ExitInfo.unknown("lost"), 125),
        (None, 125),
    ],
)
def test_exit_is_passed_on(end: ExitInfo | None, code: int) -> None:
    assert code_of_end(end) == code


def test_words() -> None:
    assert [cpu_list(cpus) for cpus in ((), (3,), (0, 1, 2, 5), (1, 3))] == ["", "3", "0-2,5", "1,3"]
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 3 << 30)] == ["0 B", "1023 B", "1 KiB", "1.5 KiB", "3 GiB"]
    assert time_text(None) is None
    assert time_text(1e300) == "1e+300 s"
