"""The host of a state folder: forks a supervisor for each step, is the parent of what they leave, and the witness of its end.

Single-threaded, and small: whatever it writes between two forks stays private memory of the earlier child.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal as _signal
import stat
from _socket import AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_STREAM, socket
from contextlib import suppress

from spurproc.core.cgroup.root import CgroupRoot, find_cgroup_root
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.signal_source import SignalSource
from spurproc.errors import AlreadyGone, Busy, LaunchedBefore, SpurprocError
from spurproc.proto.codec import encode
from spurproc.proto.descriptor import DESCRIPTOR_NAME
from spurproc.proto.host_folder import HOST_PREFIX
from spurproc.proto.messages import HostReply, HostRequest, Launch, LookAgain, Refused, Retire, TakeOver
from spurproc.proto.owed import is_over
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StateFolder, StepFolder
from spurproc.stepd.elsewhere import Elsewhere
from spurproc.stepd.folder_watch import FolderWatch
from spurproc.stepd.forking import ForkRequest, fork_supervisor
from spurproc.stepd.host_socket import HostSocket, Peer, tell_host
from spurproc.stepd.loop import Loop
from spurproc.stepd.records import StepRecords
from spurproc.stepd.rehearsal import rehearse
from spurproc.stepd.witness import Witness

__all__ = ["Host"]

_LAUNCH_FDS = 3
_SIGNALS = (_signal.SIGTERM, _signal.SIGCHLD, _signal.SIGIO)


class Host:
    """Borrows the folders. `run` returns when it has retired, or nobody needs it any more."""

    def __init__(self, state: StateFolder, folder: PrivateFolder, idle_s: float) -> None:
        self._state = state
        self._folder = folder
        self._idle_s = idle_s
        self._loop = Loop()
        self._signals = SignalSource(_SIGNALS)
        self._identity = ProcessIdentity.of(os.getpid())
        self._root: CgroupRoot | None = find_cgroup_root()
        self._socket = HostSocket(self._loop, self._take_request, self._peer_left)
        self._witnesses: dict[RuntimeId, Witness] = {}
        self._elsewhere: dict[RuntimeId, Elsewhere] = {}
        self._waiting: dict[RuntimeId, list[Peer]] = {}
        self._retired = False
        self._folder_watch = FolderWatch(self._loop, folder, self._retire)

    def listen(self) -> None:
        """From here on it is found."""
        self._socket.listen(self._folder)

    def run(self) -> None:
        """Serve."""
        self._loop.watch(self._signals.fileno(), select.EPOLLIN, self._signalled)
        rehearse(self._folder, self._identity, self._root)
        self._retire_others()
        self._adopt_all()
        self._look_idle()
        self._loop.run()

    # Requests.

    def _take_request(self, peer: Peer, request: HostRequest, fds: list[int]) -> None:
        self._loop.cancel("idle")
        if isinstance(request, Launch) and len(fds) == _LAUNCH_FDS:
            self._launch(request.runtime_id, fds)
            return
        for fd in fds:
            os.close(fd)
        match request:
            case TakeOver(runtime_id=runtime_id):
                self._take_over(peer, runtime_id)
            case Retire():
                self._retire()
            case Launch():
                peer.tell(Refused(why="a launch needs three descriptors"))
        self._look_idle()

    def _launch(self, runtime_id: RuntimeId, fds: list[int]) -> None:
        """The descriptors are the step's folder, its lock, and a connection for its supervisor."""
        folder_fd, lock_fd, connection_fd = fds
        try:
            if not stat.S_ISSOCK(os.fstat(connection_fd).st_mode):
                os.close(folder_fd)
                return
            self._fork(self._received_step(runtime_id, folder_fd), lock_fd, connection_fd)
        except (SpurprocError, OSError) as error:
            _refuse(connection_fd, error)
        finally:
            os.close(connection_fd)
            os.close(lock_fd)

    def _received_step(self, runtime_id: RuntimeId, folder_fd: int) -> StepFolder:
        """Around a folder that was received: that of a step which was never launched before. Takes `folder_fd`."""
        try:
            parent_fd = fcntl.fcntl(self._state.runtime.fileno(), fcntl.F_DUPFD_CLOEXEC, 0)
        except OSError:
            os.close(folder_fd)
            raise
        folder = PrivateFolder(f"{self._state.runtime.path}/{runtime_id}", folder_fd, parent_fd)
        try:
            self._check_fresh(folder, runtime_id)
        except BaseException:
            folder.close()
            raise
        return StepFolder(folder, runtime_id)

    def _check_fresh(self, folder: PrivateFolder, runtime_id: RuntimeId) -> None:
        if self._retired:
            raise Busy(errno.EBUSY, "it was told to end, and does so after its last step")
        if not folder.is_named():
            raise AlreadyGone(errno.ESTALE, "its name leads to another folder")
        if runtime_id in self._witnesses or folder.has(DESCRIPTOR_NAME):
            raise LaunchedBefore(errno.EBUSY, "it was launched before")

    def _take_over(self, peer: Peer, runtime_id: RuntimeId) -> None:
        """Answered when there is something new to see: a supervisor again, or records that say it all."""
        waiting = self._waiting.setdefault(runtime_id, [])
        if peer not in waiting:
            waiting.append(peer)
        try:
            watched = self._adopt(runtime_id)
        except SpurprocError as error:
            self._tell_waiting(runtime_id, Refused(why=str(error)))
            return
        witness = self._witnesses.get(runtime_id)
        if (watched and (witness is None or witness.supervised)) or (not watched and not self._watch_elsewhere(runtime_id)):
            self._tell_waiting(runtime_id)

    def _watch_elsewhere(self, runtime_id: RuntimeId) -> bool:
        """Whether another host has to say something about the step before there can be something new."""
        if runtime_id in self._elsewhere:
            return True
        step = self._state.open_step(runtime_id)
        descriptor, history = step.descriptor(), step.history()
        if descriptor is None or descriptor.host == self._identity or history.end is not None:
            step.close()
            return False
        try:
            host = descriptor.host.open()
        except SpurprocError:
            step.close()
            return False
        self._elsewhere[runtime_id] = Elsewhere(self._loop, step, host, self._host_gone)
        return True

    def _host_gone(self, elsewhere: Elsewhere) -> None:
        runtime_id = elsewhere.step.runtime_id
        del self._elsewhere[runtime_id]
        elsewhere.close()
        with suppress(SpurprocError):
            self._adopt(runtime_id)
        if runtime_id not in self._witnesses:
            self._tell_waiting(runtime_id)

    def _tell_waiting(self, runtime_id: RuntimeId, reply: HostReply | None = None) -> None:
        for peer in self._waiting.pop(runtime_id, []):
            peer.tell(reply or LookAgain())

    def _peer_left(self, peer: Peer) -> None:
        for waiting in self._waiting.values():
            if peer in waiting:
                waiting.remove(peer)
        self._waiting = {runtime_id: peers for runtime_id, peers in self._waiting.items() if peers}
        for runtime_id in self._elsewhere.keys() - self._waiting.keys():
            self._elsewhere.pop(runtime_id).close()
        self._look_idle()

    def _retire(self) -> None:
        """Nothing is launched any more. Whoever asks after a step is answered until the last one has ended."""
        self._retired = True
        self._look_idle()

    # Steps.

    def _fork(self, step: StepFolder, lock_fd: int = -1, connection_fd: int = -1, *, successors: int = 0) -> None:
        """Takes `step`. `successors`: how many there have been, with this one."""
        request = ForkRequest(step=step, host=self._identity, root=self._root, lock_fd=lock_fd, connection_fd=connection_fd)
        try:
            forked = fork_supervisor(request)
        except BaseException:
            step.close()
            raise
        witness = self._watch(step)
        witness.successors = successors
        witness.watch_supervisor(forked)

    def _watch(self, step: StepFolder) -> Witness:
        witness = Witness(self._loop, step, self._recorded, self._lost, self._reap_orphans)
        self._witnesses[step.runtime_id] = witness
        self._loop.cancel("idle")
        return witness

    def _recorded(self, witness: Witness, over: bool) -> None:
        """The end of a step is durable. What is still owed goes to another supervisor, as soon as there is room for one."""
        if not over:
            if witness.rests():
                return
            try:
                self._fork(self._state.open_step(witness.step.runtime_id), successors=witness.successors + 1)
            except AlreadyGone:
                pass
            except (SpurprocError, OSError):
                self._tell_waiting(witness.step.runtime_id)
                witness.try_again()
                return
        self._lost(witness)

    def _lost(self, witness: Witness) -> None:
        """Nothing more is to be learnt of it here."""
        if self._witnesses.get(witness.step.runtime_id) is witness:
            del self._witnesses[witness.step.runtime_id]
        witness.close()
        self._tell_waiting(witness.step.runtime_id)
        self._look_idle()

    def _retire_others(self) -> None:
        """Hosts of other releases launch nothing more, and end with their last step."""
        for name in self._state.folder.names():
            if name.startswith(HOST_PREFIX) and name != os.path.basename(self._folder.path):
                with suppress(SpurprocError), self._state.folder.open_folder(name) as folder:
                    tell_host(folder, Retire())

    def _adopt_all(self) -> None:
        """Steps whose supervisor and host are gone: hold their leaders while they live, conclude when they do not."""
        ids, _ = self._state.names()
        for runtime_id in ids:
            with suppress(SpurprocError):
                self._adopt(runtime_id)

    def _adopt(self, runtime_id: RuntimeId) -> bool:
        """Whether the step is watched over from here now."""
        if runtime_id in self._witnesses:
            return True
        step = self._state.open_step(runtime_id)
        try:
            ours = self._falls_to_us(step)
        except BaseException:
            step.close()
            raise
        if not ours:
            step.close()
            return False
        witness = self._watch(step)
        descriptor = step.descriptor()
        if descriptor is not None and descriptor.leader is not None:
            with suppress(SpurprocError):
                witness.hold_leader(descriptor.leader.open())
        witness.await_leader()
        return True

    def _falls_to_us(self, step: StepFolder) -> bool:
        """Nobody writes there, something is owed, and the host that forked its supervisor is gone."""
        lock = FolderLock.take(step.folder)
        if lock is None:
            return False
        with lock:
            records = StepRecords(step)
            records.close()
            if is_over(step.launch(), records.history):
                return False
            descriptor = step.descriptor()
        return descriptor is None or descriptor.host == self._identity or descriptor.host.liveness() is Liveness.GONE

    # Time and signals.

    def _look_idle(self) -> None:
        """With neither steps nor peers it ends, at once when it was told to, else after a while."""
        if self._witnesses or not self._socket.quiet:
            return
        if self._retired:
            self._loop.stop()
        else:
            self._loop.at("idle", self._idle_s, self._loop.stop)

    def _signalled(self, _: int) -> None:
        numbers = self._signals.read()
        if _signal.SIGCHLD in numbers:
            self._reap_orphans()
        if _signal.SIGIO in numbers:
            self._folder_watch.look()
            for runtime_id in list(self._elsewhere):
                self._tell_waiting(runtime_id)
        if _signal.SIGTERM in numbers:
            self._retire()

    def _reap_orphans(self) -> None:
        """Descendants of supervisors that have died. Supervisors and leaders are for their witnesses to reap."""
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None or any(witness.may_wait_for(info.si_pid) for witness in self._witnesses.values()):
                return
            os.waitpid(info.si_pid, os.WNOHANG)


def _refuse(connection_fd: int, error: Exception) -> None:
    """To the launcher, in place of the supervisor that there is none of."""
    with suppress(OSError):
        end = socket(AF_UNIX, SOCK_STREAM, 0, os.dup(connection_fd))
        try:
            refused = Refused(why=str(error), launched_before=isinstance(error, LaunchedBefore))
            end.send(encode(refused) + b"\n", MSG_NOSIGNAL | MSG_DONTWAIT)
        finally:
            end.close()
