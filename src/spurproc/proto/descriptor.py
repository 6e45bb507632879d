"""`descriptor.json`: who runs a step. Written by the holder of the step's lock, replaced whole, not fsynced.

It dies with the boot, as the processes that it names do.
"""

from __future__ import annotations

import msgspec

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.members import Containment
from spurproc.proto.codec import Record
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["DESCRIPTOR_LIMIT_BYTES", "DESCRIPTOR_NAME", "Descriptor"]

DESCRIPTOR_NAME = "descriptor.json"
DESCRIPTOR_LIMIT_BYTES = 1 << 16


class Descriptor(Record, frozen=True, kw_only=True):
    """Identities as their text; `supervisor`, `host` and `leader` read them.

    `host_text`: of the host that forked the supervisor, which is the witness of the leader's end. `leader_text` is None until the
    leader stands at its gate, handed over to the host: without it the gate was never opened. `joined`: the cgroup has had the
    leader in it; before that, an empty cgroup says nothing. `containment`: by descendants only while they are this supervisor's,
    which those of one before it are not. `not_enforced`: the files of limits that were asked for and hold nobody ("memory.max").
    """

    runtime_id: RuntimeId
    supervisor_text: str = msgspec.field(name="supervisor")
    host_text: str = msgspec.field(name="host")
    containment: Containment
    cgroup: CgroupRecord | None = None
    joined: bool = False
    leader_text: str | None = msgspec.field(name="leader", default=None)
    not_enforced: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for text in (self.supervisor_text, self.host_text, self.leader_text):
            if text is not None:
                ProcessIdentity.from_text(text)

    @property
    def supervisor(self) -> ProcessIdentity:
        """The supervisor's identity."""
        return ProcessIdentity.from_text(self.supervisor_text)

    @property
    def host(self) -> ProcessIdentity:
        """The identity of the host that forked it."""
        return ProcessIdentity.from_text(self.host_text)

    @property
    def leader(self) -> ProcessIdentity | None:
        """The leader's identity, once there is one."""
        return None if self.leader_text is None else ProcessIdentity.from_text(self.leader_text)
