"""The node's prolog and epilog: each a recorded run, so that neither a crash of the agent nor a restart runs one twice.

A folder `hooks/<job>.<attempt>.<name>` says that it was begun, its sentinel how it ended. One whose end nobody knows has failed.
Its time counts from its beginning, over all restarts of the agent.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from spurproc.agent import boot_clock
from spurproc.agent.attempts.lacking import is_lack
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.jobs.removal import remove_below
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.record import RUN_NAME
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.termination import KillPlan
from spurproc.core.vantage import read_boot_id
from spurproc.errors import AlreadyGone, RecordInvalid, SpawnError, SpurprocError, SystemCallError, WaitTimeout
from spurproc.proto.attempt_id import AttemptId

__all__ = [
    "HookName",
    "HookNotStarted",
    "HookPlan",
    "hook_begun",
    "hook_plan",
    "recorded_hooks",
    "remove_hooks",
    "run_hook",
    "sweep_hook",
]

_KILL = KillPlan(steps=((9, 10.0),))
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class HookName(enum.Enum):
    """Which one."""

    PROLOG = "prolog"
    EPILOG = "epilog"


class HookNotStarted(SystemCallError):
    """Nothing of it has run, and its program is not to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookPlan:
    """One that is to be run."""

    name: HookName
    attempt: AttemptId
    argv: tuple[str, ...]
    timeout_s: float
    env: Mapping[str, str]

    @property
    def folder_name(self) -> str:
        """In `hooks/`."""
        return _folder_name(self.attempt, self.name)


def hook_plan(
    around: Surroundings, name: HookName, attempt: AttemptId, *, spec: JobSpec, end: ExitInfo | None = None
) -> HookPlan:
    """As it is configured, with what it is told by its environment."""
    configuration = around.configuration
    prolog = name is HookName.PROLOG
    env = {
        "PATH": _PATH,
        "SPURD_HOOK": name.value,
        "SPURD_JOB_ID": str(attempt.job_id),
        "SPURD_RUN_ATTEMPT": str(attempt.run_attempt),
        "SPURD_NODE": configuration.node_name,
        "SPURD_JOB_NAME": spec.name,
        "SPURD_JOB_UID": str(spec.uid),
        "SPURD_JOB_USER": spec.user,
    }
    if end is not None:
        env["SPURD_JOB_END"] = str(end)
    return HookPlan(
        name=name,
        attempt=attempt,
        argv=configuration.prolog_argv if prolog else configuration.epilog_argv,
        timeout_s=configuration.prolog_timeout_s if prolog else configuration.epilog_timeout_s,
        env=env,
    )


def hook_begun(around: Surroundings, attempt: AttemptId, name: HookName) -> bool:
    """Whether its launch was begun, by whichever agent. Raises SystemCallError."""
    return around.state_dir.hooks.has(_folder_name(attempt, name))


async def run_hook(around: Surroundings, plan: HookPlan) -> str:
    """Run it, or wait for the one that was begun; nothing of it is left then. Why it failed; empty where it exited with 0.

    One whose launch an earlier agent did not survive, and of which it is recorded that nothing ran, is launched again; and so is
    a prolog of another boot.
    Raises OwnershipLost; HookNotStarted, where nothing has run, and not for the program's sake; and SystemCallError where it
    cannot be told whether the folder is still owned, or what the node lacks just now says nothing about the hook: said again,
    it goes on with the same.
    """
    try:
        failure = await _run(around, plan)
        return await _run(around, plan) or "" if failure is None else failure
    except SpurprocError as error:
        around.ownership.require()
        if is_lack(error) or isinstance(error, HookNotStarted):
            raise
        return str(error)


async def _run(around: Surroundings, plan: HookPlan) -> str | None:
    """None: it was never started, or has prepared the node as it was before a reboot; and its records are gone."""
    begun = around.state_dir.hooks.has(f"{plan.folder_name}/{RUN_NAME}")
    if not begun and not plan.argv:  # an agent before us had one
        return ""
    run = await around.blocking.run(_opened if begun else _launched, around, plan)
    with run:
        if begun and plan.name is HookName.PROLOG and run.record.boot_id != read_boot_id():
            await around.blocking.run(run.remove)
            return None
        around.hooks[plan.folder_name] = run
        try:
            end, failure = await _ended(around, plan, run)
        finally:
            del around.hooks[plan.folder_name]
        if begun and end is not None and end.kind is ExitKind.NOT_STARTED:
            await around.blocking.run(run.remove)
            return None
    return failure


def _opened(around: Surroundings, plan: HookPlan) -> RecordedRun:
    return RecordedRun.open(_path(around, plan.folder_name))


def _launched(around: Surroundings, plan: HookPlan) -> RecordedRun:
    """A failed launch leaves nothing. What one has left that was cut short before its run was published is cleared away."""
    around.ownership.require()
    spawned = SpawnPlan(argv=plan.argv, env=plan.env, cwd="/", oom_score_adj=0, limits=around.job_limits)
    try:
        return launch_recorded(spawned, _path(around, plan.folder_name))
    except SystemCallError as error:
        if isinstance(error, SpawnError) and not is_lack(error):
            raise
        raise HookNotStarted(error.errno or errno.EIO, f"cannot start the {plan.name.value}: {error}") from error


async def _ended(around: Surroundings, plan: HookPlan, run: RecordedRun) -> tuple[ExitInfo | None, str]:
    end = None
    try:
        end = await run.wait_async(_left_s(plan, run))
        failure = "" if end.succeeded else _failure(end)
    except WaitTimeout:
        failure = f"it was ended after {plan.timeout_s:g} s"
    left = await around.blocking.run(_emptied, run)
    return end, failure or left


def _left_s(plan: HookPlan, run: RecordedRun) -> float:
    """Of its time, which began with its first process, whichever agent saw that; one that nobody can date has all of it."""
    first = run.leader or run.recorder
    since_s = None if first is None else boot_clock.started_s(first)
    if since_s is None:
        return plan.timeout_s
    return min(max(0.0, plan.timeout_s - (boot_clock.boot_s() - since_s)), plan.timeout_s)


def _failure(end: ExitInfo) -> str:
    return f"nobody knows how it ended: {end.reason}" if end.kind is ExitKind.UNKNOWN else str(end)


def _emptied(run: RecordedRun) -> str:
    """Whatever it has left behind is ended. Why that cannot be proven; empty where it is."""
    try:
        report = run.terminate(_KILL)
    except AlreadyGone:
        return ""
    except SpurprocError as error:
        if is_lack(error):
            raise
        return f"whether all of it has ended is not known: {error}"
    names = "; ".join(map(str, report.survivors))
    return f"it cannot be ended: {names}" if names else ""


def remove_hooks(around: Surroundings, attempt: AttemptId) -> None:
    """The records of both, and their cgroups. Blocks. Raises Busy where something of one lives, SystemCallError and the like."""
    for name in HookName:
        folder_name = _folder_name(attempt, name)
        if around.state_dir.hooks.has(folder_name):
            _remove(around, folder_name)


def recorded_hooks(around: Surroundings) -> dict[AttemptId, set[HookName]]:
    """Those that have records. What else stands there is nobody's."""
    found: dict[AttemptId, set[HookName]] = {}
    for folder_name in around.state_dir.hooks.names():
        attempt, _, name = folder_name.rpartition(".")
        with suppress(ValueError):  # InvalidArgument is one
            found.setdefault(AttemptId.parse(attempt), set()).add(HookName(name))
    return found


def sweep_hook(around: Surroundings, attempt: AttemptId, name: HookName) -> None:
    """Remove the records of one that nobody waits for. Blocks. Raises Busy where it may run, RecordInvalid and the like.

    Nothing runs of one whose run was never published.
    """
    folder_name = _folder_name(attempt, name)
    if around.state_dir.hooks.has(f"{folder_name}/{RUN_NAME}"):
        with RecordedRun.open(_path(around, folder_name)) as run:
            run.remove()
    remove_below(around.state_dir.hooks, folder_name)


def _remove(around: Surroundings, folder_name: str) -> None:
    with suppress(AlreadyGone, RecordInvalid), RecordedRun.open(_path(around, folder_name)) as run:
        run.remove()
    remove_below(around.state_dir.hooks, folder_name)  # what was never published, or is being removed


def _path(around: Surroundings, folder_name: str) -> str:
    return f"{around.state_dir.hooks.path}/{folder_name}"


def _folder_name(attempt: AttemptId, name: HookName) -> str:
    return f"{attempt}.{name.value}"
