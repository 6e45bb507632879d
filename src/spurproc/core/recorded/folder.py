"""The folder of a recorded run, and what may be concluded from what is there and from what is not.

`lock` (shared by the launcher and then the recorder, for as long as they may still write), `run.json`, `started`, `exit.tmp`
which becomes `exit`, and `usage`. From something absent a conclusion is drawn only under the lock.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from dataclasses import replace

from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.exit_info import ExitInfo, ExitSource, ResourceUsage
from spurproc.core.recorded.record import (
    RUN_LIMIT_BYTES,
    RUN_NAME,
    STARTED_BYTES,
    STARTED_NAME,
    USAGE_BYTES,
    USAGE_NAME,
    RunRecord,
    Started,
    parse_started,
    parse_usage,
)
from spurproc.core.recorded.sentinel import MAX_BYTES, Pending, SentinelKind, SentinelRecord, read_sentinel
from spurproc.core.spawn.exec_failure import exec_reason
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import AlreadyGone, NotPermitted, RecordInvalid, SystemCallError

__all__ = ["RunFolder", "claim", "remove_files"]

_SENTINEL_ROOM = "exit.tmp"
# run.json first: what is left of a removal that was cut short reads as "no run", never as one that did not start.
_NAMES = (RUN_NAME, "exit", _SENTINEL_ROOM, USAGE_NAME, STARTED_NAME, "lock")
_CORE_FLAG = 0x80
_IN_TRANSIT_S = 2.0
_LOOK_MS = 10


class RunFolder:
    """A run's records. Owns the folder it is given: `close()` it."""

    def __init__(self, folder: PrivateFolder, record: RunRecord) -> None:
        """Takes `folder`."""
        self.folder = folder
        self.record = record

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """Raises AlreadyGone where there is none, NotPermitted where it is not private, RecordInvalid where it holds no run."""
        folder = PrivateFolder.open(path)
        try:
            return cls(folder, _read_record(folder))
        except BaseException:
            folder.close()
            raise

    @classmethod
    def publish(cls, folder: PrivateFolder, record: RunRecord) -> RunFolder:
        """Make the files of a run in an empty folder whose lock the caller holds; takes `folder` on success.

        Room is made now for all that is written later: a disk that fills up cannot take an end away. Durable when it returns,
        by three fsyncs: `run.json`, the folder, and the folder above.
        """
        for name, size in ((_SENTINEL_ROOM, MAX_BYTES), (STARTED_NAME, STARTED_BYTES), (USAGE_NAME, USAGE_BYTES)):
            os.close(folder.create_file(name, bytes(size)))
        folder.replace_file(RUN_NAME, record.to_bytes())
        folder.sync_above()
        return cls(folder, record)

    def started(self) -> Started:
        """What the recorder has noted. Raises RecordInvalid."""
        return parse_started(_read(self.folder, STARTED_NAME, STARTED_BYTES), f"{self.folder.path}/{STARTED_NAME}")

    def usage(self) -> ResourceUsage | None:
        """What the job used, once it has ended; None before, or where it was not recorded."""
        try:
            return parse_usage(self.folder.read_file(USAGE_NAME, USAGE_BYTES), self.record.nonce)
        except SystemCallError:
            return None

    def recorded(self) -> ExitInfo | None:
        """The end as the sentinel has it; None while there is none. Raises SentinelRefused where that may not be believed."""
        found = read_sentinel(self.folder.fileno(), self.record.nonce, self.record.recorder_uid)
        return None if isinstance(found, Pending) else self._info_of(found)

    def _info_of(self, found: SentinelRecord) -> ExitInfo:
        trusted = not self.record.job_may_forge
        if found.kind is SentinelKind.NOT_STARTED:
            return self._not_started(found.stage or 0, found.errno or 0, trusted=trusted)
        status = (found.code or 0) << 8 | (found.signal or 0) | (_CORE_FLAG if found.core_dumped else 0)
        return ExitInfo.from_wait_status(status, source=ExitSource.RECORDED, usage=self.usage(), trusted=trusted)

    def never_started(self) -> ExitInfo:
        """The end of a run without a leader in its notes, which nobody will write any more."""
        return self._not_started(SpawnStage.NONE.value, 0, trusted=not self.record.job_may_forge)

    def _not_started(self, stage: int, error: int, *, trusted: bool) -> ExitInfo:
        name, reason, interpreter = f"stage {stage}", None, None
        if stage in {known.value for known in SpawnStage}:
            name = SpawnStage(stage).name
        if stage == SpawnStage.EXEC.value and error:
            candidates = [os.fsencode(path) for path in self.record.candidates]
            reason, interpreter = exec_reason(error, candidates, os.fsencode(self.record.cwd or "/"))
        return ExitInfo.not_started(
            name, error, interpreter=interpreter, reason=reason, source=ExitSource.RECORDED, trusted=trusted
        )

    def with_usage(self, info: ExitInfo) -> ExitInfo:
        """`info` with the recorded resources, where it has none of its own."""
        return info if info.usage is not None else replace(info, usage=self.usage())

    def foreign_names(self) -> list[str]:
        """The names in the folder that are none of a run's own."""
        return [name for name in self.folder.names() if not _is_ours(name)]

    def remove(self) -> None:
        """Remove the records, and then the folder. The caller holds the lock and has proven that nothing lives."""
        remove_files(self.folder)
        self.folder.remove()

    def close(self) -> None:
        """Let go of the folder. May be called twice."""
        self.folder.close()


def _read_record(folder: PrivateFolder) -> RunRecord:
    return RunRecord.from_bytes(_read(folder, RUN_NAME, RUN_LIMIT_BYTES), f"{folder.path}/{RUN_NAME}")


def _read(folder: PrivateFolder, name: str, limit_bytes: int) -> bytes:
    """A record's bytes. Raises RecordInvalid for what is there, SystemCallError where this process cannot look just now."""
    try:
        return folder.read_file(name, limit_bytes)
    except AlreadyGone:
        raise RecordInvalid(
            f"{folder.path}/{name}", "there is none: no run was launched here, its launch was cut short, or it was removed"
        ) from None
    except NotPermitted as error:
        raise RecordInvalid(f"{folder.path}/{name}", str(error)) from error


def _is_ours(name: str) -> bool:
    return name in _NAMES or name.startswith(f".{RUN_NAME}.")


def remove_files(folder: PrivateFolder) -> None:
    """Unlink every file in the folder: `run.json` first, `lock`, which the caller holds, last."""
    for name in _NAMES[:-1]:
        folder.discard_file(name)
    with suppress(SystemCallError):  # listing takes a descriptor, and a launch may have failed for want of one
        for name in folder.names():
            if name != "lock":
                folder.discard_file(name)
    folder.discard_file("lock")


def claim(folder: PrivateFolder, within_s: float = _IN_TRANSIT_S) -> FolderLock | None:
    """The lock of a folder to launch into; None if that is in use: by a run, by files of others, or by another launch.

    What a launch left here that was killed before it published its run is cleared away. Its lock is waited for: a child that had
    not reached its exec may have a copy.
    """
    deadline = time.monotonic() + within_s
    while _are_unpublished(names := folder.names()):
        lock = FolderLock.take(folder, create=True)
        if lock is not None:
            return _cleared(folder, names, lock)
        if time.monotonic() >= deadline:
            break
        select.poll().poll(_LOOK_MS)
    return None


def _cleared(folder: PrivateFolder, names: list[str], lock: FolderLock) -> FolderLock | None:
    """`lock`, once these are gone; None, and it is free, where a run was published meanwhile."""
    try:
        in_use = folder.has(RUN_NAME) or folder.has("exit")
        if not in_use:
            for name in names:
                if name != "lock":
                    folder.discard_file(name)
    except BaseException:
        lock.close()
        raise
    if not in_use:
        return lock
    lock.close()
    return None


def _are_unpublished(names: list[str]) -> bool:
    return not names or ("lock" in names and all(_is_ours(name) and name not in (RUN_NAME, "exit") for name in names))
