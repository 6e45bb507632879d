"""One reading of what a node has: all of it, or why it cannot be told. Never a smaller one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from spurproc.errors import InvalidArgument

__all__ = [
    "LAST_CPU",
    "MOST",
    "Failed",
    "Gpu",
    "Inventory",
    "Reading",
    "check_cpus",
    "check_generic",
    "check_gpus",
    "check_number",
    "is_pci_address",
    "is_uuid",
]

LAST_CPU = 2**16 - 1
"""No kernel is built for more CPUs (x86: NR_CPUS up to 8192); a larger id is damage."""
MOST = 2**63 - 1
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", re.ASCII)
_UUID = re.compile(r"[A-Za-z][A-Za-z0-9_./:=-]{3,127}", re.ASCII)  # a comma would make two of one in CUDA_VISIBLE_DEVICES
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,63}", re.ASCII)


class Gpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU, by what does not change when another one comes or goes. Raises InvalidArgument, which names the field.

    `kind`: the vendor's family, `nvidia` or `amd`, or what a CDI spec calls it. `pci_address` is the kernel's spelling, such as
    `0000:65:00.0`. `uuid` is what CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES take; None where the device has none.
    """

    kind: str
    pci_address: str | None = None
    uuid: str | None = None
    model: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.kind):
            raise InvalidArgument(f"kind: {self.kind!r:.100} is no name")
        if self.pci_address is not None and not is_pci_address(self.pci_address):
            raise InvalidArgument(f"pci_address: {self.pci_address!r:.100} is no PCI address")
        if self.uuid is not None and not is_uuid(self.uuid):
            raise InvalidArgument(f"uuid: {self.uuid!r:.100} is no UUID of a GPU")
        if self.pci_address is None and self.uuid is None:
            raise InvalidArgument("pci_address, uuid: a GPU has one of them, or both")

    @property
    def names(self) -> tuple[str, ...]:
        """What it is known by, the address first. Who shares one of them with another may be the same device."""
        return tuple(name for name in (self.pci_address, self.uuid) if name is not None)

    def __str__(self) -> str:
        return self.names[0]


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Things of a node by their names: all that it has, those that are free, or those that are missing. Made to be recorded.

    `cpus` are the kernel's numbers, ascending; `gpus` stand in the order of their names. Raises InvalidArgument.
    """

    cpus: tuple[int, ...] = ()
    memory_bytes: int = 0
    gpus: tuple[Gpu, ...] = ()
    generic: Mapping[str, int] = {}

    def __post_init__(self) -> None:
        check_cpus(self.cpus)
        check_number("memory_bytes", self.memory_bytes, least=0)
        check_gpus(self.gpus)
        check_generic(self.generic)


@dataclass(frozen=True, slots=True)
class Failed:
    """What was to be read cannot be told; `reason` names the file and why. The last good inventory stands."""

    reason: str


Reading = Inventory | Failed


def is_pci_address(text: str) -> bool:
    """Whether it is the kernel's spelling of one: domain, bus, device, function, in lower case."""
    return _PCI_ADDRESS.fullmatch(text) is not None


def is_uuid(text: str) -> bool:
    """Whether it may name a GPU for good. A number is a position, and no name."""
    return _UUID.fullmatch(text) is not None and not is_pci_address(text)


def check_number(field: str, value: int, *, least: int) -> None:
    """Raises InvalidArgument unless it is a whole number that a database holds."""
    if type(value) is not int or not least <= value <= MOST:  # a bool is an int, and no number of anything
        raise InvalidArgument(f"{field}: {_shown(value)} is not a number from {least} to {MOST}")


def check_cpus(cpus: tuple[int, ...]) -> None:
    """Raises InvalidArgument unless they are CPU numbers, ascending, each once."""
    for cpu in cpus:
        if type(cpu) is not int or not 0 <= cpu <= LAST_CPU:
            raise InvalidArgument(f"cpus: {_shown(cpu)} is not a number from 0 to {LAST_CPU}")
    for before, cpu in pairwise(cpus):
        if cpu <= before:
            raise InvalidArgument(f"cpus: {cpu} stands {'twice' if cpu == before else f'behind {before}'}")


def check_gpus(gpus: tuple[Gpu, ...]) -> None:
    """Raises InvalidArgument unless they stand in order and no two share an address or a UUID."""
    if list(gpus) != sorted(gpus, key=str):
        raise InvalidArgument("gpus: they do not stand in the order of their names")
    seen: set[str] = set()
    for name in (name for gpu in gpus for name in gpu.names):
        if name in seen:
            raise InvalidArgument(f"gpus: {name} stands twice")
        seen.add(name)


def check_generic(generic: Mapping[str, int]) -> None:
    """Raises InvalidArgument unless each has a name and a count of at least 1: none is said by leaving it out."""
    for name, count in generic.items():
        if not _NAME.fullmatch(name):
            raise InvalidArgument(f"generic: {name!r:.100} is no name")
        check_number(f"generic: {name}", count, least=1)


def _shown(value: object) -> str:
    """Python writes no int of thousands of digits; one of more than 64 bits is named by its size."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
