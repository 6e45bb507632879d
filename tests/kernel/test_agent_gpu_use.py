"""Who has the file of a GPU open, as the kernel tells it of processes in odd states."""

from __future__ import annotations

import os
from collections.abc import Callable

from spurproc.agent.inventory.occupancy import uses_of
from spurproc.core.process.identity import ProcessIdentity
from tests.payload import Payload

DEVICE = "/dev/null"
"""What every payload has for its standard input."""


def _users() -> list[int]:
    ticks = ProcessIdentity.of(os.getpid()).start_ticks
    return [use.pid for use in uses_of("/", [DEVICE], since_ticks=ticks, spared=())]


def test_a_process_whose_main_thread_has_ended_has_its_files_still(payload: Callable[..., Payload]) -> None:
    """LV-04: its own folder in /proc lists none then, and those of its threads do."""
    plain, threads = payload("hold"), payload("main_thread_exits")
    for one in (plain, threads):
        one.wait_ready()
    assert {plain.pid, threads.pid} <= {*_users()}
    threads.kill()
    threads.wait_exit()
    assert threads.pid not in _users()
    assert plain.pid in _users()
