"""Who has a GPU open that nobody should have any more: whatever a job has left behind, wherever that has gone to."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from spurproc.agent.inventory.cdi_spec import find_cdi_devices
from spurproc.agent.inventory.node_files import NodeFiles
from spurproc.agent.inventory.reading import Gpu
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import SpurprocError

__all__ = ["Use", "device_files", "uses_of"]

_MINOR = re.compile(r"^Device Minor:[ \t]*([0-9]{1,5})[ \t]*$", re.ASCII | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A process that has a file of a GPU open."""

    pid: int
    name: str
    path: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name}) has {self.path} open"


def device_files(root: str, gpu: Gpu) -> tuple[str, ...]:
    """Its own files in /dev, as the node has them now: a minor number is another GPU's as soon as one comes or goes.

    None of one that is not there. Raises Unreadable where they cannot be told: what is not known may be in use. A spec that
    cannot be read hides no GPU of which something else tells. Source: the driver's README, "Using the /proc File System
    Interface"; gpu/drm-uapi.rst, "Render nodes".
    """
    files = NodeFiles(root)
    named, unread = find_cdi_devices(files, "gpu")
    of_cdi = (node for device in named if not {device.name, device.name.lower()}.isdisjoint(gpu.names) for node in device.nodes)
    found = {*_of_nvidia(files, gpu), *_of_drm(files, gpu), *of_cdi}
    if unread and not found:
        raise unread[0]
    return tuple(sorted(found))


def _of_nvidia(files: NodeFiles, gpu: Gpu) -> Iterator[str]:
    told = files.read_if_there(f"/proc/driver/nvidia/gpus/{gpu.pci_address}/information") if gpu.pci_address else None
    match = _MINOR.search(told or "")
    if match is not None:
        yield f"/dev/nvidia{match[1]}"


def _of_drm(files: NodeFiles, gpu: Gpu) -> Iterator[str]:
    names = files.names(f"/sys/bus/pci/devices/{gpu.pci_address}/drm") if gpu.pci_address else None
    yield from (f"/dev/dri/{name}" for name in names or () if name.startswith(("card", "renderD")))


def uses_of(root: str, paths: Collection[str], *, since_ticks: int, spared: Collection[str]) -> tuple[Use, ...]:
    """Who has one of these files open, by whatever name, and was started at or after `since_ticks`. Blocks for /proc.

    What has been there for longer is no remnant: a daemon that keeps the GPU awake, a display. `spared`: names of cgroups whose
    processes have a right of their own to what they do. Processes that we may not look into are not seen. Raises OSError where we
    cannot look at all.
    """
    wanted = {key: path for path in paths if (key := _key(f"{root.rstrip('/')}{path}")) is not None}
    return tuple(_uses(wanted, since_ticks, spared)) if wanted else ()


def _uses(wanted: dict[tuple[int, int], str], since_ticks: int, spared: Collection[str]) -> Iterator[Use]:
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        path = _open_in(pid, wanted)
        if path is None or _is_spared(pid, spared):
            continue
        try:
            if ProcessIdentity.of(pid).start_ticks >= since_ticks:
                yield Use(pid=pid, name=_name(pid), path=path)
        except SpurprocError:
            continue  # it has ended


def _open_in(pid: int, wanted: dict[tuple[int, int], str]) -> str | None:
    keys = (_key(path) for path in _descriptors(pid))
    return next((wanted[key] for key in keys if key is not None and key in wanted), None)


def _descriptors(pid: int) -> list[str]:
    """Once its main thread has ended, only those that go on show them."""
    if own := _below(f"/proc/{pid}/fd"):
        return own
    return [path for task in _below(f"/proc/{pid}/task") for path in _below(f"{task}/fd")]


def _below(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError as error:
        _raise_if_lacking(error)
        return []


def _key(path: str) -> tuple[int, int] | None:
    """Of a device its number, whatever the name; the first part tells it from a file. O_PATH: nothing is opened or waited for."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        _raise_if_lacking(error)
        return None
    try:
        facts = os.fstat(fd)
    finally:
        os.close(fd)
    return (-1, facts.st_rdev) if stat.S_ISCHR(facts.st_mode) else (facts.st_dev, facts.st_ino)


def _raise_if_lacking(error: OSError) -> None:
    """What we lack ourselves says nothing about what was to be looked at."""
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        raise error


def _is_spared(pid: int, spared: Collection[str]) -> bool:
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            parts = file.read().decode("utf-8", "surrogateescape").replace("\n", "/").split("/")
    except OSError:
        return False
    return not set(parts).isdisjoint(spared)


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return ascii(file.read().decode("utf-8", "replace").rstrip("\n"))[1:-1]
    except OSError:
        return "?"
