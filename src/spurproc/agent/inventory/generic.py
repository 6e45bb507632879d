"""Generic resources, such as licences: nobody can read them off a machine, so they are configured."""

from __future__ import annotations

from collections.abc import Mapping

from spurproc.agent.inventory.reading import Failed, check_generic
from spurproc.errors import InvalidArgument

__all__ = ["read_generic"]


def read_generic(configured: Mapping[str, int]) -> Mapping[str, int] | Failed:
    """Names and counts; a count of 0 is none."""
    generic = {name: count for name, count in sorted(configured.items()) if type(count) is not int or count}
    try:
        check_generic(generic)
    except InvalidArgument as error:
        return Failed(f"generic resources: {error}")
    return generic
