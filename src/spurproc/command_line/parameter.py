"""click's type of a parameter, which can be subscripted only in its newest versions: here it always can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

__all__ = ["ParameterType"]

if TYPE_CHECKING:
    from click import ParamType as ParameterType
else:

    class ParameterType(click.ParamType):
        """ParameterType[X] is itself."""

        def __class_getitem__(cls, _parsed: object) -> type[ParameterType]:
            return cls
