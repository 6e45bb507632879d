"""`spurproc-inspect watch --json` while it runs: its lines one by one, and the child of it that listens."""

from __future__ import annotations

import json
import os
import select
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.inspect_program import PROGRAM, TIMEOUT_S


class Watch:
    """`spurproc-inspect watch --json`, while it runs. A child of the test: use it as a context manager."""

    def __init__(self, *arguments: str | int | Path, program: tuple[str | Path, ...] = (PROGRAM,)) -> None:
        command = [*program, "watch", "--json", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self._unread = b""
        self.told: list[dict[str, Any]] = []

    def until(self, event: str, pid: int | None = None) -> dict[str, Any]:
        """The next line that tells of `event`, of `pid` if given; blocks until it has come. All lines are kept in `told`."""
        while self._tell_one():
            if self.told[-1]["event"] == event and pid in (None, self.told[-1]["pid"]):
                return self.told[-1]
        raise AssertionError(f"no {event!r} came: {self.told} {self.complaint()!r}")

    def rest(self) -> int:
        """Read to the end; its return code."""
        while self._tell_one():
            pass
        return self.process.wait(TIMEOUT_S)

    def _tell_one(self) -> bool:
        """Read a line; whether there was one."""
        assert self.process.stdout is not None
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        while b"\n" not in self._unread:
            assert poll.poll(TIMEOUT_S * 1000), f"nothing is told any more: {self.told}"
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                return False
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        self.told.append(json.loads(line))
        return True

    def of(self, pid: int) -> list[str]:
        """The events that were told of `pid`."""
        return [told["event"] for told in self.told if told["pid"] == pid]

    def complaint(self) -> str:
        """Its standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def listener_pid(self) -> int:
        """The child of it that listens."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text())

    def signal(self, number: int) -> None:
        """Send it a signal; it is our child, not reaped yet."""
        self.process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
