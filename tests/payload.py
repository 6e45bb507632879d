"""Tiny C programs that speak over inherited pipes: the processes that tests start, watch and end."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.pace import readable
from tests.pidfds import open_pidfd

SOURCES = Path(__file__).parent / "payload"
# Keyed by content and kept: the runs inside a namespace find what the run outside has built.
_BUILT = Path(__file__).parent.parent / ".cache" / "payload"
_FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
_TIMEOUT_S = 10.0


def build(name: str) -> Path:
    """The program made from tests/payload/<name>.c, compiled if it or payload.h has changed."""
    source = SOURCES / f"{name}.c"
    content = source.read_bytes() + (SOURCES / "payload.h").read_bytes()
    program = _BUILT / f"{name}-{hashlib.sha256(content).hexdigest()[:16]}"
    if not program.exists():
        _BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_BUILT) as folder:
            fresh = Path(folder, name)
            subprocess.run(["gcc", *_FLAGS, str(source), "-o", str(fresh)], check=True)
            fresh.rename(program)
    return program


class PayloadPipes:
    """What a payload speaks over. It writes one byte to the ready pipe when it stands where it should.

    It ends when the hold pipe is closed here: every process of its tree that called payload_hold() sees the end of file, however
    far it has gone from us.
    """

    def __init__(self) -> None:
        self._ready, ready = os.pipe()
        hold, self._hold = os.pipe()
        self.passed = (ready, hold)
        """The payload's ends: pass them on with `environment`, then `close_passed`."""
        self.environment = {"PAYLOAD_READY_FD": str(ready), "PAYLOAD_HOLD_FD": str(hold)}

    def close_passed(self) -> None:
        """Once the payload has its ends."""
        for fd in self.passed:
            os.close(fd)

    def wait_ready(self, count: int = 1, timeout_s: float = _TIMEOUT_S) -> bytes:
        """Wait for `count` bytes on the ready pipe (one for each process that says it) and return them."""
        received = b""
        while len(received) < count:
            if not readable(self._ready, timeout_s):
                raise TimeoutError(f"a payload did not get ready: {received!r}")
            chunk = os.read(self._ready, count - len(received))
            if not chunk:
                raise EOFError(f"a payload ended before it was ready: {received!r}")
            received += chunk
        return received

    def release(self) -> None:
        """Close the hold pipe: what called payload_hold() goes on and ends. May be called twice."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def close(self) -> None:
        """Let go, and hear no more."""
        self.release()
        os.close(self._ready)


class Payload:
    """A running payload: a child of the runner, held by a pidfd."""

    def __init__(self, program: Path, *arguments: str, cgroup: Path | None = None) -> None:
        self._pipes = PayloadPipes()
        # The first argument of the shell is the door into the cgroup: joined before the program runs.
        enter = ["sh", "-c", 'echo 0 >"$0" && exec "$@"', str(cgroup / "cgroup.procs")] if cgroup is not None else []
        try:
            self._process = subprocess.Popen(
                [*enter, str(program), *arguments],
                env={**os.environ, **self._pipes.environment},
                pass_fds=self._pipes.passed,
                stdin=subprocess.DEVNULL,
            )
        finally:
            self._pipes.close_passed()
        self.pid = self._process.pid
        self.pidfd = open_pidfd(self.pid)

    def wait_ready(self, count: int = 1, timeout_s: float = _TIMEOUT_S) -> bytes:
        """As PayloadPipes.wait_ready."""
        return self._pipes.wait_ready(count, timeout_s)

    def release(self) -> None:
        """As PayloadPipes.release."""
        self._pipes.release()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal through the pidfd."""
        signal.pidfd_send_signal(self.pidfd, number)

    def kill(self) -> None:
        """SIGKILL through the pidfd; gone already is fine. Does not reap."""
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)

    def wait_exit(self, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until the pidfd is readable: the process has ended and is still a zombie, unless someone reaps it."""
        if not readable(self.pidfd, timeout_s):
            raise TimeoutError(f"payload {self.pid} did not end")

    def reap(self, timeout_s: float = _TIMEOUT_S) -> int:
        """Wait for the end and reap; the return code as subprocess has it."""
        self.wait_exit(timeout_s)
        return self._process.wait()

    def close(self) -> None:
        """End it, reap it, close everything. May be called twice."""
        if self.pidfd < 0:
            return
        self.release()
        self.kill()
        self._process.wait()
        self._pipes.close()
        os.close(self.pidfd)
        self.pidfd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
