"""What is remembered of a step beside its folder, in case that is removed: who runs it."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.vantage import read_boot_id
from spurproc.errors import RecordInvalid
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode
from spurproc.proto.descriptor import DESCRIPTOR_NAME, Descriptor
from spurproc.proto.runtime_id import BATCH_STEP

__all__ = ["Trace"]

_BOOT = b"boot "


@dataclass(frozen=True, slots=True)
class Trace:
    """How its tree can be found without its step folder: what a fence needs when that was removed.

    `content` is the descriptor as it was read: each live step has one, and hardly any is ever looked at. Where none could be
    read, in which boot it was launched.
    """

    content: bytes = b""

    @classmethod
    def of_this_boot(cls) -> Trace:
        """Of one of which nothing is known but that it was launched."""
        return cls(_BOOT + read_boot_id().encode())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known by which it could be found."""
        return not self.content or self.content.startswith(_BOOT)

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
    def host(self) -> ProcessIdentity | None:
        """Who is the witness of its end."""
        descriptor = self._read()
        return None if descriptor is None else descriptor.host

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

    def is_of(self, attempt: AttemptId) -> bool:
        """Whether it is its own: a folder that was copied names another one."""
        descriptor = self._read()
        return descriptor is not None and descriptor.runtime_id == attempt.step(BATCH_STEP)

    @property
    def is_gone(self) -> bool:
        """Whether nothing of its tree lives: by its cgroup and its leader, which may have been moved.

        Without a cgroup nobody can tell, before the next boot: what its leader has started may outlive that and the supervisor.
        """
        if self.content.startswith(_BOOT):
            return self.content != Trace.of_this_boot().content
        descriptor = self._read()
        if descriptor is not None and descriptor.cgroup is None:
            return descriptor.supervisor.boot_id != read_boot_id()
        return self.known_are_gone

    @property
    def known_are_gone(self) -> bool:
        """Whether nothing lives that it names. Without a cgroup something else may."""
        descriptor = self._read()
        if descriptor is None:
            return False
        leader = descriptor.leader
        known = [leader] if descriptor.cgroup is not None else [descriptor.supervisor, leader]
        if any(one is not None and one.liveness() is not Liveness.GONE for one in known):
            return False
        return descriptor.cgroup is None or descriptor.cgroup.observe().liveness is Liveness.GONE

    def _read(self) -> Descriptor | None:
        try:
            return None if self.is_empty else decode(self.content, Descriptor, DESCRIPTOR_NAME)
        except RecordInvalid:
            return None
