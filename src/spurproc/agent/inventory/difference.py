"""What has changed from one inventory to another, in words: for a log, and for the reason of a drain."""

from __future__ import annotations

from collections.abc import Iterator

from spurproc.agent.inventory.reading import Inventory

__all__ = ["differences"]


def differences(before: Inventory, after: Inventory) -> tuple[str, ...]:
    """One for each thing; none where both are equal."""
    return tuple(_differences(before, after))


def _differences(before: Inventory, after: Inventory) -> Iterator[str]:
    for verb, cpus in (
        ("vanished", set(before.cpus).difference(after.cpus)),
        ("appeared", set(after.cpus).difference(before.cpus)),
    ):
        if cpus:
            yield f"CPUs {','.join(map(str, sorted(cpus)))} {verb}"
    if before.memory_bytes != after.memory_bytes:
        yield f"memory {before.memory_bytes} -> {after.memory_bytes} bytes"
    yield from (f"GPU {' '.join(gpu.names)} vanished" for gpu in before.gpus if gpu not in after.gpus)
    yield from (f"GPU {' '.join(gpu.names)} appeared" for gpu in after.gpus if gpu not in before.gpus)
    for name in sorted({*before.generic, *after.generic}):
        counts = before.generic.get(name, 0), after.generic.get(name, 0)
        if counts[0] != counts[1]:
            yield f"{name} {counts[0]} -> {counts[1]}"
