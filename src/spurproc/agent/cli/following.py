"""A file that a job writes, read while it is written, until the agent says that the attempt is over."""

from __future__ import annotations

import errno
import math
import os
import select
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, suppress

from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.cli.failure import AgentUnreachable
from spurproc.agent.cli.reach import Reach
from spurproc.agent.cli.waiting import connected_again
from spurproc.agent.service.replies import Ended
from spurproc.client.job_file import JobFile
from spurproc.core.recorded.watch import FolderWatch
from spurproc.errors import AlreadyGone, SystemCallError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["AttemptWatch", "read_file"]

_PIECE_BYTES = 1 << 16
_STDOUT = 1
_LOOK_S = 0.25
"""Where there is no file yet, or no inotify instance left."""


class AttemptWatch:
    """Knows whether an attempt is over, however often the agent is restarted. Owns its connection."""

    def __init__(self, reach: Reach, attempt: AttemptId) -> None:
        self._reach = reach
        self._attempt = attempt
        self._client = self._begun()
        self.over = False

    def _begun(self) -> AgentClient:
        client = connected_again(self._reach, math.inf)
        client.begin_wait(self._attempt.job_id)
        return client

    def await_begun(self) -> None:
        """Until the attempt is not queued any more."""
        while not self.over and self._hear() == "queued":
            continue

    def await_news(self, changes: FolderWatch | None) -> None:
        """Until it may be over, or the folder may have changed; where that is not watched, for a moment.

        Raises BrokenPipeError where nobody reads any more what we write.
        """
        poll = select.poll()
        if _is_pipe(_STDOUT):
            poll.register(_STDOUT, 0)
        if changes is not None:
            poll.register(changes.fileno(), select.POLLIN)
        poll.register(self._client.fileno(), select.POLLIN)
        wait_s = 0.0 if self._client.has_read_ahead else _LOOK_S
        ready = {fd for fd, _ in poll.poll(None if changes is not None and wait_s else wait_s * 1000)}
        if _STDOUT in ready:
            raise BrokenPipeError
        if self._client.has_read_ahead or self._client.fileno() in ready:
            self._hear()

    def _hear(self) -> str:
        try:
            standing = self._client.standing()
        except AgentUnreachable:
            self.close()
            self._client = self._begun()
            return "queued"
        self.over = isinstance(standing, Ended) or standing.job.attempt != self._attempt
        return standing.job.state

    def close(self) -> None:
        """Let go. May be called twice."""
        self._client.close()


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def read_file(path: bytes, owners: Collection[int], watch: AttemptWatch | None) -> Iterator[bytes]:
    """What stands in it; with a watch, also what comes until the attempt is over. Raises AlreadyGone, NotPermitted."""
    with ExitStack() as held:
        file: JobFile | None = None
        changes: FolderWatch | None = None
        position = 0
        while True:
            over = watch is None or watch.over  # before the file is read to its end
            if changes is not None:
                changes.clear()
            if file is None and (file := _opened(path, owners, required=over)) is not None:
                held.callback(file.close)
                changes = None if watch is None else _watched(file, held)
            if file is not None:
                for piece in _written(file, position):
                    position += len(piece)
                    yield piece
                position = min(position, file.size_bytes())
            if watch is None or over:
                return
            watch.await_news(changes)


def _opened(path: bytes, owners: Collection[int], *, required: bool) -> JobFile | None:
    try:
        return JobFile(path, owners)
    except AlreadyGone:
        if required:
            raise
        return None


def _watched(file: JobFile, held: ExitStack) -> FolderWatch | None:
    with suppress(SystemCallError):
        return held.enter_context(closing(FolderWatch(file.folder_fd)))
    return None


def _written(file: JobFile, position: int) -> Iterator[bytes]:
    """From there to where it ends now: a job that writes without end must not keep us here."""
    end = file.size_bytes()
    while position < end and (piece := file.read(position, min(_PIECE_BYTES, end - position))):
        position += len(piece)
        yield piece
    if file.removed() and file.size_bytes() <= position:
        why = "the job has removed or replaced it; what it held until then was read"
        raise AlreadyGone(errno.ENOENT, f"cannot read {file.path!r}: {why}")
