"""What is compared with and may not be here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from spurproc.core.facilities import Facilities


def pidfd_package() -> Any:
    """The PyPI package `pidfd`, whose types are not asked for where it is not installed; None there."""
    try:
        return import_module("pidfd")
    except ImportError:
        return None


def lacking(*facilities: str) -> str:
    """What a bare loop needs and this kernel lacks, as a reason; empty where it has all. Ours goes another way there."""
    here = Facilities.current()
    missing = [name for name in facilities if not getattr(here, name)]
    return f"this kernel lacks {', '.join(missing)}" if missing else ""
