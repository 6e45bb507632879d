"""A whole step, played in the host before it forks the first supervisor.

What is done for the first time writes to memory: decoders are made, types looked up, bytecode is specialised. Done here, all
supervisors share those pages; without it each had another 0.9 MiB of its own, and took a third longer to launch.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET, SOCK_STREAM, socketpair
from contextlib import ExitStack, suppress

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.durable.journal import Journal
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.spawn.program import PROGRAM_PATH
from spurproc.core.tree.termination import KILL_ALL
from spurproc.core.vantage import read_boot_id
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.proto.codec import encode
from spurproc.proto.launch_record import LAUNCH_NAME, LaunchRecord, Program
from spurproc.proto.messages import Start
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StepFolder
from spurproc.stepd.supervisor import Supervisor
from spurproc.stepd.surroundings import Surroundings

__all__ = ["rehearse"]

_STEP = RuntimeId(1, 1, 0)
_TIMES = 3


def rehearse(host_folder: PrivateFolder, host: ProcessIdentity, root: CgroupRoot | None) -> None:
    """Play it in a folder of the host's own. Nothing depends on how it goes, and nothing of it is left."""
    for _ in range(_TIMES):
        with suppress(SpurprocError, OSError):
            _clear(host_folder)
            _play(host_folder, host, root)
    with suppress(SpurprocError, OSError):
        _clear(host_folder)


def _play(host_folder: PrivateFolder, host: ProcessIdentity, root: CgroupRoot | None) -> None:
    with ExitStack() as made:
        folder = made.enter_context(host_folder.create_folder(str(_STEP)))
        lock = FolderLock.take(folder, create=True)
        if lock is None:
            return
        made.enter_context(lock)
        os.close(folder.create_file(LAUNCH_NAME, encode(_record())))
        Journal.create(folder)
        launcher, connection = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
        host_end, host_channel = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)
        for end in (launcher, connection, host_end, host_channel):
            made.callback(end.close)
        launcher.send(encode(Start(runtime_id=_STEP)) + b"\n")
        step = StepFolder(folder, _STEP)
        surroundings = Surroundings(
            step=step,
            lock=lock,
            host=host,
            host_channel=host_channel,
            root=root,
            connection=connection,
            is_rehearsal=True,
        )
        supervisor = Supervisor(surroundings, step.launch())
        made.callback(supervisor.close)
        supervisor.run()


def _record() -> LaunchRecord:
    """The static program, which ends at once when it is given no plan."""
    program = Program(argv=(PROGRAM_PATH,), env=("LANG=C",), cwd="/", umask=0o22)
    return LaunchRecord(
        runtime_id=_STEP,
        boot_id=read_boot_id(),
        capability="0" * 32,
        program=program,
        kill_plan=KILL_ALL,
        linger_s=0.0,
    )


def _clear(host_folder: PrivateFolder) -> None:
    """Of a rehearsal before this one, whose host may have been killed."""
    with suppress(AlreadyGone), StepFolder(host_folder.open_folder(str(_STEP)), _STEP) as step:
        descriptor = step.descriptor()
        if descriptor is not None and descriptor.cgroup is not None:
            with suppress(SpurprocError), Cgroup.open(descriptor.cgroup.path, descriptor.cgroup.inode) as cgroup:
                cgroup.kill()
                cgroup.remove()
        for name in step.folder.names():
            step.folder.discard_file(name)
        step.folder.remove()
