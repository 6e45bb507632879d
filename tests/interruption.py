"""An interrupt in the middle of a wait, wherever the machine is by then: it comes when the kernel says that the waiter sleeps."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.inspect_program import await_waiting


@contextmanager
def interrupted(error: type[BaseException] = KeyboardInterrupt) -> Iterator[None]:
    """A handler raises `error` in this thread, the main one, once it waits: in poll, or between two looks."""

    def raise_it(*_: object) -> None:
        raise error

    def interrupt() -> None:
        await_waiting(os.getpid())
        signal.pthread_kill(main, signal.SIGALRM)

    main = threading.get_ident()
    before = signal.signal(signal.SIGALRM, raise_it)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        yield
    finally:
        interrupter.join()
        signal.signal(signal.SIGALRM, before)
