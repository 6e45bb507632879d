"""What the agent tells the service manager that started it. Source: sd_notify(3), sd_watchdog_enabled(3)."""

from __future__ import annotations

import errno
import os
import select
import time
from _socket import AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_DGRAM, socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spurproc.core.durable.private_folder import named_errors
from spurproc.errors import Unsupported, from_errno

__all__ = ["NOTIFY_SOCKET", "ServiceManager"]

NOTIFY_SOCKET = "NOTIFY_SOCKET"
"""Environment variable of the service manager: where it listens; a path, or `@` and an abstract name."""
_SEND_WITHIN_S = 1.0
_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceManager:
    """Where it listens, and how often it wants to hear of us. Holds no descriptor; nobody has to listen.

    Each message is sent at once; where its queue is full, within a second. They raise SystemCallError, of which the service
    manager alone has the loss.
    """

    address: str | bytes
    watchdog_s: float | None = None
    """It takes us for hung after that long without `watchdog`; None: it does not watch."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """The one that started us; None where that was none which wants to be told. Raises Unsupported for an odd address."""
        text = environment.get(NOTIFY_SOCKET)
        if not text:
            return None
        return cls(address=_address(text), watchdog_s=_watchdog_s(environment))

    def ready(self, status: str = "") -> None:
        """Started: what comes after this unit may start."""
        self._send("READY=1", f"MAINPID={os.getpid()}", *_status(status))

    def stopping(self, status: str = "") -> None:
        """On the way to the end."""
        self._send("STOPPING=1", *_status(status))

    def watchdog(self) -> None:
        """Alive: twice in `watchdog_s` is often enough."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(*_status(text or " "))

    def _send(self, *fields: str) -> None:
        content = "\n".join(fields).encode("utf-8", "surrogateescape")
        with named_errors("notify", "the service manager"):
            end = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
            try:
                end.connect(self.address)
                _send_within(end, content, _SEND_WITHIN_S)
            finally:
                end.close()


def _address(text: str) -> str | bytes:
    """Source: sd_notify(3), "Notes"; unix(7), "Abstract sockets"."""
    if text.startswith("@") and len(text) > 1:
        return b"\0" + os.fsencode(text[1:])
    if text.startswith("/"):
        return text
    raise Unsupported(f"cannot notify the service manager: {NOTIFY_SOCKET}={text!r} is neither a path nor an abstract socket")


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    """Only what is meant for this very process; of an odd value nothing is made."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / _MICROSECONDS if text.isascii() and text.isdigit() and int(text) else None


def _status(text: str) -> tuple[str, ...]:
    """One line: a newline would begin another field."""
    return (f"STATUS={' '.join(text.split(chr(10)))}",) if text else ()


def _send_within(end: socket, content: bytes, timeout_s: float) -> None:
    """Connected, so that a full queue can be waited for: poll(2) tells of its own peer alone."""
    deadline = time.monotonic() + timeout_s
    poll = select.poll()
    poll.register(end.fileno(), select.POLLOUT)
    while True:
        try:
            end.send(content, MSG_DONTWAIT | MSG_NOSIGNAL)
        except BlockingIOError:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise from_errno(errno.ETIMEDOUT, "notify", "the service manager") from None
            poll.poll(left_s * 1000)
        else:
            return
