"""FIFOs between a test and a job that the test is no parent of: what it tells, and what it is to wait for."""

from __future__ import annotations

import os
import select
from pathlib import Path
from types import TracebackType
from typing import Self

_WITHIN_S = 60.0


class Told:
    """The reading end: a job writes lines to the path. Everybody may, whoever the job runs as."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        path.chmod(0o666)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""

    def line(self) -> str:
        """The next line. Raises TimeoutError; EOFError once all who could write have ended."""
        while b"\n" not in self._rest:
            self._rest += self._some()
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def wait_end(self) -> None:
        """Until all who had it open for writing have ended."""
        try:
            while self._some():
                pass
        except EOFError:
            return

    def _some(self) -> bytes:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(_WITHIN_S * 1000):
            raise TimeoutError(f"nothing is told on {self.path}")
        content = os.read(self._fd, 65536)
        if not content:
            raise EOFError(f"nobody is left to tell anything on {self.path}")
        return content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)


class Gate:
    """The writing end: a job that reads a line from the path waits until it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        path.chmod(0o666)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def open(self, line: str = "") -> None:
        """Let one through."""
        os.write(self._fd, f"{line}\n".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)
