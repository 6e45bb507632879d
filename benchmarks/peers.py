"""What is compared with and may not be here."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def pidfd_package() -> Any:
    """The PyPI package `pidfd`, whose types are not asked for where it is not installed; None there."""
    try:
        return import_module("pidfd")
    except ImportError:
        return None
