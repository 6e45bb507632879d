"""What a supervisor gives up once its leader runs: every capability but those for signalling and for cleaning up."""

from __future__ import annotations

import prctl

__all__ = ["lower"]

_KEPT = (prctl.CAP_KILL, prctl.CAP_DAC_OVERRIDE, prctl.CAP_DAC_READ_SEARCH, prctl.CAP_SYS_PTRACE)
"""To signal other users' processes; to remove what they made; to tell by their handle and by /proc who they are."""
_LOST = [capability for capability in prctl.ALL_CAPS if capability not in _KEPT]


def lower() -> None:
    """What is not there is not taken. What it execs later as root, its hooks, is whole again: the bounding set stays.

    Source: capabilities(7), "Transformation of capabilities during execve()".
    """
    prctl.set_caps((_LOST, (prctl.CAP_EFFECTIVE, prctl.CAP_PERMITTED), False))
