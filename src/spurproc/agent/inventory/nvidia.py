"""NVIDIA GPUs: those that the PCI bus has given to the driver, by the UUID that the driver tells for each."""

from __future__ import annotations

import re

from spurproc.agent.inventory.node_files import NodeFiles, Unreadable
from spurproc.agent.inventory.reading import Failed, Gpu, is_pci_address, is_uuid
from spurproc.command_line.escape import printable
from spurproc.errors import InvalidArgument

__all__ = ["read_nvidia"]

_DEVICES = "/sys/bus/pci/devices"
_TOLD = "/proc/driver/nvidia/gpus"
_VENDOR = "0x10de"
_DISPLAYS = ("0x0300", "0x0302")
"""VGA and 3D controllers: the first two bytes of the class. The sound function of a card has the vendor too."""


def read_nvidia(root: str) -> tuple[Gpu, ...] | Failed:
    """In the order of their addresses; none where no device is bound to the driver, or the driver excludes it.

    A GPU that vfio or nouveau has is nobody's to give. Failed where bus and driver do not agree: one of them is changing.
    Source: PCI/sysfs-pci.rst; the driver's README, "Using the /proc File System Interface".
    """
    try:
        return _gpus(NodeFiles(root))
    except (Unreadable, InvalidArgument) as error:
        return Failed(f"NVIDIA GPUs: {error}")


def _gpus(files: NodeFiles) -> tuple[Gpu, ...]:
    bound = {address for address in files.names(_DEVICES) or () if _is_bound(files, address)}
    told = set(files.names(_TOLD) or ())
    for address in sorted(bound ^ told):
        there, absent = (_DEVICES, _TOLD) if address in bound else (_TOLD, _DEVICES)
        raise Unreadable(f"{address} is in {there} and, for the driver nvidia, not in {absent}")
    gpus = [_gpu(files, address) for address in sorted(bound)]
    return tuple(gpu for gpu in gpus if gpu is not None)


def _is_bound(files: NodeFiles, address: str) -> bool:
    """Whether it is a GPU of the driver's; a virtual function of one is the hypervisor's business."""
    folder = f"{_DEVICES}/{address}"
    if not is_pci_address(address) or _id(files, f"{folder}/vendor", 4) != _VENDOR:
        return False
    if not _id(files, f"{folder}/class", 6).startswith(_DISPLAYS):
        return False
    return files.link_name(f"{folder}/driver") == "nvidia" and files.link_name(f"{folder}/physfn") is None


def _id(files: NodeFiles, path: str, digits: int) -> str:
    text = files.read(path).strip()
    if not re.fullmatch(rf"0x[0-9a-f]{{{digits}}}", text, re.ASCII):
        raise Unreadable(f"cannot read {path}: {text!r:.100} is no number of {digits} digits")
    return text


def _gpu(files: NodeFiles, address: str) -> Gpu | None:
    path = f"{_TOLD}/{address}/information"
    fields = _fields(files.read(path))
    if fields.get("Bus Location", "").lower() != address:
        raise Unreadable(f"cannot read {path}: Bus Location is {fields.get('Bus Location', '')!r:.100}")
    if "Yes" in (fields.get("GPU Excluded"), fields.get("Blacklisted")):  # the second was its name until R450
        return None
    uuid = fields.get("GPU UUID", "")
    if not is_uuid(uuid):
        raise Unreadable(
            f"cannot read {path}: GPU UUID is {uuid!r:.100}; the driver tells it once something has opened the GPU, "
            "nvidia-persistenced for one"
        )
    return Gpu(kind="nvidia", pci_address=address, uuid=uuid, model=printable(fields.get("Model", "")))


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
