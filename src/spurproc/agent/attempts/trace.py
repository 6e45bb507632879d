"""What is remembered of a step beside its folder, in case that is removed: who runs it."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import RecordInvalid
from spurproc.proto.codec import decode
from spurproc.proto.descriptor import DESCRIPTOR_NAME, Descriptor

__all__ = ["Trace"]


@dataclass(frozen=True, slots=True)
class Trace:
    """How its tree can be found without its step folder: what a fence needs when that was removed.

    `content` is the descriptor as it was read: each live step has one, and hardly any is ever looked at.
    """

    content: bytes = b""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not self.content

    @property
    def cgroup(self) -> CgroupRecord | None:
        """Where its tree is."""
        descriptor = self._read()
        return None if descriptor is None else descriptor.cgroup

    @property
    def supervisor(self) -> ProcessIdentity | None:
        """Who supervises it."""
        descriptor = self._read()
        return None if descriptor is None else descriptor.supervisor

    @property
    def leader(self) -> ProcessIdentity | None:
        """What was exec'd for it."""
        descriptor = self._read()
        return None if descriptor is None else descriptor.leader

    @property
    def not_enforced(self) -> tuple[str, ...]:
        """The files of the limits that it was to be held to, and is not."""
        descriptor = self._read()
        return () if descriptor is None else descriptor.not_enforced

    def _read(self) -> Descriptor | None:
        try:
            return decode(self.content, Descriptor, DESCRIPTOR_NAME) if self.content else None
        except RecordInvalid:
            return None
