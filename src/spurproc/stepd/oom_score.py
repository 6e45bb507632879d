"""Who dies last when memory runs out: supervisors and their host, and none of what they run. proc_pid_oom_score_adj(5)"""

from __future__ import annotations

from contextlib import suppress

__all__ = ["ordinary_oom_score_adj", "protect"]

_PATH = "/proc/self/oom_score_adj"
_PROTECTED = b"-999"
"""To end a supervisor frees a megabyte and loses an end. Not -1000: the kernel is to have a way out."""


def protect() -> None:
    """For this process and its forks, where that is permitted: it takes CAP_SYS_RESOURCE."""
    with suppress(OSError), open(_PATH, "wb", buffering=0) as file:
        file.write(_PROTECTED)


def ordinary_oom_score_adj() -> int | None:
    """For a child that is to have no protection of ours; None: to leave it alone, since to lower it is not everybody's right."""
    with open(_PATH, "rb") as file:
        return None if int(file.read()) > 0 else 0
