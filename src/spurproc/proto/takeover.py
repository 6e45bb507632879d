"""What the next owner of a step's lock may conclude. The order counts, and so does that the lock is held."""

from __future__ import annotations

import enum

from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import SpurprocError
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.journal_record import History
from spurproc.proto.launch_record import LaunchRecord

__all__ = ["RESTARTED", "NotYours", "conclusion", "never_started"]

RESTARTED = "the machine was restarted before the end was recorded"
"""Why an end is unknown: of a step of an earlier boot."""


class NotYours(enum.Enum):
    """Nothing may be concluded yet; the value says what is waited for."""

    HOST_LIVES = "the host that forked its supervisor lives, and is the witness of its end"
    LEADER_LIVES = "its leader lives"
    UNSEEN = "whether its leader lives cannot be told from here"


def conclusion(
    launch: LaunchRecord,
    descriptor: Descriptor | None,
    history: History,
    boot_id: str,
    leader: Pidfd | None,
    *,
    by_host: bool = False,
) -> ExitInfo | NotYours:
    """How the step ended, as far as anybody will ever know. For the holder of the lock alone: some of it rests on what is absent.

    `leader`: held since before its end, where it is. `by_host`: the host that forked its supervisor asks, which is its witness.
    Where the end is recorded already that is the answer.
    """
    if history.end is not None:
        return history.end
    if launch.boot_id != boot_id:
        return ExitInfo.unknown(RESTARTED)
    if descriptor is None or descriptor.leader is None:
        return never_started("nobody supervises it, and no leader of it was at its gate")
    if not by_host and descriptor.host.liveness() is not Liveness.GONE:
        return NotYours.HOST_LIVES
    who = "its supervisor" if by_host else "its supervisor and host"
    return _end_of_leader(descriptor.leader, history, leader, who)


def _end_of_leader(identity: ProcessIdentity, history: History, leader: Pidfd | None, who: str) -> ExitInfo | NotYours:
    lives = identity.liveness() if leader is None else leader.liveness()
    if lives is not Liveness.GONE:
        return NotYours.LEADER_LIVES if lives is Liveness.ALIVE else NotYours.UNSEEN
    if history.gate_opening is None:
        return never_started("its supervisor ended before it opened the gate")
    if history.launched is None:
        return ExitInfo.unknown(f"{who} ended before it was known whether the leader was exec'd")
    seen = leader.exit_info() if leader is not None else _asked(identity)
    if seen.kind is ExitKind.UNKNOWN:
        return ExitInfo.unknown(f"{who} ended before the leader did; {seen.reason}")
    return seen


def never_started(reason: str) -> ExitInfo:
    """The gate was never opened, and why."""
    return ExitInfo.not_started(SpawnStage.GATE.name, 0, reason=reason)


def _asked(identity: ProcessIdentity) -> ExitInfo:
    """Of a zombie, where it may be read."""
    try:
        with identity.open() as zombie:
            return zombie.exit_info()
    except SpurprocError:
        return ExitInfo.unknown("it was reaped before anybody held it")
