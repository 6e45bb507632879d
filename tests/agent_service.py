"""The program `tests.agent_desk` as tests use it: started, moved, asked, and gone when the test is over."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.service.replies import Reply, Welcome
from spurproc.agent.service.requests import Hello, Request
from spurproc.proto.codec import decode, encode
from tests.pace import at_this_pace, readable

WITHIN_S = 60.0
SAID_WITHIN_S = 20.0
REPOSITORY = Path(__file__).parent.parent


class AgentDesk:
    """A service in a process of its own, in a folder that others may pass."""

    def __init__(self, folder: Path, **bounds: float) -> None:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder.chmod(0o711)
        self.folder = folder
        self.path = folder / "control.sock"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.agent_desk", str(folder), json.dumps(bounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
        )
        self._rest = b""
        assert self.line() == "serving"

    def line(self) -> str:
        """The next thing that it says; it has to say it soon."""
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            assert readable(self.process.stdout.fileno(), SAID_WITHIN_S), "it says nothing"
            content = os.read(self.process.stdout.fileno(), 65536)
            assert content, "it has ended"
            self._rest += content
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def do(self, verb: str, *arguments: Any) -> str:
        """Have it do something; what it was done to."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([verb, *arguments]).encode() + b"\n")
        self.process.stdin.flush()
        done, _, what = self.line().partition(" ")
        assert done == "ok"
        return what

    def client(self) -> AgentClient:
        """A connection; the caller owns it."""
        return AgentClient.connect(self.path, timeout_s=at_this_pace(WITHIN_S))

    def run(self, kind: str = "exited", number: int = 0) -> str:
        """Let the next job run to its end."""
        return self.do("end", self.do("dispatch"), kind, number)

    def stop(self) -> int:
        """End it in order; its exit code. May be called twice."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(at_this_pace(WITHIN_S))
        self.process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if value is None:
            assert self.stop() == 0
        else:
            self.process.kill()
            self.stop()


class RawPeer:
    """Somebody who speaks to the socket as they like. Owns it."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(path))  # which waits for a place in the queue; with a timeout it would not
        self.socket.settimeout(at_this_pace(SAID_WITHIN_S))
        self._rest = b""

    def say(self, message: Request | bytes) -> None:
        """One message, or whatever bytes."""
        self.socket.sendall(message if isinstance(message, bytes) else encode(message) + b"\n")

    def hear(self) -> Reply:
        """The next message. Raises EOFError when it was hung up."""
        while b"\n" not in self._rest:
            try:
                content = self.socket.recv(65536)
            except ConnectionResetError:
                content = b""
            if not content:
                raise EOFError
            self._rest += content
        line, _, self._rest = self._rest.partition(b"\n")
        return decode(line, Reply, "a reply")  # type: ignore[arg-type]  # a union

    def greet(self) -> Self:
        """Be let in."""
        self.say(Hello())
        assert isinstance(self.hear(), Welcome)
        return self

    def is_hung_up(self) -> bool:
        """Blocks until it is, or something is said."""
        try:
            self.hear()
        except EOFError:
            return True
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.socket.close()


def spec_of(client: AgentClient, **fields: Any) -> JobSpec:
    """A job of the peer's own, that would run `true`."""
    welcome = client.welcome
    own: dict[str, Any] = {"name": "job", "user": welcome.user, "uid": welcome.uid, "gid": welcome.gid, "groups": welcome.groups}
    if not fields.keys() & {"script", "argv", "reservation"}:
        own["argv"] = ("true",)
    return JobSpec(**own | fields)
