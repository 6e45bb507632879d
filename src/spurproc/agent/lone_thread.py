"""A thread for what the kernel may never answer, as a driver does whose device has fallen off its bus."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from spurproc.errors import SystemCallError

__all__ = ["LoneThread", "begun"]

P = ParamSpec("P")
T = TypeVar("T")


class LoneThread:
    """One call at a time. Whoever asks is let go in time, and while one call stands still nothing else is begun."""

    def __init__(self, within_s: float) -> None:
        """`within_s`: how long each call may take."""
        self._within_s = within_s
        self._turn = asyncio.Lock()
        self._stuck: asyncio.Future[Any] | None = None

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What it returns or raises. Raises TimeoutError where it does not in time; nobody waits for it any more then.

        Raises SystemCallError where there can be no thread more, as in a fork bomb.

        The thread is a daemon: it keeps no program from ending.
        """
        async with self._turn:
            if self._stuck is not None:
                await self._await(self._stuck)
                self._stuck = None
            done = begun(lambda: function(*args, **kwargs))
            self._stuck = done
            await self._await(done)
            self._stuck = None
            result: T = done.result()
            return result

    async def _await(self, done: asyncio.Future[Any]) -> None:
        await asyncio.wait({done}, timeout=self._within_s)
        if not done.done():
            raise TimeoutError(f"it takes longer than {self._within_s:g} s")


def begun(call: Callable[[], T]) -> asyncio.Future[T]:
    """What becomes of it, on a thread of its own: a daemon, which keeps no program from ending. Raises SystemCallError."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(tell_it: Callable[[Any], None], what: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if done.done() else tell_it(what))

    def run() -> None:
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
            tell(done.set_exception, error)
        else:
            tell(done.set_result, result)

    try:
        threading.Thread(target=run, name="lone", daemon=True).start()
    except RuntimeError as error:  # pthread_create(3) has failed, and Python keeps to itself why
        raise SystemCallError(errno.EAGAIN, f"cannot begin a thread: {error}") from None
    return done
