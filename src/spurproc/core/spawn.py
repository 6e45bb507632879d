"""Start a program: known to run, or known not to and why, within milliseconds.

Source: clone(2), execve(2), credentials(7). A plan that changes no credentials and cannot block is exec'd straight from a child in
shared memory; any other goes through the static program `spurproc-exec`, which reports each step on a socket.
"""

from __future__ import annotations

import enum
import errno
import os
import time
from _socket import socket, socketpair
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from spurproc.core._native import ffi, lib
from spurproc.core.containment import Containment
from spurproc.core.facilities import Facilities
from spurproc.core.identity import ProcessIdentity
from spurproc.core.pidfd import Pidfd
from spurproc.core.plan_layout import PlanFields, RecorderPart, pack_plan
from spurproc.core.program import program_fd
from spurproc.core.spawn_plan import SpawnPlan
from spurproc.core.spawn_resources import needs_program, null_open, raised, resolve
from spurproc.core.spawn_stage import SpawnStage
from spurproc.core.starting import Starting, failure

__all__ = ["ReapedBy", "Spawned", "begin", "spawn"]
