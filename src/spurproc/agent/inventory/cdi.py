"""GPUs of vendors whose drivers nobody here can ask: from the specs of the Container Device Interface."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from spurproc.agent.inventory.cdi_spec import CdiDevice, read_cdi_devices
from spurproc.agent.inventory.node_files import NodeFiles, Unreadable
from spurproc.agent.inventory.reading import Failed, Gpu, is_pci_address, is_uuid
from spurproc.errors import InvalidArgument

__all__ = ["read_cdi"]

_RENDER_NODE = re.compile(r"/dev/dri/(renderD[0-9]+)", re.ASCII)
_LASTING = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+", re.ASCII)
"""How drivers write a UUID. Any other name of a spec, `0` or `gpu0`, may be a position."""


def read_cdi(root: str, except_vendors: Collection[str] = ()) -> tuple[Gpu, ...] | Failed:
    """In the order of their names. `except_vendors`: those whose driver is asked itself: a spec was written once, and may be old.

    A device with a file in /dev that is not there has vanished. One that has no UUID or PCI address, by its name or by its render
    node, makes the reading Failed: what is known by a position only becomes another one when a GPU comes or goes.
    """
    try:
        return _gpus(NodeFiles(root), except_vendors)
    except (Unreadable, InvalidArgument) as error:
        return Failed(f"GPUs of CDI: {error}")


def _gpus(files: NodeFiles, except_vendors: Collection[str]) -> tuple[Gpu, ...]:
    devices = [device for device in read_cdi_devices(files, "gpu") if device.vendor not in except_vendors]
    single = [device for device in devices if not _is_group(device, devices)]
    found: dict[str, Gpu] = {}
    for names in _by_nodes(single):
        if all(files.is_there(node) for node in names[0].nodes):
            gpu = _gpu(files, names)
            if str(gpu) in found:
                raise Unreadable(f"{names[0]} of {names[0].where} and another device are both {gpu}")
            found[str(gpu)] = gpu
    _raise_if_left_out(files, devices, {name for gpu in found.values() for name in gpu.names})
    return tuple(found[name] for name in sorted(found))


def _is_group(device: CdiDevice, devices: list[CdiDevice]) -> bool:
    """Such as `all`: what has the files of another and more is a name for several devices at once."""
    return any(other.kind == device.kind and other.nodes and other.nodes < device.nodes for other in devices)


def _raise_if_left_out(files: NodeFiles, devices: list[CdiDevice], told: Collection[str]) -> None:
    """What has a UUID or an address for its name is a device, and no name for several. A MIG device is a part of what is told."""
    for device in devices:
        lasts = is_pci_address(device.name.lower()) or (_is_lasting(device.name) and not device.name.startswith("MIG-"))
        if not lasts or not _is_group(device, devices) or not {device.name, device.name.lower()}.isdisjoint(told):
            continue
        if all(files.is_there(node) for node in device.nodes):
            raise Unreadable(f"{device} of {device.where} has the files of another device, and more: they cannot be told apart")


def _by_nodes(devices: Iterable[CdiDevice]) -> list[list[CdiDevice]]:
    """All names of one device together: those of one kind that have the same files."""
    together: dict[tuple[str, object], list[CdiDevice]] = {}
    for device in devices:
        together.setdefault((device.kind, device.nodes or device.name), []).append(device)
    return list(together.values())


def _gpu(files: NodeFiles, names: list[CdiDevice]) -> Gpu:
    addresses = {device.name.lower() for device in names if is_pci_address(device.name.lower())}
    addresses |= {address for node in names[0].nodes if (address := _address_of(files, node)) is not None}
    uuids = {device.name for device in names if _is_lasting(device.name)}
    if len(addresses) > 1 or len(uuids) > 1:
        raise Unreadable(f"{names[0]} of {names[0].where} is more than one device: {', '.join(sorted(addresses | uuids))}")
    if not addresses and not uuids:
        raise Unreadable(f"{names[0]} of {names[0].where} has no UUID, PCI address or render node: a position names no GPU")
    return Gpu(kind=names[0].kind, pci_address=next(iter(addresses), None), uuid=next(iter(uuids), None))


def _is_lasting(name: str) -> bool:
    return _LASTING.fullmatch(name) is not None and is_uuid(name)


def _address_of(files: NodeFiles, node: str) -> str | None:
    match = _RENDER_NODE.fullmatch(node)
    name = None if match is None else files.link_name(f"/sys/class/drm/{match[1]}/device")
    return name if name is not None and is_pci_address(name) else None
