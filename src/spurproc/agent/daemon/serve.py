"""`spurd serve`: owns the state folder, looks whether it may serve from there, and lives until it is told to end."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from spurproc.agent.configuration.loading import LoadedConfiguration, Source
from spurproc.agent.daemon.agent import Agent, Parts
from spurproc.agent.log import open_log
from spurproc.agent.node.exit_codes import ExitCode
from spurproc.agent.node.ownership import Ownership
from spurproc.agent.node.quarantine import review_quarantine
from spurproc.agent.node.running_unit import UnitVerdict, find_running_unit
from spurproc.agent.node.state_dir import StateDir
from spurproc.agent.node.storage import storage_warning
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.errors import AlreadyOwned, SpurprocError

__all__ = ["serve"]


def serve(loaded: LoadedConfiguration, parts: Parts | None = None) -> int:
    """Serve until SIGTERM or SIGINT. The exit code; what it means stands in `ExitCode`."""
    _hear_signals()
    configuration = loaded.configuration
    log = open_log(configuration.log_level, configuration.log_format)
    for warning in loaded.warnings:
        log.warning(warning)
    try:
        parents = loaded.origins["state_dir"].source is Source.DEFAULT
        with StateDir.open(configuration.state_dir, parents=parents) as state_dir, Ownership.take(state_dir) as ownership:
            return _serve_owned(Agent(configuration, state_dir, ownership, log, parts or Parts()))
    except AlreadyOwned as error:
        log.error("cannot start", why=str(error), owner=error.owner)  # noqa: TRY400 - no traceback for a fact
    except SpurprocError as error:
        log.error("cannot go on", why=str(error))  # noqa: TRY400
    return ExitCode.FAILED


def _hear_signals() -> None:
    """Whoever started us may have blocked SIGTERM, and ignored SIGCHLD, with which the kernel loses the ends of children."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _serve_owned(agent: Agent) -> int:
    if _is_quarantined(agent.state_dir, agent.log):
        return ExitCode.QUARANTINED
    storage = storage_warning(agent.state_dir.folder)
    if storage:
        agent.log.warning(storage)
        agent.problems["storage"] = storage
    unit = find_running_unit(find_cgroup_root())
    if unit.verdict in (UnitVerdict.KILLS, UnitVerdict.UNKNOWN):
        agent.log.warning(unit.sentence, unit=unit.unit)
        agent.problems["unit"] = unit.sentence
    return asyncio.run(agent.run())


def _is_quarantined(state_dir: StateDir, log: Any) -> bool:
    review = review_quarantine(state_dir)
    for sentence in review.remaining:
        log.error("quarantined", why=sentence)
    if review.cleared:
        log.info("the quarantine is over: all of it is gone")
    return review.quarantined
