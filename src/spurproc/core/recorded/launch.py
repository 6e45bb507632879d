"""Launch a run that outlives its launcher, with a recorder that writes down how it ended."""

from __future__ import annotations

import errno
import os
import select
import signal
from contextlib import ExitStack, suppress
from dataclasses import replace

from spurproc.core._native import lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.folder import open_folder
from spurproc.core.cgroup.root import CgroupRoot, find_cgroup_root
from spurproc.core.cgroup.step import keep_step, make_step
from spurproc.core.deadline import checked_seconds, deadline_after, has_passed, left_s
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.interrupts import SignalsHeld
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.channel import RecorderChannel
from spurproc.core.recorded.folder import RunFolder, claim, remove_files
from spurproc.core.recorded.held import HeldRun
from spurproc.core.recorded.record import RunRecord
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.recorded.watch import Watch, wait_end, wait_for
from spurproc.core.spawn.credentials import credentials_of
from spurproc.core.spawn.environment import env_entries, exec_candidates
from spurproc.core.spawn.plan import SpawnPlan, check_plan
from spurproc.core.spawn.plan_layout import RecorderPart
from spurproc.core.spawn.spawn import begin
from spurproc.core.spawn.stage import SpawnStage
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.termination import KILL_ALL, terminate_tree
from spurproc.errors import AlreadyGone, Busy, InvalidArgument, SpurprocError, SystemCallError, Unsupported

__all__ = ["launch_recorded"]

CONTAINMENT_CODES = {
    Containment.CGROUP: lib.SPUR_CONTAINMENT_CGROUP,
    Containment.DESCENDANTS: lib.SPUR_CONTAINMENT_DESCENDANTS,
}
_CONFIRM_TIMEOUT_S = 10.0
_GONE_TIMEOUT_S = 5.0
_JOINED_S = 0.02  # how long an empty cgroup may look busy before somebody is looked for in it


def launch_recorded(
    plan: SpawnPlan,
    folder: str | os.PathLike[str],
    *,
    containment: Containment | None = None,
    confirm_timeout_s: float = _CONFIRM_TIMEOUT_S,
) -> RecordedRun:
    """Launch `plan` as a run of its own, recorded in `folder`, and return once it has been exec'd.

    `folder` is made (0700), or is an empty one of ours; the folder above must exist. The run is no child of the caller: it
    lives on when the caller ends. `containment`: None is the strongest that this host gives, CGROUP where there is a cgroup
    root, else DESCENDANTS; CGROUP insists. The plan's own `cgroup` and `detach` are not used: each run gets a fresh cgroup.

    Raises SpawnError if the job did not start: then no process, descriptor, cgroup or file of it is left. A job that has not
    got to its exec after `confirm_timeout_s`, because a stage of its start blocks, is returned as it is and goes on.
    """
    check_plan(plan)
    if plan.cgroup is not None:
        raise InvalidArgument("cgroup: a recorded run makes one of its own")
    checked_seconds("confirm_timeout_s", confirm_timeout_s)  # refused before anything is made
    root = choose_root(containment)
    with ExitStack() as undo:
        launch = _Launch(plan, root, undo)
        launch.make(folder)
        launch.begin()
        launch.confirm(deadline_after(confirm_timeout_s))
        run = launch.take_run()
        undo.pop_all()
    return run


def choose_root(containment: Containment | None) -> CgroupRoot | None:
    """The cgroup root for `containment`; None: do without. Raises Unsupported where CGROUP is insisted on and there is none."""
    if containment is Containment.PROCESS_GROUP:
        raise InvalidArgument("containment: a process group alone cannot be proven empty")
    root = None if containment is Containment.DESCENDANTS else find_cgroup_root()
    if root is None and containment is Containment.CGROUP:
        raise Unsupported("cannot contain the run in a cgroup: there is no cgroup2 folder here that this process may write")
    return root


class _Launch:
    """One launch under way. Everything that it makes is undone with `undo`, last first."""

    def __init__(self, plan: SpawnPlan, root: CgroupRoot | None, undo: ExitStack) -> None:
        self._plan = plan
        self._root = root
        self._undo = undo
        self._nonce = os.urandom(16).hex()
        self._claimed = False
        self._cgroup: Cgroup | None = None
        self._channel: RecorderChannel | None = None
        self._leader: Pidfd | None = None

    @property
    def _containment(self) -> Containment:
        return Containment.DESCENDANTS if self._root is None else Containment.CGROUP

    def make(self, path: str | os.PathLike[str]) -> None:
        """The folder with its lock held, the cgroup, and the durable record of what is meant."""
        folder = self._folder(path)
        self._undo.callback(self._clear, folder)
        lock = claim(folder)
        if lock is None:
            reason = "it is not empty, or in use; a run that stands there can be opened, or removed"
            raise InvalidArgument(f"cannot launch into {folder.path!r}: {reason}")
        self._lock, self._claimed = lock, True
        if self._root is not None:
            self._cgroup = make_step(self._root, self._nonce)
            self._undo.callback(self._cgroup.close)
            self._undo.callback(self._cgroup.remove)
        record = self._record()
        lock.share()
        self._files = RunFolder.publish(folder, record)
        if self._cgroup is not None:
            keep_step(self._cgroup)

    def _folder(self, path: str | os.PathLike[str]) -> PrivateFolder:
        try:
            folder = PrivateFolder.create(path)
            self._undo.callback(folder.close)
            self._undo.callback(_remove_empty, folder)
        except SystemCallError as error:
            if error.errno != errno.EEXIST:
                raise
            folder = PrivateFolder.open(path)
            self._undo.callback(folder.close)
        return folder

    def _clear(self, folder: PrivateFolder) -> None:
        """Remove what a failed launch wrote, once nobody can write any more: its recorder shares the lock until it has ended."""
        with suppress(AlreadyGone):
            lock = claim(folder, 0.0) if not self._claimed else self._take_again(folder)
            if lock is not None:
                with lock:
                    remove_files(folder)

    def _take_again(self, folder: PrivateFolder) -> FolderLock | None:
        self._lock.close()
        return FolderLock.take_within(folder, _GONE_TIMEOUT_S)

    def _record(self) -> RunRecord:
        who = credentials_of(self._plan.user, self._plan.group, self._plan.groups)
        entries = env_entries(self._plan.env)
        argv = [os.fsencode(argument) for argument in self._plan.argv]
        launcher = ProcessIdentity.of(os.getpid())
        return RunRecord(
            nonce=self._nonce,
            boot_id=launcher.boot_id,
            launcher=launcher,
            containment=self._containment,
            cgroup=None if self._cgroup is None else self._cgroup.record(),
            recorder_uid=os.geteuid(),
            job_uid=os.geteuid() if who.uid is None else who.uid,
            argv=tuple(map(os.fsdecode, argv)),
            candidates=tuple(map(os.fsdecode, exec_candidates(argv[0], entries))),
            cwd=_absolute_cwd(self._plan),
        )

    def begin(self) -> None:
        """Start the recorder. From here on it is the folder's only writer."""
        home_fd = -1 if self._root is None else open_folder(self._root.supervisors)
        part = RecorderPart(
            folder_fd=self._files.folder.fileno(),
            lock_fd=self._lock.fileno(),
            containment=CONTAINMENT_CODES[self._containment],
            nonce=self._nonce.encode("ascii"),
            home_fd=home_fd,
        )
        held = SignalsHeld()
        try:
            plan = replace(self._plan, cgroup=self._cgroup, detach=True)
            self._starting, self._spawned = begin(plan, recorder=part)
            self._undo.callback(self._abandon)
            self._channel = RecorderChannel(self._starting.take_channel())
            self._channel.commit()
        finally:
            self._lock.hand_over()  # the recorder has a copy, and soon a lock of its own
            if home_fd >= 0:
                os.close(home_fd)
            held.release()

    @property
    def _reports(self) -> RecorderChannel:
        if self._channel is None:
            raise InvalidArgument("cannot ask a recorder: none was started")
        return self._channel

    def confirm(self, deadline: float | None) -> None:
        """Wait for the exec of the job. Raises SpawnError if it failed."""
        channel = self._reports
        while not channel.decided and not has_passed(deadline):
            wait_for(Watch(entries=((channel.fileno(), select.POLLIN),), timeout_s=left_s(deadline)))
            channel.receive()
        self._leader = channel.take_leader()
        if channel.decided and not channel.launched:
            raise self._starting.failure(SpawnStage(channel.stage), channel.error, channel.why)

    def take_run(self) -> RecordedRun:
        """What was launched, for the caller to own."""
        launched, recorder = self._reports.launched, self._spawned.pidfd
        held = HeldRun(self._files, leader=self._leader, recorder=recorder, cgroup=self._cgroup, was_launched=launched)
        held.refresh()
        self._reports.close()
        return RecordedRun(held)

    def _abandon(self) -> None:
        """Nothing of it may live on. A recorder that was never let go on, or has said its last word, ends by itself."""
        recorder, channel = self._spawned.pidfd, self._channel
        self._starting.close()
        if channel is not None:
            with suppress(SpurprocError):
                channel.receive()
                self._leader = self._leader or channel.take_leader()
            if not channel.decided:
                self._kill_tree()
                with suppress(SpurprocError):
                    recorder.send_signal(signal.SIGKILL)
        wait_end(recorder, _GONE_TIMEOUT_S)
        try:
            self._end_tree()
        finally:
            for part in (channel, recorder, self._leader):
                if part is not None:
                    part.close()

    def _end_tree(self) -> None:
        """With the recorder gone. A leader at its gate ends when its recorder does: here it is waited for.

        One that is not born in its cgroup joins it by its own hand, and may come so far only now: to stand before its gate, if
        some stage blocks. One that finds no cgroup any more ends.
        """
        deadline = deadline_after(_GONE_TIMEOUT_S)
        self._kill_tree()
        while self._cgroup is not None and not has_passed(deadline):
            try:
                self._cgroup.remove(_JOINED_S)
            except Busy:
                self._kill_tree()
            else:
                return

    def _kill_tree(self) -> None:
        named = self._files.started().leader
        leader = None if named is None else Leader(identity=named, pidfd=self._leader)
        subreaper = self._spawned.identity if self._cgroup is None else None
        tree = ProcessTree(leader=leader, cgroup=self._cgroup, subreaper=subreaper)
        terminate_tree(tree, KILL_ALL, timeout_s=_GONE_TIMEOUT_S)


def _remove_empty(folder: PrivateFolder) -> None:
    """Remove the folder that a failed launch made, unless another launch has moved in."""
    with suppress(SystemCallError):
        folder.remove()


def _absolute_cwd(plan: SpawnPlan) -> str | None:
    try:
        return os.path.join(os.getcwd(), os.fsdecode(plan.cwd or ""))
    except OSError:
        return None if plan.cwd is None else os.fsdecode(plan.cwd)
