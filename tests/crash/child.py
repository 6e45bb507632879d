"""Processes forked by the test: the launcher, which can be killed, and the fresh client, which finds out what is left."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

from tests.pidfds import open_pidfd

_READ_BYTES = 1 << 16


class Child:
    """Runs one function, and has its answer. Owns the process until `close`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._answer, theirs = os.pipe2(os.O_CLOEXEC)
        self._said = b""
        self.told = False
        pid = os.fork()
        if pid == 0:
            _run(function, theirs)
        os.close(theirs)
        self.pid = pid
        self.pidfd = open_pidfd(pid)

    def fileno(self) -> int:
        """Readable when it has something to say, or has ended."""
        return self._answer

    def hear(self) -> bool:
        """Take in what it says; whether that is all. Blocks until it says something, or ends."""
        if not self.told:
            content = os.read(self._answer, _READ_BYTES)
            self._said += content
            self.told = not content
        return self.told

    @property
    def answer(self) -> Any:
        """What the function returned; None of one that was killed."""
        return json.loads(self._said) if self._said else None

    def kill(self) -> None:
        """SIGKILL."""
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        """End it, and reap it."""
        self.kill()
        os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        os.close(self.pidfd)
        os.close(self._answer)


def _run(function: Callable[[], Any], answer_fd: int) -> None:
    """Says what came of it, and stays: whoever wants it to end kills it."""
    try:
        try:
            answer = function()
        except BaseException as error:  # noqa: BLE001 - the answer is what came of it
            answer = {"raised": type(error).__name__, "why": str(error), "trace": traceback.format_exc()}
        os.write(answer_fd, json.dumps(answer).encode())
        os.close(answer_fd)
        signal.pause()
    finally:
        os._exit(0)
