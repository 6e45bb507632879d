"""One thing about this host: its value, what that means, and how it is known."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from typing import Any

__all__ = ["Finding", "Status", "read_text", "status_field"]

_LIMIT_BYTES = 65536


class Status(enum.Enum):
    """Whether it stands in the way."""

    OK = "ok"
    WEAKER = "weaker"
    """The work goes on in a weaker way, and what is returned shows that."""
    LIMIT = "limit"
    """A limit that is met sooner or later, or something that ends jobs from outside."""
    MISSING = "missing"
    """Needed: without it spurproc cannot do its work."""
    UNKNOWN = "unknown"
    """Cannot be read from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`value` is what was read, `meaning` a sentence for people, `source` the file or call that said so."""

    area: str
    name: str
    status: Status
    value: str
    meaning: str
    source: str

    def to_json(self) -> dict[str, Any]:
        """A plain dict."""
        return {name: getattr(self, name) for name in self.__slots__} | {"status": self.status.value}


def read_text(path: str) -> str | None:
    """The content of a small file without its last newline; None where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.fsdecode(os.read(fd, _LIMIT_BYTES)).rstrip("\n")
        finally:
            os.close(fd)
    except OSError:
        return None


def status_field(name: str) -> str | None:
    """A field of our own /proc/self/status."""
    text = read_text("/proc/self/status") or ""
    return next((line.partition(":")[2].strip() for line in text.split("\n") if line.startswith(f"{name}:")), None)
