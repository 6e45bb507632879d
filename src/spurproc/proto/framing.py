"""Messages on a stream socket: one JSON object a line, bounded, so that no peer can make its reader hold more."""

from __future__ import annotations

from spurproc.errors import RecordInvalid

__all__ = ["MESSAGE_LIMIT_BYTES", "LineBuffer"]

MESSAGE_LIMIT_BYTES = 1 << 16


class LineBuffer:
    """Lines out of what a socket gives. Holds at most one message and what came behind it in the same read."""

    __slots__ = ("_bytes", "_where")

    def __init__(self, where: str) -> None:
        self._bytes = b""
        self._where = where

    def feed(self, content: bytes) -> list[bytes]:
        """The whole lines up to here, without their newlines. Raises RecordInvalid once a line gets longer than a message may."""
        *lines, self._bytes = (self._bytes + content).split(b"\n")
        if any(len(line) >= MESSAGE_LIMIT_BYTES for line in (*lines, self._bytes)):
            self._bytes = b""
            raise RecordInvalid(self._where, f"a message of {MESSAGE_LIMIT_BYTES} bytes or more")
        return lines
