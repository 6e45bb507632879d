"""What a step writes: read from the files of the job while it may be doing anything to them."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Literal

from spurproc.client.following import Following
from spurproc.client.job_file import JobFile
from spurproc.client.place import StepPlace
from spurproc.core.deadline import poll_ms, shortest_s
from spurproc.core.recorded.watch import FolderWatch, Watch
from spurproc.errors import AlreadyGone, InvalidArgument, SystemCallError
from spurproc.proto.launch_record import Program
from spurproc.proto.owed import is_over
from spurproc.proto.raw_text import raw_bytes

__all__ = ["Stream", "read_output"]

Stream = Literal["stdout", "stderr"]

_PIECE_BYTES = 1 << 16
_LOOK_S = 0.25  # where no inotify instance is left


def read_output(place: StepPlace, stream: Stream, *, follow: bool) -> Iterator[bytes]:
    """See `Step.logs`."""
    if stream not in ("stdout", "stderr"):
        raise InvalidArgument(f"stream: {stream!r} is neither 'stdout' nor 'stderr'")
    with place.opened() as opened:
        program = opened.launch.program
    path = None if program is None else _path(program, stream)
    if program is None or path is None:
        what = "it has no leader" if program is None else f"its {stream} is the null device"
        raise InvalidArgument(f"cannot read the {stream} of step {place.runtime_id}: {what}")
    owners = {os.geteuid(), os.geteuid() if program.uid is None else program.uid}
    return _Reading(place, path, owners).pieces(follow=follow)


def _path(program: Program, stream: Stream) -> bytes | None:
    text = program.stdout if stream == "stdout" else program.stderr
    return None if text is None else os.path.join(raw_bytes(program.cwd or "/"), raw_bytes(text))


class _Reading:
    """One reader, and how far it has come."""

    def __init__(self, place: StepPlace, path: bytes, owners: set[int]) -> None:
        self._place = place
        self._path = path
        self._owners = owners
        self._position = 0

    def pieces(self, *, follow: bool) -> Iterator[bytes]:
        with ExitStack() as held:
            following = Following(self._place)
            news = held.enter_context(closing(following.news()))
            watch = None
            file: JobFile | None = None
            changes: FolderWatch | None = None
            while True:
                over = self._over() or following.completed  # before the file is read to its end
                if file is None and (file := self._opened()) is not None:
                    held.callback(file.close)
                    changes = self._watch(file, held) if follow else None
                    if changes is not None:
                        changes.clear()
                if file is not None:
                    yield from self._read(file)
                if not follow or over:
                    return
                if watch is None or self._await(watch, changes, looking=file is not None):
                    watch = next(news)
                    continue
                if changes is not None:
                    changes.clear()

    def _over(self) -> bool:
        with self._place.opened() as opened:
            return is_over(opened.launch, opened.history())

    def _opened(self) -> JobFile | None:
        """None while it is not there, and need not be. The job's start makes it."""
        with self._place.opened() as opened:
            launched = opened.history().launched is not None  # before the file is looked for: a start in between makes it
        try:
            return JobFile(self._path, self._owners)
        except AlreadyGone:
            if launched:
                raise self._gone("the job has removed it") from None
        return None

    def _read(self, file: JobFile) -> Iterator[bytes]:
        """Up to where it ends now: a job that writes without end must not keep us here."""
        end = file.size_bytes()
        if end < self._position:
            self._position = 0
        while self._position < end and (piece := file.read(self._position, min(_PIECE_BYTES, end - self._position))):
            self._position += len(piece)
            yield piece
        if file.removed() and file.size_bytes() <= self._position:
            raise self._gone("the job has removed or replaced it; what it held until then was read")

    def _gone(self, why: str) -> AlreadyGone:
        return AlreadyGone(errno.ENOENT, f"cannot read {os.fsdecode(self._path)!r} of step {self._place.runtime_id}: {why}")

    @staticmethod
    def _watch(file: JobFile, held: ExitStack) -> FolderWatch | None:
        with suppress(SystemCallError):
            return held.enter_context(closing(FolderWatch(file.folder_fd)))
        return None

    @staticmethod
    def _await(watch: Watch, changes: FolderWatch | None, *, looking: bool) -> bool:
        """Until the step or the file may have moved on; whether it was the step."""
        poll = select.poll()
        for fd, events in watch.entries:
            poll.register(fd, events)
        if changes is not None:
            poll.register(changes.fileno(), select.POLLIN)
        look_s = _LOOK_S if looking and changes is None else None
        ready = {fd for fd, _ in poll.poll(poll_ms(shortest_s(watch.timeout_s, look_s)))}
        of_step = {fd for fd, _ in watch.entries} & ready
        return bool(of_step) or (not ready and shortest_s(watch.timeout_s, look_s) == watch.timeout_s)
