"""What a recorder says over its channel, cut anywhere, means the same."""

from __future__ import annotations

import os
import struct
from _socket import SCM_RIGHTS, SOL_SOCKET, socketpair
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spurproc.core._native import lib
from spurproc.core.recorded.channel import RecorderChannel
from tests.pidfds import open_pidfd

USAGE = b"spurproc-usage 1 ".ljust(256, b"\0")


def record(kind: int, value: int) -> bytes:
    return struct.pack("=ii", kind, value)


KEEPER = (
    record(lib.SPUR_STAGE_GATE, 0)
    + record(lib.SPUR_STAGE_EXEC, 0)
    + record(lib.SPUR_REPORT_ENDED, 7 << 8)
    + USAGE
    + record(lib.SPUR_REPORT_EMPTY, 0)
)


@given(st.lists(st.integers(0, len(KEEPER)), max_size=8))
def test_a_keepers_words_cut_anywhere(cuts: list[int]) -> None:
    """A stream has no borders."""
    ours, theirs = socketpair()
    channel = RecorderChannel(ours)
    places = [0, *sorted(cuts), len(KEEPER)]
    for begin, end in pairwise(places):
        theirs.send(KEEPER[begin:end])
        channel.receive()
        assert channel.launched is (end >= 16)
        assert (channel.wait_status is not None) is (end >= 24)
        assert channel.empty is (end == len(KEEPER))
    theirs.close()
    channel.receive()
    assert (channel.wait_status, channel.usage, channel.ended) == (7 << 8, USAGE, True)
    channel.close()


def test_a_recorder_that_dies_without_a_word() -> None:
    """Decided, not launched, and it says that nobody knows."""
    ours, theirs = socketpair()
    channel = RecorderChannel(ours)
    theirs.send(record(lib.SPUR_STAGE_GATE, 0))
    channel.receive()
    assert not channel.decided
    theirs.close()
    channel.receive()
    assert (channel.decided, channel.launched) == (True, False)
    assert "killed" in channel.why
    channel.close()


def test_a_leader_that_failed() -> None:
    """Stage and errno, and no doubt about it."""
    ours, theirs = socketpair()
    channel = RecorderChannel(ours)
    theirs.send(record(lib.SPUR_STAGE_EXEC, 2) + record(lib.SPUR_REPORT_NOT_STARTED, 0))
    channel.receive()
    assert (channel.decided, channel.launched, channel.stage, channel.error, channel.why) == (
        True,
        False,
        lib.SPUR_STAGE_EXEC,
        2,
        "",
    )
    theirs.close()
    channel.close()


def test_the_leaders_pidfd_comes_along() -> None:
    """Close-on-exec, taken once, and closed with the channel if nobody takes it."""
    ours, theirs = socketpair()
    channel = RecorderChannel(ours)
    pidfd = open_pidfd(os.getpid())
    theirs.sendmsg([record(lib.SPUR_REPORT_LEADER, os.getpid())], [(SOL_SOCKET, SCM_RIGHTS, struct.pack("i", pidfd))])
    os.close(pidfd)
    channel.receive()
    leader = channel.take_leader()
    assert leader is not None
    assert leader.pid == os.getpid()
    assert not os.get_inheritable(leader.fileno())
    assert channel.take_leader() is None
    leader.close()
    theirs.close()
    channel.close()
    channel.close()
