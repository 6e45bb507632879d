"""Where the records of steps stand: the state folder, and in it one folder a step.

`<state_dir>/runtime/<job>.<attempt>.<step>/` holds `lock`, `launch.json`, `descriptor.json`, `journal.jsonl`, `control.sock`.
Beside the published ones stand `.new-...`, a launch that was not published yet, and `.old-...`, one that is being removed: either
is swept once its lock is free.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from types import TracebackType
from typing import Self

from spurproc.core.durable.journal import JOURNAL_NAME, read_journal
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.vantage import read_boot_id
from spurproc.errors import AlreadyGone, InvalidArgument, NotPermitted, RecordInvalid, RecordTooNew, SystemCallError
from spurproc.proto.codec import decode, version_of
from spurproc.proto.descriptor import DESCRIPTOR_LIMIT_BYTES, DESCRIPTOR_NAME, Descriptor
from spurproc.proto.journal_record import History, history_of
from spurproc.proto.launch_record import LAUNCH_LIMIT_BYTES, LAUNCH_NAME, LaunchRecord
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["NEW_PREFIX", "OLD_PREFIX", "RUNTIME_NAME", "SOCKET_NAME", "StateFolder", "StepFolder"]

RUNTIME_NAME = "runtime"
SOCKET_NAME = "control.sock"
NEW_PREFIX = ".new-"
OLD_PREFIX = ".old-"


class StepFolder:
    """The folder of one published step. Owns the private folder that it is given."""

    def __init__(self, folder: PrivateFolder, runtime_id: RuntimeId) -> None:
        """Takes `folder`."""
        self.folder = folder
        self.runtime_id = runtime_id

    def launch(self) -> LaunchRecord:
        """What was to be run. Raises RecordInvalid, and RecordTooNew for a later version's."""
        content = self.folder.read_file(LAUNCH_NAME, LAUNCH_LIMIT_BYTES)
        where = f"{self.folder.path}/{LAUNCH_NAME}"
        version_of(content, where)
        record = decode(content, LaunchRecord, where)
        if record.runtime_id != self.runtime_id:
            raise RecordInvalid(where, f"it is of step {record.runtime_id}")
        return record

    def descriptor(self) -> Descriptor | None:
        """Who runs it; None before its supervisor has said so. Raises as `launch`.

        It is not fsynced, so a power cut can leave its name without its content: what cannot be read of another boot is None, for
        nobody runs it any more.
        """
        try:
            content = self.folder.read_file(DESCRIPTOR_NAME, DESCRIPTOR_LIMIT_BYTES)
        except AlreadyGone:
            return None
        try:
            return self._described(content)
        except RecordTooNew:
            raise
        except RecordInvalid:
            if self.launch().boot_id == read_boot_id():
                raise
            return None

    def _described(self, content: bytes) -> Descriptor:
        where = f"{self.folder.path}/{DESCRIPTOR_NAME}"
        version_of(content, where)
        record = decode(content, Descriptor, where)
        if record.runtime_id != self.runtime_id:
            raise RecordInvalid(where, f"it is of step {record.runtime_id}")
        return record

    def history(self) -> History:
        """What has happened. Raises RecordInvalid."""
        return history_of(read_journal(self.folder), f"{self.folder.path}/{JOURNAL_NAME}")

    def socket_address(self) -> str:
        """The control socket, reached through the held descriptor: however long the path, and only in this very folder."""
        return f"/proc/self/fd/{self.folder.fileno()}/{SOCKET_NAME}"

    def close(self) -> None:
        """Let go. May be called twice."""
        self.folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class StateFolder:
    """A state folder, held: private, ours, reached through no symbolic link. Owns its descriptors."""

    def __init__(self, folder: PrivateFolder, runtime: PrivateFolder) -> None:
        """Takes both."""
        self.folder = folder
        self.runtime = runtime

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = False, inode: tuple[int, int] | None = None) -> Self:
        """Open it; `create`: make what is missing, its last part only; `inode`: only if it has this device and inode.

        Raises NotPermitted and the like, naming the folder. With `inode` nothing is made but the folder of the steps, in the
        very folder that was opened.
        """
        folder = _opened(path, create=create and inode is None)
        try:
            _check_inode(folder, inode)
            return cls(folder, _runtime_of(folder, create=create or inode is not None))
        except BaseException:
            folder.close()
            raise

    @property
    def path(self) -> str:
        """Absolute."""
        return self.folder.path

    def open_step(self, runtime_id: RuntimeId) -> StepFolder:
        """The folder of a published step, which the caller owns. Raises AlreadyGone where there is none."""
        return StepFolder(self.runtime.open_folder(str(runtime_id)), runtime_id)

    def names(self) -> tuple[list[RuntimeId], list[str]]:
        """The published steps, in order, and every other name that stands there."""
        ids, others = [], []
        for name in self.runtime.names():
            try:
                ids.append(RuntimeId.parse(name))
            except InvalidArgument:
                others.append(name)
        return sorted(ids), sorted(others)

    def close(self) -> None:
        """Let go. May be called twice."""
        self.folder.close()
        self.runtime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _opened(path: str | os.PathLike[str], *, create: bool) -> PrivateFolder:
    if create:
        with suppress(FileExistsError):
            return _created(path)
    return PrivateFolder.open(path)


def _check_inode(folder: PrivateFolder, inode: tuple[int, int] | None) -> None:
    """What stands at the path by now may be another one, and somebody else's."""
    facts = os.fstat(folder.fileno())
    if inode is not None and (facts.st_dev, facts.st_ino) != inode:
        raise NotPermitted(
            errno.EPERM, f"cannot use the state folder {folder.path!r}: another folder stands there than the one meant"
        )


def _created(path: str | os.PathLike[str]) -> PrivateFolder:
    try:
        return PrivateFolder.create(path)
    except SystemCallError as error:
        if error.errno == errno.EEXIST:
            raise FileExistsError from None
        raise


def _runtime_of(folder: PrivateFolder, *, create: bool) -> PrivateFolder:
    try:
        return folder.open_folder(RUNTIME_NAME)
    except AlreadyGone:
        if not create:
            raise
    try:
        return folder.create_folder(RUNTIME_NAME)
    except SystemCallError as error:
        if error.errno != errno.EEXIST:
            raise
    return folder.open_folder(RUNTIME_NAME)
