"""The hooks of a step, each at most once in its life, whoever supervises it."""

from __future__ import annotations

import os
import select
import signal as _signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.cgroup.step import keep_step, make_hook
from spurproc.core.exit_info import ExitInfo
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.termination import KILL_ALL, send_and_wake
from spurproc.errors import SpawnError, SpurprocError
from spurproc.proto.launch_record import Hook, LaunchRecord
from spurproc.proto.raw_text import raw_bytes
from spurproc.proto.step_folder import StepFolder
from spurproc.stepd.hook import RunningHook, open_left
from spurproc.stepd.loop import Loop
from spurproc.stepd.records import StepRecords
from spurproc.stepd.table import StepEvent
from spurproc.stepd.walk import PlanWalk

__all__ = ["HookRun"]

PROLOG, EPILOG = "prolog", "epilog"


class HookRun:
    """Which hook is due follows from the journal: the prolog until the step's end is recorded, or it was left; then the epilog.

    While one runs nothing else of the step does: all that descends from here then is its own, and is ended along with it.
    """

    def __init__(
        self,
        loop: Loop,
        launch: LaunchRecord,
        records: StepRecords,
        root: CgroupRoot | None,
        post: Callable[[StepEvent], None],
    ) -> None:
        self._loop = loop
        self._launch = launch
        self._records = records
        self._root = root
        self._post = post
        self._supervisor = ProcessIdentity.of(os.getpid())
        self._walk = PlanWalk(loop, self._tree, lambda _: self._over(), lambda _: self._over(), lambda: True)
        self._cgroup: Cgroup | None = None
        self._running: RunningHook | None = None
        self._end: ExitInfo | None = None
        self._why_ended = ""

    @property
    def prolog_left(self) -> bool:
        """Whether the prolog was begun, and nobody has seen its end."""
        history = self._records.history
        return PROLOG in history.hooks_begun and PROLOG not in history.hooks_completed

    def _due(self) -> tuple[str, Hook | None]:
        if self._records.history.end is None or self.prolog_left:
            return PROLOG, self._launch.prolog
        return EPILOG, self._launch.epilog

    def holds(self, pid: int) -> bool:
        """Whether the child of that number is a running hook's to reap."""
        return self._running is not None and not self._running.reaped and pid == self._running.pidfd.pid

    def look(self) -> None:
        """Something has ended, and perhaps the last of what a hook has left behind."""
        self._walk.look()

    def record_begun(self) -> None:
        """Durable before it runs, its cgroup included, so that whoever comes after finds what is left of it.

        One that another supervisor had begun is never run again: nobody knows what it did.
        """
        name, _ = self._due()
        begun = self._records.history.hooks_begun.get(name)
        self._why_ended = ""
        if begun is not None:
            self._cgroup = open_left(begun.cgroup)
            self._end = ExitInfo.unknown("its supervisor ended before it did")
            return
        self._end = None
        self._make_cgroup(name)
        self._records.hook_begun(name, None if self._cgroup is None else self._cgroup.record())
        if self._cgroup is not None:
            with suppress(OSError):
                keep_step(self._cgroup)

    def _make_cgroup(self, name: str) -> None:
        if self._root is None or self._cgroup is not None:
            return
        try:
            self._cgroup = make_hook(self._root, f"{self._launch.runtime_id}.{name}-{os.urandom(4).hex()}")
        except SpurprocError as error:
            self._end = ExitInfo.not_started("CGROUP", getattr(error, "errno", 0) or 0, reason=str(error))

    def run(self, step: StepFolder) -> None:
        """Start it. One that does not start has failed; so has one that was begun before, of which what is left is ended."""
        name, hook = self._due()
        if self._end is None and hook is not None:
            self._start(name, hook, step)
        if self._running is None:
            self._walk.begin(KILL_ALL)

    def _start(self, name: str, hook: Hook, step: StepFolder) -> None:
        try:
            self._running = self._started(name, hook, step)
        except SpurprocError as error:
            stage, number = (error.stage, error.errno) if isinstance(error, SpawnError) else ("NONE", getattr(error, "errno", 0))
            self._end = ExitInfo.not_started(stage, number or 0, reason=str(error))
            return
        self._loop.watch(self._running.pidfd.fileno(), select.EPOLLIN, self._ended)
        self._loop.at("hook", hook.timeout_s, lambda: self.kill(f"its {hook.timeout_s:g} s were over"))

    def _started(self, name: str, hook: Hook, step: StepFolder) -> RunningHook:
        step.folder.discard_file(f"{name}.out")
        output_fd = step.folder.create_file(f"{name}.out")
        try:
            return RunningHook.start(hook, self._environment(), output_fd, self._cgroup)
        finally:
            os.close(output_fd)

    def _environment(self) -> list[bytes]:
        program, end = self._launch.program, self._records.history.end
        entries = [] if program is None else [raw_bytes(entry) for entry in program.env]
        entries.append(f"SPURPROC_STEP={self._launch.runtime_id}".encode("ascii"))
        if end is not None:
            entries.append(f"SPURPROC_EXIT={end}".encode())
        return entries

    def kill(self, why: str = "its step was told to end") -> None:
        """End a running one. It has failed then, even if it was just about to end well."""
        self._why_ended = self._why_ended or why
        tree = self._tree()
        if tree is not None:
            with suppress(SpurprocError):
                send_and_wake(tree, _signal.SIGKILL)

    def _tree(self) -> ProcessTree | None:
        if self._running is not None:
            return ProcessTree(leader=self._running.leader, cgroup=self._cgroup, subreaper=self._supervisor)
        return None if self._cgroup is None else ProcessTree(cgroup=self._cgroup)

    def _ended(self, _: int) -> None:
        if self._running is None:
            return
        self._loop.cancel("hook")
        self._loop.forget(self._running.pidfd.fileno())
        self._end = self._running.reap()
        self._walk.begin(KILL_ALL)

    def _over(self) -> None:
        """Nothing of it is left, or nothing that can be ended."""
        self._walk.stop()
        if self._why_ended and self._end is not None:
            self._end = replace(self._end, reason=self._why_ended)
        if self._running is not None:
            self._running.close()
            self._running = None
        if self._cgroup is not None:
            with suppress(SpurprocError):
                self._cgroup.remove(0.0)
            self._cgroup.close()
            self._cgroup = None
        passed = self._end is not None and self._end.succeeded and not self._why_ended
        self._post(StepEvent.HOOK_PASSED if passed else StepEvent.HOOK_FAILED)

    def record_completed(self) -> ExitInfo:
        """How it ended, durable when this returns."""
        name, _ = self._due()
        end = self._records.history.hooks_completed.get(name)
        if end is None:
            end = self._end or ExitInfo.unknown("nobody saw its end")
            self._records.hook_completed(name, end)
        return end
