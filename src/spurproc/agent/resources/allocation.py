"""What an attempt got: exactly these CPUs, these GPUs, so much memory, so many of each generic resource. Made to be recorded."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spurproc.agent.inventory.reading import Gpu, check_cpus, check_generic, check_gpus, check_number
from spurproc.errors import InvalidArgument
from spurproc.proto.codec import decode, encode

__all__ = ["Allocation"]


class Allocation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By CPU number and by the address or UUID of a GPU, never by a position. Raises InvalidArgument, which names the field.

    A field that is not known is refused: it would be a claim of a later release, and nobody would hold it.
    """

    cpus: tuple[int, ...]
    memory_bytes: int = 0
    gpus: tuple[Gpu, ...] = ()
    generic: Mapping[str, int] = {}

    def __post_init__(self) -> None:
        if not self.cpus:
            raise InvalidArgument("cpus: there is none")
        check_cpus(self.cpus)
        check_number("memory_bytes", self.memory_bytes, least=0)
        check_gpus(self.gpus)
        check_generic(self.generic)

    def to_json(self) -> bytes:
        """As it stands in a database: one line."""
        return encode(self)

    @classmethod
    def from_json(cls, content: bytes, where: str) -> Allocation:
        """Undo `to_json`, strictly. Raises RecordInvalid, which names `where` and the field."""
        return decode(content, cls, where)
