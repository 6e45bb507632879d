"""The specs of the Container Device Interface on this node, and the devices in them: JSON, and YAML where PyYAML is installed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from spurproc.agent.inventory.node_files import NodeFiles, Unreadable

__all__ = ["CdiDevice", "find_cdi_devices", "read_cdi_devices"]

_FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""What stands in a later one replaces a device of the same name."""
_JSON, _YAML = (".json",), (".yaml", ".yml")
_VERSION = re.compile(r"v?[01]\.[0-9]+\.[0-9]+", re.ASCII)
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiDevice:
    """One device of a spec: `kind` is `vendor/class`; `nodes` are the files of it in /dev, on the host."""

    kind: str
    name: str
    nodes: frozenset[str]
    where: str

    @property
    def vendor(self) -> str:
        """Whose it is, such as `nvidia.com`."""
        return self.kind.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.kind}={self.name}"


_Path = Annotated[str, msgspec.Meta(pattern=r"^/[^\0\ud800-\udfff]*$")]
_MaybePath = Annotated[str, msgspec.Meta(pattern=r"^(/[^\0\ud800-\udfff]*)?$")]


class _Node(msgspec.Struct, rename="camel", kw_only=True):
    path: _Path
    host_path: _MaybePath = ""


class _Edits(msgspec.Struct, rename="camel", kw_only=True):
    device_nodes: list[_Node] | None = None


class _Device(msgspec.Struct, rename="camel", kw_only=True):
    name: str
    container_edits: _Edits


class _Spec(msgspec.Struct, rename="camel", kw_only=True):
    cdi_version: str
    kind: str
    devices: list[_Device]


def read_cdi_devices(files: NodeFiles, device_class: str) -> tuple[CdiDevice, ...]:
    """Those of `device_class`, in the order of their names. Raises Unreadable for any spec that cannot be read.

    Source: the Container Device Interface specification, "CDI JSON Specification" and "Error Handling".
    """
    devices, unread = find_cdi_devices(files, device_class)
    if unread:
        raise unread[0]
    return devices


def find_cdi_devices(files: NodeFiles, device_class: str) -> tuple[tuple[CdiDevice, ...], tuple[Unreadable, ...]]:
    """As `read_cdi_devices`, of those specs that can be read; and why others cannot, which may have any device in them."""
    devices: dict[str, CdiDevice] = {}
    unread: list[Unreadable] = []
    for folder in _FOLDERS:
        here: dict[str, CdiDevice] = {}
        for path in _specs(files, folder, unread):
            try:
                _add(here, _devices_of(_spec(files, path), path))
            except Unreadable as error:
                unread.append(error)
        devices |= here
    found = (devices[name] for name in sorted(devices) if devices[name].kind.endswith(f"/{device_class}"))
    return tuple(found), tuple(unread)


def _specs(files: NodeFiles, folder: str, unread: list[Unreadable]) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in files.names(folder) or () if name.endswith(_JSON + _YAML)]
    except Unreadable as error:
        unread.append(error)
        return []


def _add(here: dict[str, CdiDevice], devices: list[CdiDevice]) -> None:
    for device in devices:
        other = here.setdefault(str(device), device)
        if other is not device:
            raise Unreadable(f"cannot tell which {device} is meant: {other.where} and {device.where} have one")


def _spec(files: NodeFiles, path: str) -> _Spec:
    text = files.read(path)
    try:
        content = _json(text) if path.endswith(_JSON) else _yaml(text, path)
        spec = msgspec.convert(content, _Spec)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"cannot read {path}: {error}") from None
    if not _VERSION.fullmatch(spec.cdi_version):
        raise Unreadable(f"cannot read {path}: cdiVersion {spec.cdi_version!r:.100} is none that is known")
    if not _KIND.fullmatch(spec.kind):
        raise Unreadable(f"cannot read {path}: kind {spec.kind!r:.100} is not vendor/class")
    return spec


def _json(text: str) -> Any:
    return json.loads(text.encode("utf-8", "surrogateescape").decode(), object_pairs_hook=_each_once)


def _each_once(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """As a dict. Raises ValueError for a key that stands twice: the devices of the first one would be left out."""
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r:.100} stands twice")
        found[key] = value
    return found


def _yaml(text: str, path: str) -> Any:
    """As long as it is not read, it may have any device in it."""
    try:
        import yaml  # noqa: PLC0415  # on a node without such a spec it is not needed
    except ImportError:
        raise Unreadable(f"cannot read {path}: the package 'pyyaml' is missing: pip install 'spurproc[agent]'") from None

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
            """As it is written: once it is constructed, what it merges stands in it beside what it has instead of that."""
            node: yaml.MappingNode = super().compose_mapping_node(anchor)
            _each_once((key.value, value) for key, value in node.value)
            return node

    try:
        return yaml.load(text, Loader)  # noqa: S506 - it is a SafeLoader
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # of odd dates, of tags
        raise Unreadable(f"cannot read {path}: {' '.join(str(error).split())}") from None


def _devices_of(spec: _Spec, where: str) -> list[CdiDevice]:
    return [
        CdiDevice(
            kind=spec.kind,
            name=device.name,
            nodes=frozenset(node.host_path or node.path for node in device.container_edits.device_nodes or ()),
            where=where,
        )
        for device in spec.devices
    ]
