"""Supervised steps for tests: launched into a state folder of the test's own, and gone with their host when it is over."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from spurproc import AlreadyGone, KillPlan, Pidfd, ProcessIdentity, SpawnPlan, SpurprocError
from spurproc.client.launch import launch
from spurproc.client.spec import StepSpec
from spurproc.client.step import Step
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.durable.journal import read_journal
from spurproc.proto.codec import decode, encode
from spurproc.proto.descriptor import DESCRIPTOR_LIMIT_BYTES, DESCRIPTOR_NAME, Descriptor
from spurproc.proto.host_folder import host_address, open_host_folder
from spurproc.proto.journal_record import History
from spurproc.proto.messages import Retire, TakeOver
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StateFolder
from tests import cgroup_folder

KILL_AT_ONCE = KillPlan(steps=((9, None),))
WAIT_S = 60.0
_CREDENTIALS = struct.Struct("=iII")


def host_without_cgroups(folder: Path) -> Path:
    """A program to start the host by: in a mount namespace where the cgroup2 mount, if there is one, is read-only."""
    mount = cgroup_folder.mount()
    bare = "" if mount is None else f"mount -o remount,bind,ro {mount} &&"
    return _host_program(folder, f"{bare} exec env -u SPURPROC_CGROUP_ROOT")


def host_with_mounts_of_its_own(folder: Path) -> Path:
    """A program to start the host by: what is mounted there is seen nowhere else."""
    return _host_program(folder, "exec")


def _host_program(folder: Path, enter: str) -> Path:
    program = folder / "spurstepd-elsewhere"
    stepd = Path(sys.executable).with_name("spurstepd")
    program.write_text(f'#!/bin/sh\nexec unshare --mount sh -c \'{enter} {stepd} "$@"\' spurstepd "$@"\n')
    program.chmod(0o755)
    return program


def hand_down(folder: Path, *controllers: str) -> Path:
    """A root for cgroups, below `folder`, in whose steps these controllers act: as an administrator makes one."""
    root = CgroupRoot(path=str(folder / "root"))
    root.prepare()
    for controller in controllers:
        cgroup_folder.enable(controller, Path(root.steps))
    return Path(root.path)


class Gate:
    """A FIFO that a program stands at until the test lets it go: `sh -c "read x <PATH"`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def script(self, then: str = "exit 0") -> list[str]:
        """A shell that waits there, and does `then` after it."""
        return ["sh", "-c", f"read x <{self.path}; {then}"]

    def open(self) -> None:
        """Let go whoever stands there; blocks until somebody does."""
        os.close(os.open(self.path, os.O_WRONLY))

    @contextmanager
    def opened(self, count: int) -> Iterator[None]:
        """Let as many go, whether they stand there by now or come while it is open: each takes one line."""
        fd = os.open(self.path, os.O_RDWR)  # fifo(7): that does not block
        try:
            os.write(fd, b"\n" * count)
            yield
        finally:
            os.close(fd)


class Steps:
    """A state folder, and whatever was launched into it."""

    patient = KillPlan(steps=((15, WAIT_S), (9, None)))
    """Waits for whoever takes no SIGTERM."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._jobs = itertools.count(1)
        self._open: list[Step] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()

    def launch(self, argv: Sequence[str] | None, *, runtime_id: RuntimeId | None = None, start: bool = True, **more: Any) -> Step:
        """Launch `argv`; keyword arguments that a SpawnPlan has are its, all others the StepSpec's."""
        spec = self.spec(argv, runtime_id=runtime_id, **more)
        return self.keep(launch(spec, self.path, start=start))

    def spec(self, argv: Sequence[str] | None, *, runtime_id: RuntimeId | None = None, **more: Any) -> StepSpec:
        """As `launch` takes it."""
        of_plan = {name: more.pop(name) for name in list(more) if name in SpawnPlan.__dataclass_fields__}
        plan = None if argv is None else SpawnPlan(argv=argv, **of_plan)
        identity = runtime_id or RuntimeId(next(self._jobs), 1, 0)
        return StepSpec(runtime_id=identity, plan=plan, **more)

    def keep(self, step: Step) -> Step:
        """Close it when the test is over."""
        self._open.append(step)
        return step

    def reopen(self, step: Step) -> Step:
        """As another program would see it."""
        return self.keep(Step.open(self.path, step.runtime_id))

    def descriptor(self, step: Step) -> Descriptor:
        """Who runs it."""
        return self.descriptor_of(step.runtime_id.job_id, step.runtime_id.run_attempt, step.runtime_id.step_id)

    def descriptor_of(self, job: int, attempt: int, step: int) -> Descriptor:
        """Who runs a step that another program has launched; also as a later release has written it."""
        with StateFolder.open(self.path) as state, state.open_step(RuntimeId(job, attempt, step)) as folder:
            return decode(folder.folder.read_file(DESCRIPTOR_NAME, DESCRIPTOR_LIMIT_BYTES), Descriptor, DESCRIPTOR_NAME)

    def events(self, step: Step) -> list[str]:
        """The names of what its journal holds, in order."""
        with StateFolder.open(self.path) as state, state.open_step(step.runtime_id) as folder:
            return [line.split(b'"')[3].decode() for line in read_journal(folder.folder)]

    def history(self, step: Step) -> History:
        """What its journal says."""
        with StateFolder.open(self.path) as state, state.open_step(step.runtime_id) as folder:
            return folder.history()

    def folder(self, step: Step) -> Path:
        """Where its records stand."""
        return self.path / "runtime" / str(step.runtime_id)

    def kill(self, *victims: ProcessIdentity) -> None:
        """SIGKILL, and back once each of them is gone. By pidfds that were opened by identity."""
        for victim in victims:
            with victim.open() as pidfd:
                pidfd.send_signal(9)
                with suppress(SpurprocError):
                    pidfd.wait(WAIT_S, reap_grace_s=0)

    def await_gone(self, who: ProcessIdentity) -> None:
        """Block until that process has ended, and the host has done what it does then."""
        with suppress(AlreadyGone), who.open() as pidfd, suppress(SpurprocError):
            pidfd.wait(WAIT_S, reap_grace_s=0)
        self._await_host()

    def _await_host(self) -> None:
        """Until the host has answered, which comes behind all that it had to do before."""
        with StateFolder.open(self.path) as state, open_host_folder(state) as folder:
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with end, suppress(ConnectionRefusedError, FileNotFoundError):
                end.settimeout(WAIT_S)
                end.connect(host_address(folder))
                end.send(encode(TakeOver(runtime_id=RuntimeId(2**62, 1, 0))))
                end.recv(1)

    def host(self) -> Pidfd | None:
        """The host that can be reached, held; None where there is none. It is told to retire once it has no step."""
        with StateFolder.open(self.path) as state, open_host_folder(state) as folder:
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with end:
                try:
                    end.connect(host_address(folder))
                except (ConnectionRefusedError, FileNotFoundError):
                    return None
                pid, _, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
                host = Pidfd.open(pid)
                end.send(encode(Retire()))
        return host

    def end_all(self) -> None:
        """Every step is killed, acknowledged and left by its supervisor; the host has ended."""
        if not self.path.exists():
            return
        with StateFolder.open(self.path) as state:
            ids, _ = state.names()
        for runtime_id in ids:
            with suppress(SpurprocError):
                step = Step.open(self.path, runtime_id)
                with suppress(SpurprocError):
                    step.terminate(KILL_AT_ONCE)
                step.wait(WAIT_S, completed=True)
                with suppress(SpurprocError):
                    step.acknowledge()
        host = self.host()
        if host is not None:
            with host, suppress(SpurprocError):
                host.wait(WAIT_S, reap_grace_s=0)


def folder_of(step: Step) -> Path:
    """Where its records stand."""
    return Path(step.state_dir, "runtime", str(step.runtime_id))
