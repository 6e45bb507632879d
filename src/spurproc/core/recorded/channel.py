"""What a recorder tells its launcher: stage records, the leader's pidfd, and from a keeper the end and the resources used.

csrc/plan.h has the layout: records of two 32-bit numbers on a stream socket. The recorder never waits for its launcher.
"""

from __future__ import annotations

import os
import struct
from _socket import MSG_NOSIGNAL, socket
from contextlib import suppress

from spurproc.core._native import lib
from spurproc.core.passed_fds import receive_fds
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.record import USAGE_BYTES

__all__ = ["RecorderChannel"]

_RECORD = struct.Struct("=ii")
_READ_BYTES = 4096


class RecorderChannel:
    """The launcher's end. Owns the socket and, until it is taken, the leader's pidfd: `close()` it.

    `stage` and `error` are the last stage record: error 0 means "about to"; after `launched` come a keeper's `wait_status` and
    `usage`, and `empty` when its last descendant has ended. `ended`: the recorder has closed its end, or died.
    """

    def __init__(self, end: socket) -> None:
        """Takes `end`, one of a connected pair of stream sockets."""
        end.setblocking(False)
        self._socket = end
        self._bytes = bytearray()
        self._leader_fd = -1
        self._leader_pid = 0
        self.stage = int(lib.SPUR_STAGE_NONE)
        self.error = 0
        self.wait_status: int | None = None
        self.usage: bytes | None = None
        self.empty = False
        self._not_started = False
        self.ended = False

    def fileno(self) -> int:
        """The socket; borrowed. Readable when `receive` has something to do."""
        return self._socket.fileno()

    @property
    def launched(self) -> bool:
        """Confirmed by the recorder: the leader runs the job, or has. It passes an announced exec on only when that is so."""
        return (self.stage, self.error) == (lib.SPUR_STAGE_EXEC, 0)

    @property
    def decided(self) -> bool:
        """Nothing more will come that says whether the job has started: it has, or not, or the recorder is dead."""
        return self.launched or self._not_started or self.ended

    @property
    def why(self) -> str:
        """Beside `stage` and `error`: why nobody knows whether the job started; empty where it is known."""
        return (
            ""
            if self.launched or self._not_started
            else "its recorder was killed before it could tell whether the job had started"
        )

    def commit(self) -> None:
        """Let the recorder go on to the job: from here on the caller holds it, and ends it if the launch is given up.

        Without this, or when the caller dies before, nothing is started. A recorder that has died is told of by `ended`.
        """
        with suppress(BrokenPipeError):
            self._socket.send(b"\0", MSG_NOSIGNAL)

    def receive(self) -> None:
        """Take in all that is there. Does not block."""
        while not self.ended:
            try:
                content, fds = receive_fds(self._socket, _READ_BYTES, 1)
            except BlockingIOError:
                return
            except ConnectionResetError:
                content, fds = b"", []
            if fds:
                self._leader_fd = fds[0]
            self.ended = not content
            self._bytes += content
            self._parse()

    def _parse(self) -> None:
        while len(self._bytes) >= self._next_bytes:
            part = bytes(self._bytes[: self._next_bytes])
            del self._bytes[: len(part)]
            if len(part) == USAGE_BYTES:
                self.usage = part
            else:
                self._take_record(*_RECORD.unpack(part))

    @property
    def _next_bytes(self) -> int:
        return USAGE_BYTES if self.wait_status is not None and self.usage is None else _RECORD.size

    def _take_record(self, kind: int, value: int) -> None:
        if kind == lib.SPUR_REPORT_LEADER:
            self._leader_pid = value
        elif kind == lib.SPUR_REPORT_ENDED:
            self.wait_status = value
        elif kind == lib.SPUR_REPORT_EMPTY:
            self.empty = True
        elif kind == lib.SPUR_REPORT_NOT_STARTED:
            self._not_started = True
        else:
            self.stage, self.error = kind, value

    def take_leader(self) -> Pidfd | None:
        """The leader's pidfd, which the caller then owns; None where it has not come, or was taken."""
        if self._leader_fd < 0 or self._leader_pid <= 0:
            return None
        fd, self._leader_fd = self._leader_fd, -1
        return Pidfd.take_fd(fd, self._leader_pid)

    def close(self) -> None:
        """Let go. May be called twice."""
        self._socket.close()
        if self._leader_fd >= 0:
            os.close(self._leader_fd)
            self._leader_fd = -1
