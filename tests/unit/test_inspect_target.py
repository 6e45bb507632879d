"""What may be asked about: strict numbers, or a folder."""

from __future__ import annotations

import pytest

from spurproc.errors import InvalidArgument
from spurproc.inspect.target import FolderTarget, InodeTarget, PidTarget, StepTarget, parse_target
from spurproc.proto.runtime_id import BATCH_STEP, RuntimeId


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("1", PidTarget(1)),
        ("2147483647", PidTarget(2147483647)),
        ("12:345", InodeTarget(12, 345)),
        ("12:18446744073709551615", InodeTarget(12, 18446744073709551615)),
        ("run", FolderTarget("run")),
        ("./12", FolderTarget("./12")),
        ("/a/12:5", FolderTarget("/a/12:5")),
        ("12a", FolderTarget("12a")),
        ("run:7", FolderTarget("run:7")),
        ("5:a/b", FolderTarget("5:a/b")),
        (".", FolderTarget(".")),
        ("a\x1bb", FolderTarget("a\x1bb")),
        ("/s/runtime/7.1.0", StepTarget("/s", RuntimeId(7, 1, 0))),
        ("/s/x/../runtime/7.1.batch/", StepTarget("/s", RuntimeId(7, 1, BATCH_STEP))),
        ("/s/runtime/7.1", FolderTarget("/s/runtime/7.1")),
        ("/s/runtimes/7.1.0", FolderTarget("/s/runtimes/7.1.0")),
    ],
)
def test_forms(text: str, target: object) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not PID, PID:INODE or the folder"),
        ("0", "PID is 0"),
        ("00", "PID has a leading zero"),
        ("007", "PID has a leading zero"),
        ("+5", "PID is not a number in the digits 0-9"),
        ("-5", "PID is not a number in the digits 0-9"),
        ("--5", "PID is not a number in the digits 0-9"),
        (" 5", "PID is not a number in the digits 0-9"),
        ("5\n", "PID is not a number in the digits 0-9"),
        ("1_000", "PID is not a number in the digits 0-9"),
        ("1,000", "PID is not a number in the digits 0-9"),
        ("\u0665", "PID is not a number in the digits 0-9"),  # ARABIC-INDIC DIGIT FIVE
        ("\u00b2", "PID is not a number in the digits 0-9"),  # SUPERSCRIPT TWO
        ("\uff15", "PID is not a number in the digits 0-9"),  # FULLWIDTH DIGIT FIVE
        ("2147483648", "PID is greater than 2147483647"),
        ("18446744073709551617", "PID is greater than 2147483647"),
        ("9" * 100_000, "PID is greater than 2147483647"),
        ("5:", "INODE is not a number in the digits 0-9"),
        (":5", "PID is not a number in the digits 0-9"),
        (":", "PID is not a number in the digits 0-9"),
        ("5:0", "INODE is 0"),
        ("5:07", "INODE has a leading zero"),
        ("5:x", "INODE is not a number in the digits 0-9"),
        ("5:6:7", "INODE is not a number in the digits 0-9"),
        ("5:-6", "INODE is not a number in the digits 0-9"),
        ("5:18446744073709551616", "INODE is greater than 18446744073709551615"),
        ("a\0b", "not PID, PID:INODE or the folder"),
    ],
)
def test_what_means_nothing_is_named(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_target(text)
    message = str(caught.value)
    assert why in message
    assert message.startswith("cannot read TARGET '")
    assert len(message) < 300
    assert message.isprintable()
