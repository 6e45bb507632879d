"""The rungs of the ladder: the same test on this host as it is, and with facilities taken away."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from spurproc.core import facilities
from spurproc.core.facilities import MASK_VARIABLE, Facilities
from spurproc.core.process import identity
from tests import sandbox

_IN_A_PLAIN_RUN = [
    "",
    "pidfs_handle",
    "pidfs_inode",
    "pidfd_send_signal",
    "pidfs_inode,pidfd_send_signal",
    "pidfd_send_signal,pidfd_info",
    "pidfd_open",
    "pidfd_open,pidfd_send_signal",
    "waitid_pidfd",
    "pidfd_info",
    "pidfd_exit_info",
]
RUNGS = [""] if os.environ.get(MASK_VARIABLE) or sandbox.refused() else _IN_A_PLAIN_RUN
"""Masks. The empty one is the strongest rung that this run has: the only one of a run that stands on a lower rung itself."""


def probe_again() -> Facilities:
    """Facilities are probed once a process: in a child with a sandbox of its own, look again."""
    facilities._current = None
    identity.forget_reader()
    return Facilities.current()


def environment(mask: str = "") -> dict[str, str]:
    """For a new process without the facilities in `mask`, and without those that the run itself masks."""
    return os.environ | {MASK_VARIABLE: ",".join(filter(None, (mask, os.environ.get(MASK_VARIABLE, ""))))}


@contextmanager
def without(mask: str) -> Iterator[Facilities]:
    """This process without the facilities in `mask`, and without those that the run itself masks."""
    kept = Facilities.current()
    facilities._current = Facilities.probe(environment(mask)[MASK_VARIABLE])
    identity.forget_reader()
    try:
        yield facilities._current
    finally:
        facilities._current = kept
        identity.forget_reader()
