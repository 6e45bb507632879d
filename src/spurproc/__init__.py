"""Process supervision for Linux that does not lie.

- `run(argv, ...)`: like subprocess.run, for a whole tree.
- `launch_recorded(plan, folder)`: a run that outlives its launcher; `RecordedRun.open(folder)` finds it again.
- `launch(spec, state_dir)`: a step with a supervisor that outlives its launcher; `adopt(state_dir)` finds all of them again.
- `spawn(plan)`: start one program, as a child or detached.
- `ProcessIdentity`, `Pidfd`, `Cgroup`: name a process for good, hold it, hold its cgroup.
- `signal_tree`, `terminate_tree`: reach all of a tree and nothing else.
- `tree_liveness`, `liveness_many`: ALIVE, GONE or UNKNOWN.
"""

from __future__ import annotations

from importlib import import_module as _import_module

from spurproc.errors import (
    AlreadyGone,
    AlreadyOwned,
    Busy,
    ConfigurationInvalid,
    ExitUnknown,
    IdentityUnreadable,
    InvalidArgument,
    KernelTooOld,
    LaunchedBefore,
    NotCgroup2,
    NotPermitted,
    NotStarted,
    OwnershipLost,
    ProcessFailed,
    RecordInvalid,
    RecordTooNew,
    RunTimeout,
    RunUnproven,
    SentinelRefused,
    SignalRefused,
    SpawnError,
    SpurprocError,
    SystemCallError,
    Unsupported,
    WaitTimeout,
)

TYPE_CHECKING = False  # known to type checkers by its name; `typing` takes four times as long to load as all that is loaded here
if TYPE_CHECKING:
    from spurproc.client.act import StepAct
    from spurproc.client.adoption import Adoption, RefusedFolder, adopt
    from spurproc.client.collection import GcReport, KeptFolder, gc
    from spurproc.client.journal_event import EventKind, JournalEvent
    from spurproc.client.launch import launch
    from spurproc.client.spec import StepSpec
    from spurproc.client.status import StepStatus
    from spurproc.client.step import Step
    from spurproc.core.cgroup.cgroup import Cgroup
    from spurproc.core.cgroup.limits import CgroupLimits
    from spurproc.core.cgroup.record import CgroupRecord
    from spurproc.core.cgroup.signal_report import Refusal, RefusalReason, Route, SignalReport
    from spurproc.core.command.run import RunResult, run
    from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource, ResourceUsage
    from spurproc.core.facilities import Facilities
    from spurproc.core.observation import Liveness, Observation
    from spurproc.core.process.identity import IdentityStrength, ProcessIdentity
    from spurproc.core.process.pidfd import Pidfd
    from spurproc.core.recorded.launch import launch_recorded
    from spurproc.core.recorded.run import RecordedRun
    from spurproc.core.recorded.sentinel import read_sentinel
    from spurproc.core.spawn.plan import SpawnPlan
    from spurproc.core.spawn.spawn import ReapedBy, Spawned, spawn
    from spurproc.core.spawn.stage import SpawnStage
    from spurproc.core.tree.leader import Leader
    from spurproc.core.tree.liveness import liveness_many, tree_liveness
    from spurproc.core.tree.members import Containment, ProcessTree
    from spurproc.core.tree.signalling import signal_tree
    from spurproc.core.tree.termination import KillPlan, Proof, Survivor, TerminationReport, terminate_tree
    from spurproc.proto.launch_record import Hook
    from spurproc.proto.owed import Owed
    from spurproc.proto.runtime_id import RuntimeId
    from spurproc.proto.step_state import StepState

__all__ = [
    "Adoption",
    "AlreadyGone",
    "AlreadyOwned",
    "Busy",
    "Cgroup",
    "CgroupLimits",
    "CgroupRecord",
    "ConfigurationInvalid",
    "Containment",
    "EventKind",
    "ExitInfo",
    "ExitKind",
    "ExitSource",
    "ExitUnknown",
    "Facilities",
    "GcReport",
    "Hook",
    "IdentityStrength",
    "IdentityUnreadable",
    "InvalidArgument",
    "JournalEvent",
    "KeptFolder",
    "KernelTooOld",
    "KillPlan",
    "LaunchedBefore",
    "Leader",
    "Liveness",
    "NotCgroup2",
    "NotPermitted",
    "NotStarted",
    "Observation",
    "Owed",
    "OwnershipLost",
    "Pidfd",
    "ProcessFailed",
    "ProcessIdentity",
    "ProcessTree",
    "Proof",
    "ReapedBy",
    "RecordInvalid",
    "RecordTooNew",
    "RecordedRun",
    "Refusal",
    "RefusalReason",
    "RefusedFolder",
    "ResourceUsage",
    "Route",
    "RunResult",
    "RunTimeout",
    "RunUnproven",
    "RuntimeId",
    "SentinelRefused",
    "SignalRefused",
    "SignalReport",
    "SpawnError",
    "SpawnPlan",
    "SpawnStage",
    "Spawned",
    "SpurprocError",
    "Step",
    "StepAct",
    "StepSpec",
    "StepState",
    "StepStatus",
    "Survivor",
    "SystemCallError",
    "TerminationReport",
    "Unsupported",
    "WaitTimeout",
    "adopt",
    "gc",
    "launch",
    "launch_recorded",
    "liveness_many",
    "read_sentinel",
    "run",
    "signal_tree",
    "spawn",
    "terminate_tree",
    "tree_liveness",
]

# Where each name stands, looked up at its first use: a program pays for what it uses, and a supervisor that is forked hundreds of
# times carries nothing else.
_HOMES = {
    "client.act": ("StepAct",),
    "client.adoption": ("Adoption", "RefusedFolder", "adopt"),
    "client.collection": ("GcReport", "KeptFolder", "gc"),
    "client.journal_event": ("EventKind", "JournalEvent"),
    "client.launch": ("launch",),
    "client.spec": ("StepSpec",),
    "client.status": ("StepStatus",),
    "client.step": ("Step",),
    "core.cgroup.cgroup": ("Cgroup",),
    "core.cgroup.limits": ("CgroupLimits",),
    "core.cgroup.record": ("CgroupRecord",),
    "core.cgroup.signal_report": ("Refusal", "RefusalReason", "Route", "SignalReport"),
    "core.command.run": ("RunResult", "run"),
    "core.exit_info": ("ExitInfo", "ExitKind", "ExitSource", "ResourceUsage"),
    "core.facilities": ("Facilities",),
    "core.observation": ("Liveness", "Observation"),
    "core.process.identity": ("IdentityStrength", "ProcessIdentity"),
    "core.process.pidfd": ("Pidfd",),
    "core.recorded.launch": ("launch_recorded",),
    "core.recorded.run": ("RecordedRun",),
    "core.recorded.sentinel": ("read_sentinel",),
    "core.spawn.plan": ("SpawnPlan",),
    "core.spawn.spawn": ("ReapedBy", "Spawned", "spawn"),
    "core.spawn.stage": ("SpawnStage",),
    "core.tree.leader": ("Leader",),
    "core.tree.liveness": ("liveness_many", "tree_liveness"),
    "core.tree.members": ("Containment", "ProcessTree"),
    "core.tree.signalling": ("signal_tree",),
    "core.tree.termination": ("KillPlan", "Proof", "Survivor", "TerminationReport", "terminate_tree"),
    "proto.launch_record": ("Hook",),
    "proto.owed": ("Owed",),
    "proto.runtime_id": ("RuntimeId",),
    "proto.step_state": ("StepState",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # or a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value: object = getattr(_import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name != "msgspec":
                raise
            reason = "the package 'msgspec' is missing: pip install 'spurproc[stepd]'"
            raise Unsupported(f"cannot use spurproc.{name}: {reason}") from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
