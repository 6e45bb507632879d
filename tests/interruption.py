"""An interrupt in the middle of a wait: it comes when something has happened, and at no time on a clock."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.asleep import await_waiting


def _waits() -> None:
    """In poll, or between two looks."""
    await_waiting(os.getpid())


@contextmanager
def interrupted(
    error: type[BaseException] = KeyboardInterrupt, *, number: int = signal.SIGALRM, when: Callable[[], object] = _waits
) -> Iterator[None]:
    """A handler of that signal raises `error` in this thread, the main one, once `when` returns: once the thread waits."""

    def raise_it(*_: object) -> None:
        raise error

    def interrupt() -> None:
        when()
        signal.pthread_kill(main, number)

    main = threading.get_ident()
    before = signal.signal(number, raise_it)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        yield
    finally:
        interrupter.join()
        signal.signal(number, before)
