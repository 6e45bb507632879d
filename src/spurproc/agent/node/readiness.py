"""`ready.json`: that an agent serves here, for who looks at the folder. Replaced at each heartbeat, only while it is owned."""

from __future__ import annotations

import os

import msgspec

from spurproc.agent.node.ownership import Ownership, OwnershipState
from spurproc.agent.node.state_dir import READY_NAME, StateDir
from spurproc.core.durable.private_folder import named_errors
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import AlreadyGone
from spurproc.proto.codec import Record, decode, encode, version_of

__all__ = ["Readiness", "ReadyRecord", "read_ready"]

_NEW_NAME = f".{READY_NAME}.new"
_LIMIT_BYTES = 1 << 16


class ReadyRecord(Record, frozen=True, kw_only=True):
    """What one heartbeat says. `heartbeat_at_s` and `started_at_s` are of the wall clock."""

    node_name: str
    identity_text: str = msgspec.field(name="identity")
    version: str
    socket: str
    started_at_s: float
    heartbeat_at_s: float
    heartbeat_interval_s: float
    registered: bool

    def __post_init__(self) -> None:
        ProcessIdentity.from_text(self.identity_text)

    @property
    def identity(self) -> ProcessIdentity:
        """Of the agent: whether that lives is what tells whether it serves."""
        return ProcessIdentity.from_text(self.identity_text)


class Readiness:
    """The file, written by the owner of the folder. Borrows both."""

    def __init__(self, state_dir: StateDir, ownership: Ownership) -> None:
        self._folder = state_dir.folder
        self._ownership = ownership

    def publish(self, record: ReadyRecord) -> OwnershipState:
        """Replace the file whole, if the folder is still owned: the last look is right before the rename. Not fsynced.

        A folder that is removed after that look takes nothing: the rename goes through the held descriptor, for which it stays
        removed. Then, too, the answer is that it is lost. Raises SystemCallError, where it cannot be told or the disk is full.
        """
        if self._ownership.check() is not OwnershipState.HELD:
            return self._ownership.check()
        try:
            self._replace(encode(record))
        except AlreadyGone:
            if self._ownership.check() is OwnershipState.HELD:
                raise
        return self._ownership.check()

    def withdraw(self) -> None:
        """Remove the file: nobody serves here any more. One of somebody else, in a folder that was lost, is left alone."""
        if self._ownership.check() is OwnershipState.HELD:
            self._folder.discard_file(_NEW_NAME)
            self._folder.discard_file(READY_NAME)

    def _replace(self, content: bytes) -> None:
        self._folder.discard_file(_NEW_NAME)  # of an agent that was killed in here
        os.close(self._folder.create_file(_NEW_NAME, content))
        if self._ownership.check() is not OwnershipState.HELD:
            self._folder.discard_file(_NEW_NAME)
            return
        with named_errors("replace", f"{self._folder.path}/{READY_NAME}"):
            os.rename(_NEW_NAME, READY_NAME, src_dir_fd=self._folder.fileno(), dst_dir_fd=self._folder.fileno())


def read_ready(state_dir: StateDir) -> ReadyRecord | None:
    """What the last heartbeat said; None where nobody has said anything. Raises RecordInvalid, NotPermitted."""
    try:
        content = state_dir.folder.read_file(READY_NAME, _LIMIT_BYTES)
    except AlreadyGone:
        return None
    where = f"{state_dir.path}/{READY_NAME}"
    version_of(content, where)
    return decode(content, ReadyRecord, where)
