"""What a service manager hears of the agent, on a real datagram socket."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.agent.node import notify
from spurproc.agent.node.notify import ServiceManager
from spurproc.errors import SystemCallError, Unsupported

_CREDENTIALS = socket.CMSG_SPACE(12)


@pytest.fixture(params=["path", "abstract"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A service manager's socket, and its address as it stands in NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        end.settimeout(10)
        if request.param == "path":
            name = str(tmp_path / "notify")
            end.bind(name)
        else:
            name = f"@spurproc-test-{os.getpid()}"
            end.bind("\0" + name[1:])
        yield end, name


def manager(address: str, **more: str) -> ServiceManager:
    found = ServiceManager.from_environment({"NOTIFY_SOCKET": address} | more)
    assert found is not None
    return found


def heard(end: socket.socket) -> list[str]:
    """The lines of the next message; it has to come from this very process, for systemd asks the kernel."""
    content, ancillary, _, _ = end.recvmsg(4096, _CREDENTIALS)
    (credentials,) = [data for _, kind, data in ancillary if kind == socket.SCM_CREDENTIALS]
    assert int.from_bytes(credentials[:4], "little") == os.getpid()
    return content.decode().split("\n")


def test_each_message_is_what_sd_notify_says(listener: tuple[socket.socket, str]) -> None:
    """One datagram each, assignments on lines."""
    end, address = listener
    told = manager(address)
    told.ready("serving 3 jobs")
    assert heard(end) == ["READY=1", f"MAINPID={os.getpid()}", "STATUS=serving 3 jobs"]
    told.ready()
    assert heard(end) == ["READY=1", f"MAINPID={os.getpid()}"]
    told.stopping("two lines\nREADY=1")
    assert heard(end) == ["STOPPING=1", "STATUS=two lines READY=1"]
    told.stopping()
    assert heard(end) == ["STOPPING=1"]
    told.watchdog()
    assert heard(end) == ["WATCHDOG=1"]
    told.status("ä\udcff")
    assert end.recv(100) == "STATUS=ä".encode() + b"\xff"
    told.status("")
    assert heard(end) == ["STATUS= "]


def test_no_descriptor_stays(listener: tuple[socket.socket, str]) -> None:
    """A socket each time, closed at once: the service manager may be restarted in between."""
    before = os.listdir("/proc/self/fd")
    manager(listener[1]).watchdog()
    assert os.listdir("/proc/self/fd") == before


def test_a_manager_that_does_not_listen_is_an_error_and_no_more(tmp_path: Path) -> None:
    """Nothing hangs, nothing stays open."""
    before = os.listdir("/proc/self/fd")
    with pytest.raises(SystemCallError, match="cannot notify the service manager"):
        manager(str(tmp_path / "nobody")).ready()
    with pytest.raises(SystemCallError, match="cannot notify the service manager"):
        manager("@spurproc-test-nobody").ready()
    with pytest.raises(SystemCallError, match="cannot notify the service manager"):
        manager("/" + "x" * 200).ready()
    assert os.listdir("/proc/self/fd") == before


def fill(end: socket.socket, address: str) -> int:
    """Send until its queue is full; how many there are in it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.connect(address if address.startswith("/") else "\0" + address[1:])
        other.setblocking(False)
        for count in range(100_000):
            try:
                other.send(b"x")
            except BlockingIOError:
                return count
    raise AssertionError("its queue is never full")


def test_a_full_queue_is_waited_for_and_not_for_ever(
    listener: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manager that hangs does not hang the agent; one that is slow hears all of it."""
    end, address = listener
    count = fill(end, address)
    monkeypatch.setattr(notify, "_SEND_WITHIN_S", 0.05)
    with pytest.raises(SystemCallError, match="timed out"):
        manager(address).ready()
    polled: list[float] = []

    class Slow:
        """A poll(2) that sees the manager read everything while it waits."""

        def register(self, _fd: int, _events: int) -> None:
            polled.append(0)

        def poll(self, _timeout_ms: float) -> None:
            polled.append(1)
            for _ in range(count):
                end.recv(10)

    monkeypatch.setattr(select, "poll", Slow)
    monkeypatch.setattr(notify, "_SEND_WITHIN_S", 60)
    manager(address).stopping()
    assert polled == [0, 1]
    assert heard(end) == ["STOPPING=1"]


def test_without_a_manager_there_is_nobody_to_tell() -> None:
    """Neither without the variable nor with an empty one. An address of another kind is told as that."""
    assert ServiceManager.from_environment({}) is None
    assert ServiceManager.from_environment({"NOTIFY_SOCKET": ""}) is None
    for odd in ("relative", "@", "vsock:2:1234"):
        with pytest.raises(Unsupported, match="neither a path nor an abstract socket"):
            ServiceManager.from_environment({"NOTIFY_SOCKET": odd})


@pytest.mark.parametrize(
    ("environment", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
    ],
)
def test_how_often_it_wants_to_hear(environment: dict[str, str], watchdog_s: float | None) -> None:
    """Only where this process is meant, which a child that inherited the variables is not."""
    assert manager("/x", **environment).watchdog_s == watchdog_s
