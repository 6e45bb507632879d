"""What a job asks for: how many of what. Which ones it gets, the table says."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spurproc.agent.inventory.reading import Gpu, check_generic, check_number
from spurproc.errors import InvalidArgument

__all__ = ["ResourceRequest"]


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Counts. Raises InvalidArgument, which names the field.

    `cpus` is at least 1: a job runs somewhere. `memory_bytes` of 0 reserves none. `gpu_kind`: only GPUs of this kind or model;
    None takes any. `generic` are the configured resources, such as licences, each with a count.
    """

    cpus: int = 1
    memory_bytes: int = 0
    gpus: int = 0
    gpu_kind: str | None = None
    generic: Mapping[str, int] = {}

    def __post_init__(self) -> None:
        check_number("cpus", self.cpus, least=1)
        check_number("memory_bytes", self.memory_bytes, least=0)
        check_number("gpus", self.gpus, least=0)
        if self.gpu_kind is not None and not self.gpus:
            raise InvalidArgument(f"gpu_kind: {self.gpu_kind!r:.100} is asked for, and no GPU")
        check_generic(self.generic)

    def takes(self, gpu: Gpu) -> bool:
        """Whether this GPU is of the kind that is asked for."""
        return self.gpu_kind is None or self.gpu_kind in (gpu.kind, gpu.model)
