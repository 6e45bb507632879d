"""What holds a process tree together."""

from __future__ import annotations

import enum

__all__ = ["Containment"]


class Containment(enum.Enum):
    """Strongest first. Always visible in what a launch returns, never silently weaker than asked for."""

    CGROUP = "cgroup"
    """A cgroup: nothing leaves it without privilege."""
    DESCENDANTS = "descendants"
    """The descendants of a subreaper: complete while it lives."""
    PROCESS_GROUP = "process-group"
    """The leader's process group: a setsid(2) leaves it."""
