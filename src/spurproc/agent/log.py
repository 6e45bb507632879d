"""The log of the agent: one line a fact, with the ids that it is about."""

from __future__ import annotations

import logging
import select
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

import structlog

from spurproc.command_line.escape import printable

__all__ = ["open_log"]

_ROOM_WITHIN_S = 1.0
_ATOMIC_BYTES = select.PIPE_BUF
"""As much can be written to a pipe that has room, without waiting."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _Stderr:
    """Where the lines go. One that cannot be written, to a full disk or to nobody any more, is lost, and nothing else with it.

    So are those for a reader that stands still, after the second that the first of them waits for it.
    """

    def __init__(self) -> None:
        stream = sys.stderr and sys.stderr.buffer  # None: it was closed when we were started
        self._file: Any = getattr(stream, "raw", stream)  # past the buffer, which would keep what it could not write
        self._takes_lines = True

    def msg(self, line: str) -> None:
        """With the end of the line."""
        if self._file is not None:
            content = f"{line}\n".encode("utf-8", "backslashreplace")
            with suppress(OSError):
                for start in range(0, len(content), _ATOMIC_BYTES):
                    self._takes_lines = self._has_room(_ROOM_WITHIN_S if self._takes_lines else 0.0)
                    if not self._takes_lines:
                        return
                    self._file.write(content[start : start + _ATOMIC_BYTES])

    def _has_room(self, within_s: float) -> bool:
        """What is no descriptor has. Source: poll(2); pipe(7), "PIPE_BUF"."""
        try:
            poll = select.poll()
            poll.register(self._file.fileno(), select.POLLOUT)
        except ValueError:
            return True
        return bool(poll.poll(within_s * 1000))

    debug = info = warning = error = msg


def open_log(level: str, form: str) -> Any:
    """To stderr. `form`: `json`, or `text` for people and for journald, which has the time itself."""
    last: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True, bool_as_flag=False)
    )
    return structlog.wrap_logger(
        _Stderr(),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _tidied,
            last,
            _printable,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        cache_logger_on_first_use=True,
    )


def _tidied(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What has no value is not said."""
    return {name: value for name, value in event.items() if value is not None}


def _printable(_: object, __: str, line: Any) -> str:
    """Users choose names and reasons, and somebody reads the log on a terminal. The renderer has seen to the ends of lines."""
    return printable(line)
