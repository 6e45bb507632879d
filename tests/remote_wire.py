"""The controller of tests on another machine, as far as its node can tell: behind a socket, and out of reach when it is down.

One connection for each thing that is said: its name, then its content, each a line; the answer is a line. Where an answer is lost
the connection ends without one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from spurproc.agent.controller.link import (
    Acknowledged,
    AttemptReport,
    Beat,
    Cancel,
    Dispatch,
    Healthy,
    NodeDescription,
    NodeView,
    NotFound,
    Nothing,
    RefusedForGood,
    Registered,
    Unreachable,
)
from spurproc.agent.resources.request import ResourceRequest
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode, encode
from tests.remote_controller import RemoteController
from tests.steps import WAIT_S

T = TypeVar("T")
_LIMIT_BYTES = 1 << 24
_WORK: Any = Dispatch | Cancel | Nothing | NotFound


class _Question(msgspec.Struct, frozen=True):
    """What the controller wants to know of the node before it says which work there is."""

    attempts: tuple[AttemptId, ...]
    request: ResourceRequest | None


class _Shown(msgspec.Struct, frozen=True):
    """What the node shows: which of the attempts it holds, which are ending there, and whether what is next fits."""

    held: frozenset[AttemptId]
    ending: frozenset[AttemptId]
    fitting: bool

    def fits(self, request: ResourceRequest) -> bool:
        """See NodeView."""
        del request
        return self.fitting

    def has(self, attempt: AttemptId) -> bool:
        """See NodeView."""
        return attempt in self.held

    def cancelling(self, attempt: AttemptId) -> bool:
        """See NodeView."""
        return attempt in self.ending


@dataclass(frozen=True, slots=True)
class RemoteLink:
    """A `ControllerLink` to who listens at a path."""

    path: str

    async def register(self, node: NodeDescription) -> Registered:
        """See ControllerLink."""
        return decode(await self._said("register", node), Registered, "an answer")

    async def deregister(self) -> None:
        """See ControllerLink."""
        await self._said("deregister", None)

    async def heartbeat(self, beat: Beat) -> Healthy | NotFound:
        """See ControllerLink."""
        return decode(await self._said("heartbeat", beat), Healthy | NotFound, "an answer")  # type: ignore[arg-type]

    async def take_work(self, free: NodeView) -> Dispatch | Cancel | Nothing | NotFound:
        """See ControllerLink."""

        def shown(line: bytes) -> _Shown:
            question = decode(line, _Question, "a question")
            return _Shown(
                frozenset(filter(free.has, question.attempts)),
                frozenset(filter(free.cancelling, question.attempts)),
                question.request is not None and free.fits(question.request),
            )

        answer = await self._said("take_work", None, shown)
        work: Dispatch | Cancel | Nothing | NotFound = decode(answer, _WORK, "an answer")
        return work

    async def await_work(self) -> None:
        """See ControllerLink. One that is out of reach may have something by the time it is asked."""
        try:
            await self._said("await_work", None)
        except Unreachable:
            await asyncio.sleep(0.1)

    async def report(self, report: AttemptReport) -> Acknowledged | RefusedForGood:
        """See ControllerLink."""
        return decode(await self._said("report", report), Acknowledged | RefusedForGood, "an answer")  # type: ignore[arg-type]

    async def drain(self, reasons: tuple[str, ...]) -> NotFound | None:
        """See ControllerLink."""
        return decode(await self._said("drain", reasons), NotFound | None, "an answer")  # type: ignore[arg-type]

    async def _said(self, name: str, content: object, asked: Callable[[bytes], object] | None = None) -> bytes:
        try:
            reader, writer = await asyncio.open_unix_connection(self.path, limit=_LIMIT_BYTES)
        except OSError as error:
            raise Unreachable(f"nobody listens: {error}") from None
        try:
            writer.write(name.encode() + b"\n" + encode(content) + b"\n")
            if asked is not None:
                writer.write(encode(asked(_whole(await reader.readline()))) + b"\n")
            return _whole(await reader.readline())
        except OSError as error:
            raise Unreachable(f"cut off: {error}") from None
        finally:
            writer.close()


def _whole(line: bytes) -> bytes:
    if not line.endswith(b"\n"):
        raise Unreachable("cut off")
    return line


@dataclass(slots=True)
class _Listening:
    """The other end."""

    controller: RemoteController
    talks: set[asyncio.Task[None]] = field(default_factory=set)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.talks.add(task)
        try:
            name, content = (await reader.readline()).strip().decode(), await reader.readline()
            answer = await self._answer(name, content, reader, writer)
            writer.write(encode(answer) + b"\n")
        except (Unreachable, ConnectionError):
            pass  # whoever asked sees an end without an answer
        finally:
            self.talks.discard(task)
            writer.close()

    async def _answer(self, name: str, content: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        controller = self.controller
        answer: object = None
        match name:
            case "register":
                answer = await controller.register(decode(content, NodeDescription, name))
            case "heartbeat":
                answer = await controller.heartbeat(decode(content, Beat, name))
            case "take_work":
                writer.write(encode(_Question(*controller.to_ask())) + b"\n")
                answer = await controller.take_work(decode(_whole(await reader.readline()), _Shown, name))
            case "await_work":
                await _unless_gone(controller.await_work(), reader)
            case "report":
                answer = await controller.report(decode(content, AttemptReport, name))
            case "drain":
                answer = await controller.drain(decode(content, tuple[str, ...], name))
            case "deregister":
                await controller.deregister()
        return answer


async def _unless_gone(work: Awaitable[None], reader: asyncio.StreamReader) -> None:
    """Nobody is told who does not wait any more."""
    waits = [asyncio.ensure_future(work), asyncio.ensure_future(reader.read())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


@asynccontextmanager
async def listening(controller: RemoteController, path: str) -> AsyncIterator[None]:
    """While it lasts the controller can be reached at `path`."""
    end = _Listening(controller)
    server = await asyncio.start_unix_server(end.talk, path, limit=_LIMIT_BYTES)
    try:
        yield
    finally:
        server.close()
        talks = list(end.talks)
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


class RemoteMachine:
    """A controller on a thread of its own, up and down as the test says. Its clock stands still until it is put forward."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.now_s = 0.0
        self.controller = RemoteController(now=lambda: self.now_s)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._heard = asyncio.Event()
        self.controller.heard = self._heard.set
        self._server: Any = None

    def __enter__(self) -> Self:
        self._thread.start()
        self.up()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def up(self) -> None:
        """It can be reached, with all that it knows."""
        self._server = listening(self.controller, self.path)
        self._run(self._server.__aenter__())

    def down(self) -> None:
        """It cannot, and whatever was being said is cut off."""
        server, self._server = self._server, None
        if server is not None:
            self._run(server.__aexit__(None, None, None))

    def do(self, act: Callable[[RemoteController], T]) -> T:
        """On its thread."""

        async def done() -> T:
            return act(self.controller)

        answer: T = self._run(done())
        return answer

    def until(self, fact: Callable[[RemoteController], object]) -> None:
        """Block until that is so; looked at behind each message."""

        async def so() -> None:
            while not fact(self.controller):
                self._heard.clear()
                await self._heard.wait()

        self._run(so())

    def heard(self, kind: type[T]) -> Sequence[T]:
        """What has arrived of it, in order."""
        return self.do(lambda controller: [one for one in controller.sent if isinstance(one, kind)])

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)
