"""AMD GPUs that can compute: the nodes of the kernel's KFD topology that are GPUs."""

from __future__ import annotations

from spurproc.agent.inventory.node_files import NodeFiles, Unreadable
from spurproc.agent.inventory.reading import Failed, Gpu
from spurproc.errors import InvalidArgument

__all__ = ["read_kfd"]

_DRIVER = "/sys/class/kfd/kfd"
_TOPOLOGY = f"{_DRIVER}/topology"
_NODES = f"{_TOPOLOGY}/nodes"


def read_kfd(root: str) -> tuple[Gpu, ...] | Failed:
    """In the order of their addresses; none where the driver is not there.

    A node that cannot be read may be a GPU, so it makes the reading Failed: to a process whose device cgroup excludes a GPU the
    kernel answers EPERM. So does a topology that changes meanwhile, and two nodes at one address, which are parts of one GPU.
    Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c, node_show(); the ROCm documentation, "KFD Topology".
    """
    try:
        return _gpus(NodeFiles(root))
    except (Unreadable, InvalidArgument) as error:
        return Failed(f"AMD GPUs: {error}")


def _gpus(files: NodeFiles) -> tuple[Gpu, ...]:
    before = files.read_if_there(f"{_TOPOLOGY}/generation_id")
    nodes = files.names(_NODES)
    if not nodes and files.is_there(_DRIVER):  # the CPU would be a node
        raise Unreadable(f"{_NODES} is {'not there' if nodes is None else 'empty'}, and the driver is there")
    gpus = {node: gpu for node in sorted(nodes or (), key=_number) if (gpu := _gpu(files, node)) is not None}
    if files.read_if_there(f"{_TOPOLOGY}/generation_id") != before:
        raise Unreadable(f"{_TOPOLOGY} has changed while it was read")
    _raise_if_parts(gpus)
    return tuple(sorted(gpus.values(), key=str))


def _number(node: str) -> int:
    if not (node.isascii() and node.isdigit()):
        raise Unreadable(f"cannot read {_NODES}/{node}: it is no node")
    return int(node)


def _gpu(files: NodeFiles, node: str) -> Gpu | None:
    """A CPU is a node too, with a gpu_id of 0."""
    gpu_id = _value(files.read(f"{_NODES}/{node}/gpu_id").strip(), f"{_NODES}/{node}/gpu_id")
    if not gpu_id:
        return None
    path = f"{_NODES}/{node}/properties"
    lines = ((*line.split(None, 1), "", "") for line in files.read(path).splitlines())
    properties = {name: value for name, value, *_ in lines}
    location = _value(properties.get("location_id", ""), f"{path}, location_id")
    domain = _value(properties.get("domain", "0"), f"{path}, domain")  # Linux 5.6 and newer
    unique_id = _value(properties.get("unique_id", "0"), f"{path}, unique_id")
    version = _value(properties.get("gfx_target_version", "0"), f"{path}, gfx_target_version")
    return Gpu(
        kind="amd",
        pci_address=f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}",
        uuid=f"GPU-{unique_id:016x}" if unique_id else None,
        model=f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else "",
    )


def _value(text: str, where: str) -> int:
    if not (text.isascii() and text.strip().isdigit() and len(text) <= 20):
        raise Unreadable(f"cannot read {where}: {text!r:.100} is no number")
    return int(text)


def _raise_if_parts(gpus: dict[str, Gpu]) -> None:
    seen: dict[str, str] = {}
    for node, gpu in gpus.items():
        for name in gpu.names:
            if name in seen:
                raise Unreadable(
                    f"{_NODES}/{seen[name]} and {_NODES}/{node} are both {name}: parts of a GPU cannot be told apart"
                )
            seen[name] = node
