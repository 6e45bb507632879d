"""Start a program: known to run, or known not to and why, within milliseconds.

Source: clone(2), execve(2), credentials(7). A plan that changes no credentials and cannot block is exec'd straight from a child
in shared memory; any other goes through the static program `spurproc-exec`, which reports each step on a socket.
"""

from __future__ import annotations

import enum
import errno
import os
from _socket import AF_UNIX, SOCK_STREAM, socket
from contextlib import ExitStack
from dataclasses import dataclass, replace

from spurproc.core._native import lib
from spurproc.core.interrupts import SignalsHeld
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.clone_call import CloneRequest, CloneResult, clone
from spurproc.core.spawn.plan import SpawnPlan, check_plan
from spurproc.core.spawn.plan_layout import PlanFields, RecorderPart, pack_plan
from spurproc.core.spawn.program import program_fd
from spurproc.core.spawn.resources import needs_program, raised, resolve
from spurproc.core.spawn.stage import SpawnStage
from spurproc.core.spawn.starting import Starting, checked_timeout, failure
from spurproc.core.tree.members import Containment
from spurproc.errors import SpawnError, SpurprocError

__all__ = ["ReapedBy", "SpawnPlan", "SpawnStage", "Spawned", "begin", "spawn"]

_START_TIMEOUT_S = 10.0
_NOBODY = -1
_EVENTS_BYTES = 256
_NO_ROOM = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Of a clone into a cgroup: no fault of the cgroup."""


class ReapedBy(enum.Enum):
    """Whose child it is: who waits for it."""

    CALLER = "caller"
    """Also a detached one, where the caller is itself the nearest subreaper, or the init of its pid namespace."""
    INIT = "init"
    """init, or the nearest subreaper above the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """A program that was started; it may have ended since. The caller owns `pidfd`."""

    identity: ProcessIdentity
    pidfd: Pidfd
    containment: Containment
    reaped_by: ReapedBy
    born_in_cgroup: bool
    """False where it joined its cgroup by a write, or has none."""

    @property
    def pid(self) -> int:
        """Its number; another's, once it has ended and was reaped."""
        return self.identity.pid


def spawn(plan: SpawnPlan, *, timeout_s: float | None = None) -> Spawned:
    """Start `plan` and return once it has been exec'd.

    Raises SpawnError, with stage and errno, if it was not: then no process, descriptor or file of it is left (a detached one is
    init's to reap). That is known in milliseconds unless a stage blocks (a FIFO as stdout, a dead network file system): after
    `timeout_s`, by default 10 s, it is killed. A plain plan can block nowhere but in the exec itself, on the file system of its
    program, and is waited for without a limit there; with a `timeout_s` it too goes through the static program, which costs
    some 0.05 ms. Raises InvalidArgument for a name that cannot be looked up. No shell, no SIGCHLD handler, no thread, no
    pdeathsig; safe from any thread. A program file still open for writing (ETXTBSY) and a full process table (EAGAIN) are tried
    again for half a second.
    """
    check_plan(plan)
    killable = checked_timeout(timeout_s) is not None
    held = SignalsHeld()
    try:
        starting, spawned = begin(plan, killable=killable)
    except BaseException:
        held.release()
        raise
    try:
        held.release()
        starting.confirm(_START_TIMEOUT_S if timeout_s is None else timeout_s)
        return spawned  # noqa: TRY300 - an interrupt right here must still find who ends the job
    except SpawnError:
        raise
    except BaseException as error:
        starting.undo(error)
        raise


def begin(
    plan: SpawnPlan,
    *,
    gate_fd: int = _NOBODY,
    recorder: RecorderPart | None = None,
    killable: bool = False,
) -> tuple[Starting, Spawned]:
    """Clone `plan`'s process and do not wait for its exec: the caller confirms or abandons the Starting.

    `gate_fd`: it waits there for one byte before exec; EOF there means do not exec. `recorder`: a recorder is started instead,
    which starts the plan itself, and is born in its own home cgroup, or moves there. `killable`: do not sleep until the exec even
    of a plain plan. Raises SpawnError for what fails up to the exec of the static program.
    """
    begun = None
    try:
        with ExitStack() as lent:
            mode = lib.SPUR_MODE_LEADER if recorder is None else lib.SPUR_MODE_RECORDER
            gate = raised(gate_fd, lent) if gate_fd >= 0 else _NOBODY
            part = None if recorder is None else _raised_part(recorder, lent)
            fields = resolve(plan, lent, mode=mode, gate_fd=gate, recorder=part)
            if killable or needs_program(fields):
                birth = fields.cgroup_fd if part is None else part.home_fd
                begun = _begin_program(plan, fields, birth)
            else:
                begun = _begin_plain(plan, fields)
    except BaseException as error:
        if begun is not None:  # KeyboardInterrupt, while what was lent went back
            begun[0].undo(error)
        if isinstance(error, OSError) and not isinstance(error, SpurprocError):
            # Of what is made before the clone: descriptors, the sealed plan.
            raise SpawnError(error.errno or errno.EIO, SpawnStage.NONE.name, plan.argv0) from error
        raise
    return begun


def _raised_part(part: RecorderPart, lent: ExitStack) -> RecorderPart:
    folder, lock, home = (raised(fd, lent) if fd >= 0 else fd for fd in (part.folder_fd, part.lock_fd, part.home_fd))
    return replace(part, folder_fd=folder, lock_fd=lock, home_fd=home)


def _begin_plain(plan: SpawnPlan, fields: PlanFields) -> tuple[Starting, Spawned]:
    return _taken(plan, fields, clone(CloneRequest(plan=pack_plan(fields), detach=plan.detach)), born=False)


def _begin_program(plan: SpawnPlan, fields: PlanFields, birth: int) -> tuple[Starting, Spawned]:
    _refuse_frozen(plan, birth)
    request = CloneRequest(
        plan=pack_plan(fields),
        detach=plan.detach,
        program_fd=program_fd(),
        cgroup_fd=birth if fields.facilities & lib.SPUR_FACILITY_CLONE_INTO_CGROUP else _NOBODY,
    )
    result = clone(request)
    if request.cgroup_fd >= 0 and not result.started and result.stage == SpawnStage.NONE:
        # A cgroup.kill in the target's past, and not in our own cgroup's, kills what is born there before its first instruction.
        request.cgroup_fd = _NOBODY
        result = clone(request)
    return _taken(plan, fields, result, born=request.cgroup_fd >= 0)


def _refuse_frozen(plan: SpawnPlan, cgroup_fd: int) -> None:
    """A clone into a frozen cgroup would put the caller to sleep until somebody thaws it.

    An empty one is frozen at once; one with members says so only when all of them are, which a member in an uninterruptible
    sleep can put off for ever, while what is born there does freeze. One that is frozen between this look and the clone is not
    found out. cgroup-v2.rst, "cgroup.freeze".
    """
    if cgroup_fd < 0:
        return
    events = _control_file(cgroup_fd, "cgroup.events")
    if b"frozen 1" in events or (b"populated 1" in events and _freezing(cgroup_fd)):
        raise SpawnError(errno.EBUSY, SpawnStage.CGROUP.name, plan.argv0, detail="its cgroup is frozen")


def _freezing(cgroup_fd: int) -> bool:
    """Whether it, or one above it, is asked to be frozen. The root of the hierarchy has no such file."""
    name = "cgroup.freeze"
    while asked := _control_file(cgroup_fd, name):
        if asked.startswith(b"1"):
            return True
        name = f"../{name}"
    return False


def _control_file(cgroup_fd: int, name: str) -> bytes:
    """Empty where it cannot be read: the clone will say what is wrong with the cgroup."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=cgroup_fd)
    except OSError:
        return b""
    try:
        return os.read(fd, _EVENTS_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _taken(plan: SpawnPlan, fields: PlanFields, result: CloneResult, *, born: bool) -> tuple[Starting, Spawned]:
    if not result.started:
        raise _not_started(plan, fields, result)
    pidfd = Pidfd(result.pidfd, result.pid, fields.facilities | lib.SPUR_FACILITY_PIDFD_OPEN)
    channel = None if result.channel < 0 else socket(AF_UNIX, SOCK_STREAM, 0, result.channel)
    starting = Starting(plan, fields, pidfd, channel)
    try:
        identity = (
            ProcessIdentity.of_child(result.pid, result.start_ticks, result.inode)
            if result.start_ticks
            else ProcessIdentity.of_pidfd(pidfd)
        )
    except BaseException as error:
        starting.undo(error)
        raise
    spawned = Spawned(
        identity=identity,
        pidfd=pidfd,
        containment=Containment.PROCESS_GROUP if plan.cgroup is None else Containment.CGROUP,
        reaped_by=ReapedBy.CALLER if result.is_child else ReapedBy.INIT,
        born_in_cgroup=born,
    )
    return starting, spawned


def _not_started(plan: SpawnPlan, fields: PlanFields, result: CloneResult) -> SpawnError:
    stage = SpawnStage(result.stage)
    if stage is SpawnStage.CLONE and fields.cgroup_fd >= 0 and result.error not in _NO_ROOM:
        stage = SpawnStage.CGROUP
    how = ""
    if result.error == 0:
        status = result.wait_status
        how = "it ended before exec" if not status else f"it was killed by signal {status & 0x7F} before exec"
    return failure(plan, fields, stage, result.error, how)
