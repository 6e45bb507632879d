"""What an answer rests on, in words: one text for each word that the core uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spurproc.command_line.answer import Cell, Toned
from spurproc.core.cgroup.signal_report import Route
from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource
from spurproc.core.observation import Liveness, Observation
from spurproc.core.process.identity import IdentityStrength, ProcessIdentity
from spurproc.core.recorded.end import NotYet
from spurproc.core.tree.members import Containment
from spurproc.inspect.held import HeldFolder, HeldProcess
from spurproc.inspect.target import StepTarget

if TYPE_CHECKING:
    from spurproc.proto.descriptor import Descriptor

__all__ = [
    "CONTAINMENT",
    "EXIT_SOURCE",
    "NOT_YET",
    "ROUTE",
    "STRENGTH",
    "containment_fields",
    "containment_row",
    "exit_fields",
    "exit_rows",
    "identity_fields",
    "observation_fields",
    "observation_rows",
    "process_fields",
    "process_name",
    "process_rows",
    "run_fields",
    "run_rows",
    "step_containment_fields",
    "step_containment_rows",
    "step_fields",
    "step_rows",
]

STRENGTH = {
    IdentityStrength.PIDFS_INODE: "the inode of its pidfd, which no other process of this boot has or will have (Linux 6.9)",
    IdentityStrength.START_TICKS: "its start time: a number given again within one tick of 10 ms is not told apart",
}

CONTAINMENT = {
    Containment.CGROUP: "a cgroup of its own: members cannot leave it unless somebody with rights moves them",
    Containment.DESCENDANTS: "its recorder is a subreaper: all below it belong to the run, for as long as it lives",
    Containment.PROCESS_GROUP: "its process group and session alone: a member that calls setsid(2) is out",
}

_BELOW_SUPERVISOR = "all that descends from the supervisor that started it, a subreaper, for as long as that lives"
_WITHOUT_SUPERVISOR = "its supervisor has ended, which held it together: who calls setsid(2) and loses his parent is out"

EXIT_SOURCE = {
    ExitSource.WAITED: "the kernel, to its parent: waitid(2)",
    ExitSource.PIDFD: "the kernel's record of a reaped process, read through a pidfd (Linux 6.15)",
    ExitSource.RECORDED: "the record that the recorder of the run wrote before it reaped the leader",
    ExitSource.ZOMBIE: "the kernel: the status that a process shows until its parent reaps it",
    ExitSource.NONE: "nobody: it cannot be known",
}

ROUTE = {
    Route.CGROUP.name: "everybody listed in its cgroup and below, each confirmed as a member",
    Route.DESCENDANTS.name: "everybody below its subreaper",
    Route.PROCESS_GROUP.name: "the group and the session of its leader: who has left both was not found this way",
}
"""By the names that a SignalReport has in JSON."""

NOT_YET = {
    NotYet.RUNNING: "running",
    NotYet.LAUNCHING: "launching",
    NotYet.BEING_RECORDED: "being-recorded",
    NotYet.LOCK_HELD: "lock-held",
    NotYet.OUT_OF_SIGHT: "out-of-sight",
    NotYet.UNNAMED: "unnamed",
}
"""The `state` of an end that is not known yet; one that is has the state `ended`."""

_NOT_TRUSTED = "not trusted: the job could have written what this rests on"


def process_fields(held: HeldProcess) -> dict[str, Any]:
    """Which process it is, as JSON: `name` is what to call it by next time."""
    name = process_name(held.identity)
    return {"kind": "process", "name": name, "pid": held.identity.pid, "identity": identity_fields(held.identity)}


def process_name(identity: ProcessIdentity) -> str:
    """`PID:INODE`, which no other process answers to; `PID` where pidfds have no inodes."""
    return str(identity.pid) if identity.pidfs_inode is None else f"{identity.pid}:{identity.pidfs_inode}"


def process_rows(held: HeldProcess) -> list[tuple[str, Cell]]:
    """Which process it is, for people."""
    strength = held.identity.strength
    return [("process", process_name(held.identity)), ("strength", f"{strength.value}: {STRENGTH[strength]}")]


def run_fields(held: HeldFolder) -> dict[str, Any]:
    """Which run it is, as JSON."""
    return {"kind": "run", "folder": held.run.folder}


def run_rows(held: HeldFolder) -> list[tuple[str, Cell]]:
    """Which run it is, for people."""
    return [("run", held.run.folder)]


def step_fields(target: StepTarget) -> dict[str, Any]:
    """Which step it is, as JSON."""
    return {"kind": "step", "state_dir": target.state_dir, "step": str(target.runtime_id)}


def step_rows(target: StepTarget) -> list[tuple[str, Cell]]:
    """Which step it is, for people."""
    return [("step", str(target.runtime_id))]


def identity_fields(identity: ProcessIdentity) -> dict[str, Any]:
    """The identity as JSON, with its strength and what that is worth."""
    strength = identity.strength
    return identity.to_json() | {"strength": strength.value, "provenance": STRENGTH[strength]}


def observation_fields(seen: Observation) -> dict[str, Any]:
    """A liveness with its evidence, as JSON."""
    return {
        "liveness": seen.liveness.value,
        "evidence": seen.evidence,
        "provenance": seen.detail,
        "escaped": seen.escaped,
    }


def observation_rows(seen: Observation) -> list[tuple[str, Cell]]:
    """A liveness with its evidence, for people."""
    rows: list[tuple[str, Cell]] = [
        ("liveness", _liveness_cell(seen.liveness)),
        ("evidence", f"{seen.evidence}: {seen.detail}"),
    ]
    if seen.escaped:
        rows.append(("escaped", Toned("it lives outside of the cgroup that should hold it", "bad")))
    return rows


def containment_fields(containment: Containment) -> dict[str, Any]:
    """What holds it together, and how well, as JSON."""
    return {"kind": containment.value, "provenance": CONTAINMENT[containment]}


def containment_row(containment: Containment) -> tuple[str, Cell]:
    """What holds it together, and how well, for people."""
    return "containment", f"{containment.value}: {CONTAINMENT[containment]}"


def step_containment_fields(descriptor: Descriptor | None) -> dict[str, Any] | None:
    """What holds a step together, and how well, as JSON; None before its supervisor has said it."""
    if descriptor is None:
        return None
    return {"kind": descriptor.containment.value, "provenance": _step_containment(descriptor)}


def step_containment_rows(descriptor: Descriptor | None) -> list[tuple[str, Cell]]:
    """The same for people."""
    if descriptor is None:
        return []
    return [("containment", f"{descriptor.containment.value}: {_step_containment(descriptor)}")]


def _step_containment(descriptor: Descriptor) -> str:
    if descriptor.containment is not Containment.DESCENDANTS:
        return CONTAINMENT[descriptor.containment]
    return _WITHOUT_SUPERVISOR if descriptor.supervisor.liveness() is Liveness.GONE else _BELOW_SUPERVISOR


def _liveness_cell(liveness: Liveness) -> Cell:
    """In its colour."""
    match liveness:
        case Liveness.ALIVE:
            return Toned(liveness.value, "good")
        case Liveness.GONE:
            return Toned(liveness.value, "bad")
        case _:
            return Toned(liveness.value, "weak")


def exit_fields(info: ExitInfo) -> dict[str, Any]:
    """An end as JSON, in a sentence too, and who says so."""
    return info.to_json() | {"text": str(info), "provenance": EXIT_SOURCE[info.source]}


def exit_rows(info: ExitInfo) -> list[tuple[str, Cell]]:
    """An end for people."""
    tone: Any = "good" if info.succeeded else "weak" if info.kind is ExitKind.UNKNOWN else "bad"
    rows: list[tuple[str, Cell]] = [("exit", Toned(str(info), tone))]
    if info.kind is ExitKind.NOT_STARTED and info.reason:
        rows.append(("reason", info.reason))
    if info.interpreter is not None:
        rows.append(("interpreter", info.interpreter))
    rows.append(("source", f"{info.source.value}: {EXIT_SOURCE[info.source]}"))
    if not info.trusted:
        rows.append(("trusted", Toned(_NOT_TRUSTED, "weak")))
    if info.oom_kills:
        rows.append(("oom kills", Toned(str(info.oom_kills), "bad")))
    if info.usage is not None:
        usage = info.usage
        rows.append(
            ("usage", f"{usage.user_usec / 1e6:.3f} s user, {usage.system_usec / 1e6:.3f} s system, {_mib(usage.max_rss_bytes)}")
        )
    return rows


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB at most resident"
