"""The options that say what a job or a reservation asks for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from spurproc.agent.cli.arguments import COUNT, GENERIC, GPUS, SIZE, Gpus
from spurproc.agent.resources.request import ResourceRequest
from spurproc.errors import InvalidArgument

__all__ = ["resource_options"]

T = TypeVar("T")


def resource_options(function: Callable[..., T]) -> Callable[..., T]:
    """Gives a command these options, and what they come to as `request`."""

    @functools.wraps(function)
    def call(*args: Any, cpus: int, memory_bytes: int, gpus: Gpus, generic: tuple[tuple[str, int], ...], **kwargs: Any) -> T:
        counts = _counts(generic)
        request = ResourceRequest(cpus=cpus, memory_bytes=memory_bytes, gpus=gpus.count, gpu_kind=gpus.kind, generic=counts)
        return function(*args, request=request, **kwargs)

    for option in (
        click.option("--generic", type=GENERIC, multiple=True, metavar="NAME=N", help="N of another resource. May be repeated."),
        click.option("--gpus", type=GPUS, default="0", metavar="N[:KIND]", help="GPUs, of any kind or of one."),
        click.option("--memory", "memory_bytes", type=SIZE, default="0", metavar="SIZE", help="Memory: 512M, 8G, ..."),
        click.option("--cpus", type=COUNT, default="1", show_default=True, metavar="N", help="CPUs."),
    ):
        call = option(call)
    return call


def _counts(generic: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, count in generic:
        if name in counts:
            raise InvalidArgument(f"--generic: {name!r:.60} is given twice")
        counts[name] = count
    return counts
