"""Whether the kernel has listeners to process events: it keeps a count that nobody can read, and that a listener must take back.

Two proofs. The count: an open socket of the group that never asked to listen hears of a fork if the count is not 0. The requests:
the kernel answers each, and all who listen hear the answer.
"""

from __future__ import annotations

import os
import socket

from spurproc.inspect.proc_connector import ProcConnector
from spurproc.inspect.proc_events import Answer

_CONNECTOR, _GROUP = 11, 1


def kernel_tells() -> bool:
    """Whether the kernel makes events: one that has no listeners makes none, and a child's are made before it can be reaped."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, _CONNECTOR) as mute:
        mute.bind((0, _GROUP))
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        try:
            return bool(mute.recv(4096))
        except BlockingIOError:
            return False


class Requests:
    """What others ask of the kernel from now on, as one who listens hears it."""

    def __init__(self, connector: ProcConnector) -> None:
        self._connector = connector
        self._numbers: list[int] = []

    def seen(self) -> list[str]:
        """Each granted request: "ignore" is one whose number follows that of a "listen" before it."""
        while part := list(self._connector._read()):
            self._numbers += [answer.number for answer in part if isinstance(answer, Answer) and not answer.errno]
        return ["ignore" if number - 1 in self._numbers[:index] else "listen" for index, number in enumerate(self._numbers)]
