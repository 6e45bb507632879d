"""A database on a thread of its own, and the commit that all who wait for it share.

A commit costs an fsync(2), and one fsync makes durable whatever was written before it. So who writes while the disk is busy waits
for the next transaction, together with all others. Nothing of SQLite runs on the thread of an event loop.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import groupby
from typing import Any, Self, TypeVar

from spurproc.agent.store.file import Schema, open_connection, told
from spurproc.agent.store.transaction import CommitPoint, Failpoint, Work, read_alone, write_together
from spurproc.errors import InvalidArgument, SpurprocError

__all__ = ["Database"]

T = TypeVar("T")
_PATIENT_S = 0.02


class _Request(Work):
    """Work that somebody waits for, on an event loop; on a thread, where `loop` is None."""

    __slots__ = ("answer", "loop", "urgent", "writes")

    def __init__(
        self,
        body: Callable[[sqlite3.Connection], Any],
        loop: asyncio.AbstractEventLoop | None,
        *,
        writes: bool,
        urgent: bool = True,
    ) -> None:
        super().__init__(body)
        self.loop = loop
        self.answer: Any = Future[Any]() if loop is None else loop.create_future()
        self.writes = writes
        self.urgent = urgent


def _go_on(point: CommitPoint) -> None:
    """Where nobody makes a crash."""


def _let_write() -> None:
    """Where nothing ever forbids it."""


class Database:
    """A database that this process alone writes. Owns its connection and its thread."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, failpoint: Failpoint, may_write: Callable[[], None] = _let_write
    ) -> None:
        """Takes `connection`. See `open`."""
        self.path = path
        self._connection = connection
        self._failpoint = failpoint
        self._may_write = may_write
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._closed = False
        self._door = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name=os.path.basename(path), daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        schema: Schema,
        *,
        failpoint: Failpoint = _go_on,
        may_write: Callable[[], None] = _let_write,
    ) -> Self:
        """Open it, make it if there is none, bring an older one up to date. Blocks for the disk. Raises as `open_connection`.

        `may_write` is asked on the database's thread before each transaction; what it raises is the answer to all of that.
        """
        where = os.path.abspath(path)
        return cls(where, open_connection(where, schema), failpoint, may_write)

    async def write(self, body: Callable[[sqlite3.Connection], T], *, urgent: bool = True) -> T:
        """What `body` returns, once all that it did is durable; it runs on the database's thread, with others in one commit.

        What it raises is raised here, and it alone is undone. It neither commits nor rolls back, and swallows no error of the
        connection. Where the disk is full or broken all of that transaction get the error (SystemCallError, Busy,
        RecordInvalid), and nothing of it was done. Who is cancelled while waiting does not know whether it will be.

        `urgent` false: it goes with the next commit that somebody else wants, or after 20 ms by itself.
        """
        value: T = await self._asked(body, writes=True, urgent=urgent)
        return value

    def write_and_wait(self, body: Callable[[sqlite3.Connection], T]) -> T:
        """As `write`, on a thread that may stand still. Never on one that an event loop runs on."""
        request = _Request(body, None, writes=True)
        self._put(request)
        value: T = request.answer.result()
        return value

    async def read(self, body: Callable[[sqlite3.Connection], T]) -> T:
        """What `body` returns. It sees one state, and only what is durable; it cannot write."""
        value: T = await self._asked(body, writes=False)
        return value

    async def _asked(self, body: Callable[[sqlite3.Connection], Any], *, writes: bool, urgent: bool = True) -> Any:
        loop = asyncio.get_running_loop()
        request = _Request(body, loop, writes=writes, urgent=urgent)
        self._put(request)
        return await request.answer

    def _put(self, request: _Request) -> None:
        """Behind the last one nobody would be answered."""
        with self._door:
            if self._closed:
                raise InvalidArgument(f"cannot use the database {self.path!r}: it is closed")
            self._requests.put(request)

    async def close(self) -> None:
        """Close it, once all is done that was accepted. May be called twice."""
        with self._door:
            if not self._closed:
                self._closed = True
                self._requests.put(None)
        await asyncio.to_thread(self._thread.join)

    # On the thread of the database.

    def _serve(self) -> None:
        try:
            closing = False
            while not closing:
                requests, closing = self._waiting()
                self._do(requests)
        finally:
            self._connection.close()

    def _waiting(self) -> tuple[list[_Request], bool]:
        """All that wait by now, at least one; and whether nobody comes after them."""
        requests = []
        request = self._requests.get()
        patient_until = time.monotonic() + _PATIENT_S
        with suppress(queue.Empty):
            while request is not None:
                requests.append(request)
                left_s = 0.0 if any(one.urgent for one in requests) else max(0.0, patient_until - time.monotonic())
                request = self._requests.get(timeout=left_s) if left_s else self._requests.get_nowait()
        return requests, request is None

    def _do(self, requests: Sequence[_Request]) -> None:
        """Whatever happens, each is answered, and the next ones are served."""
        try:
            self._write([request for request in requests if request.writes])
            self._read([request for request in requests if not request.writes])
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            for request in requests:
                request.error = request.error or error
            self._answer(requests)

    def _write(self, requests: Sequence[_Request]) -> None:
        if not requests:
            return
        try:
            self._may_write()
        except SpurprocError as error:
            for request in requests:
                request.error = error
        else:
            write_together(self._connection, requests, self._failpoint, self._is_fault)
        self._answer(requests)

    def _read(self, requests: Sequence[_Request]) -> None:
        for request in requests:
            read_alone(self._connection, request)
        self._answer(requests)

    def _is_fault(self, error: BaseException) -> bool:
        return isinstance(error, sqlite3.Error) and told(error, "write", self.path) is not None

    def _answer(self, requests: Sequence[_Request]) -> None:
        """In one call to each loop, since each of them wakes it; who waits on a thread is woken from here."""
        for request in requests:
            if isinstance(request.error, sqlite3.Error):  # one of its own for each who waits: an exception is raised once
                request.error = told(request.error, "write" if request.writes else "read", self.path) or request.error
        for loop, group in groupby(requests, key=lambda request: request.loop):
            if loop is None:
                _set_answers(tuple(group))
                continue
            with suppress(RuntimeError):  # a loop that has ended waits for nothing
                loop.call_soon_threadsafe(_set_answers, tuple(group))


def _set_answers(requests: Sequence[_Request]) -> None:
    for request in requests:
        if request.answer.done():  # cancelled
            continue
        if request.error is None:
            request.answer.set_result(request.value)
        elif isinstance(request.error, StopIteration):  # no future may have it
            request.answer.set_exception(RuntimeError(f"{request.body!r} has raised {request.error!r}"))
        else:
            request.answer.set_exception(request.error)
