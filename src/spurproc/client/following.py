"""What tells that a step may have moved on: its supervisor while there is one, a host when there is none."""

from __future__ import annotations

import errno
import select
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, suppress

from spurproc.client.connection import Gone, StepConnection
from spurproc.client.host_link import HostLink
from spurproc.client.place import OpenedStep, StepPlace
from spurproc.core.exit_info import ExitInfo
from spurproc.core.recorded.watch import FolderWatch, Watch
from spurproc.errors import NotPermitted, SpurprocError, SystemCallError
from spurproc.proto.messages import Completed, Ended, Refused, Reply, StatusReply, Subscribe, TakeOver, Welcome
from spurproc.proto.owed import is_over
from spurproc.proto.step_state import StepState

__all__ = ["Following"]

_PAUSE_FIRST_S, _PAUSE_LAST_S = 0.01, 1.0
_HUNG_UP = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
_NO_END_YET = frozenset(StepState) - {
    StepState.EMPTYING,
    StepState.HELD,
    StepState.EPILOG,
    StepState.COMPLETED,
    StepState.LEAVING,
}
_LOOK = Watch(entries=(), timeout_s=0.0)
"""Look at the records, and wait for nothing."""


class Following:
    """One step, followed. Holds a connection, and nothing else between two looks.

    `ended`: how it ended, durably, once its supervisor or its records have said so. `completed`: nothing is owed but the report.
    `is_behind`: the records may say more by now: `look`.
    """

    def __init__(self, place: StepPlace) -> None:
        self._place = place
        self._pause_s = _PAUSE_FIRST_S
        self.ended: ExitInfo | None = None
        self.completed = False
        self.is_behind = True

    def look(self) -> None:
        """What its records say by now. Raises AlreadyGone and the like."""
        with self._place.opened() as opened:
            self._read(opened)

    def _read(self, opened: OpenedStep) -> None:
        # Once is enough for an end, which is followed by others and never changed.
        history = opened.durable_history() if self.ended is None else opened.history()
        self.is_behind = False
        if history.end is not None:
            self.ended, self.completed = history.end, is_over(opened.launch, history)

    def news(self) -> Generator[Watch, None, None]:
        """What to wait for; each time it is resumed, whatever had come was taken in, and the records may say more.

        Endless. Close it: `contextlib.closing`. Raises what keeps a host from being reached, and AlreadyGone for a step that was
        removed. Nobody polls: it wakes by descriptors alone, unless neither supervisor nor host has anything to do with the step.
        """
        while True:
            connection = self._connect()
            if connection is not None:
                with connection:
                    yield from self._listen(connection)
            self.is_behind = True
            yield _LOOK
            yield from self._ask_host()
            self.is_behind = True
            yield from self._look_around()

    def _connect(self) -> StepConnection | None:
        with self._place.opened() as opened:
            self._read(opened)  # before a word of its supervisor's: one that hangs says nothing
            try:
                connection = StepConnection.connect(opened.step, opened.launch.capability, within_s=0.0)
            except Gone:
                return None
            try:
                connection.send(Subscribe(runtime_id=opened.runtime_id))
            except Gone:
                connection.close()
                return None
        return connection

    def _listen(self, connection: StepConnection) -> Generator[Watch, None, None]:
        """Until the supervisor is gone. What it tells of is in the records by then."""
        with suppress(Gone):
            while True:
                yield Watch(entries=((connection.fileno(), select.POLLIN),), timeout_s=None)
                connection.take_in()
                self._note(connection.messages())

    def _note(self, messages: list[Reply]) -> None:
        for message in messages:
            match message:
                case Ended(end=end):
                    self.ended = end
                case Completed(end=end):
                    self.ended, self.completed = end, True
                case Welcome():
                    self._pause_s = _PAUSE_FIRST_S
                case StatusReply(state=state, end=end) if state not in _NO_END_YET:
                    self.ended = self.ended or end
                    self.is_behind = True  # whether it is completed it does not tell, if it was before it heard of us
                case Refused(why=why):
                    what = f"cannot follow step {self._place.runtime_id}: its supervisor refuses: {why}"
                    raise NotPermitted(errno.EPERM, what)

    def _ask_host(self) -> Generator[Watch, None, None]:
        """Nobody supervises it: a host sees to it, and answers once there is something new."""
        with ExitStack() as held:
            with self._place.opened() as opened:
                link = yield from HostLink.opening(opened.state)
            held.callback(link.close)
            try:
                link.send(TakeOver(runtime_id=self._place.runtime_id))
            except SystemCallError as error:
                if error.errno in _HUNG_UP:  # it has ended since it was reached: another one is asked
                    return
                raise
            while link.receive() is None:
                yield Watch(entries=((link.fileno(), select.POLLIN),), timeout_s=None)

    def _look_around(self) -> Iterator[Watch]:
        """A host has answered. Mostly that is the news; else the step is another host's, or somebody looks at it just now.

        A supervisor that is just being forked shows itself by its socket, one that has no room for us by nothing.
        """
        with ExitStack() as held, self._place.opened() as opened:
            yield Watch(entries=self._signs(opened, held), timeout_s=self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_LAST_S)

    @staticmethod
    def _signs(opened: OpenedStep, held: ExitStack) -> tuple[tuple[int, int], ...]:
        """Its folder changes, or the host that is its witness ends."""
        entries: list[tuple[int, int]] = []
        with suppress(SystemCallError):  # no inotify instance is left: the pause ends by itself
            watch = held.enter_context(closing(FolderWatch(opened.step.folder.fileno())))
            entries.append((watch.fileno(), select.POLLIN))
        descriptor = opened.descriptor()
        if descriptor is not None:
            with suppress(SpurprocError):
                entries.append((held.enter_context(descriptor.host.open()).fileno(), select.POLLIN))
        return tuple(entries)
