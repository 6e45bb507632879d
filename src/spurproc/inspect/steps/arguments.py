"""The arguments that name a state folder and a step in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from spurproc.command_line.parameter import ParameterType
from spurproc.errors import InvalidArgument
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["STEP", "state_dir_argument", "step_argument"]


class _StateDirType(ParameterType[str]):
    name = "state_dir"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:  # which is the current folder, for who makes it absolute
            raise InvalidArgument("cannot read STATE_DIR '': not the path of a folder")
        return str(value)


class _StepType(ParameterType[RuntimeId]):
    name = "step"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> RuntimeId:
        return value if isinstance(value, RuntimeId) else RuntimeId.parse(str(value))


STEP = _StepType()
"""`<job>.<attempt>.<step>`; reserved steps by name: 7.1.batch."""

state_dir_argument: Callable[..., Any] = click.argument("state_dir", metavar="STATE_DIR", type=_StateDirType())
step_argument: Callable[..., Any] = click.argument("runtime_id", metavar="STEP", type=STEP)
