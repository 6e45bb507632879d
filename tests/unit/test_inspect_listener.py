"""The listener's requests, on a socket whose other end the test reads: taken back if made or if nobody can tell, else not."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from spurproc.errors import SystemCallError
from spurproc.inspect import listener
from spurproc.inspect.listener import Listener
from tests.descriptors import descriptors_left

_TOO_LONG = bytes(1 << 24)
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The listener's, and that which takes the place of the kernel's."""
    ours, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    with ours, others:
        yield ours, others


def asked(end: socket.socket) -> list[bytes]:
    """The requests that came."""
    came = []
    while True:
        try:
            came.append(end.recv(100))
        except BlockingIOError:
            return came


def ends_here(*_arguments: object) -> None:
    """In the place of a step of the child: it dies there."""
    os._exit(9)


def test_a_request_is_taken_back_once(ends: Ends) -> None:
    listens = Listener(ends[0], b"listen", b"ignore")
    assert asked(ends[1]) == [b"listen"]
    listens.stop()
    listens.stop()
    assert asked(ends[1]) == [b"ignore"]


def test_a_refused_request_is_not_taken_back(ends: Ends) -> None:
    with pytest.raises(SystemCallError, match="cannot ask for process events: Message too long"):
        Listener(ends[0], _TOO_LONG, b"ignore")
    assert asked(ends[1]) == []


@pytest.mark.parametrize(("step", "taken_back"), [("_drain", []), ("_send", [b"ignore"])])
def test_a_child_that_died_on_the_way(ends: Ends, monkeypatch: pytest.MonkeyPatch, step: str, taken_back: list[bytes]) -> None:
    """Before it could have asked there is nothing to take back; from then on nobody knows, and a raised count stays."""
    died: Callable[..., None] = ends_here
    monkeypatch.setattr(listener, step, died)
    with pytest.raises(SystemCallError) as caught:
        Listener(ends[0], b"listen", b"ignore")
    assert caught.value.errno == errno.ECHILD
    assert asked(ends[1]) == taken_back


@pytest.mark.parametrize("left", range(4))
def test_too_few_descriptors_leave_nothing_open(ends: Ends, left: int) -> None:
    """Two pipes are four; one that was made is closed again where the other cannot be."""
    before = os.listdir("/proc/self/fd")
    with (
        descriptors_left(left),
        pytest.raises(SystemCallError, match="cannot start the listener to process events: Too many open files") as caught,
    ):
        Listener(ends[0], b"listen", b"ignore")
    assert caught.value.errno == errno.EMFILE
    assert os.listdir("/proc/self/fd") == before
