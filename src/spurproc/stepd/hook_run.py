"""The hooks of a step, each at most once in its life, whoever supervises it."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import SpawnError, SpurprocError
from spurproc.proto.launch_record import Hook, LaunchRecord
from spurproc.proto.raw_text import raw_bytes
from spurproc.proto.step_folder import StepFolder
from spurproc.stepd.hook import RunningHook, clear_hook
from spurproc.stepd.loop import Loop
from spurproc.stepd.records import StepRecords
from spurproc.stepd.table import StepEvent

__all__ = ["HookRun"]

PROLOG, EPILOG = "prolog", "epilog"


class HookRun:
    """Which hook is due follows from the journal: the prolog until the step's end is recorded, then the epilog."""

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
        self._running: RunningHook | None = None
        self._end: ExitInfo | None = None

    def _due(self) -> tuple[str, Hook | None]:
        return (PROLOG, self._launch.prolog) if self._records.history.end is None else (EPILOG, self._launch.epilog)

    def holds(self, pid: int) -> bool:
        """Whether the child of that number is a running hook's to reap."""
        return self._running is not None and pid == self._running.pidfd.pid

    def record_begun(self) -> None:
        """Durable before it runs. One that another supervisor had begun is never run again: nobody knows what it did."""
        name, _ = self._due()
        self._end = None
        if name in self._records.history.hooks_begun:
            clear_hook(str(self._launch.runtime_id), name, self._root)
            self._end = ExitInfo.unknown("its supervisor ended before it did")
        else:
            self._records.hook_begun(name)

    def run(self, step: StepFolder) -> None:
        """Start it. One that does not start has failed."""
        name, hook = self._due()
        if self._end is not None or hook is None:
            self._post(StepEvent.HOOK_FAILED)
            return
        try:
            self._running = self._started(name, hook, step)
        except SpurprocError as error:
            stage, number = (error.stage, error.errno) if isinstance(error, SpawnError) else ("NONE", 0)
            self._end = ExitInfo.not_started(stage, number or 0, reason=str(error))
            self._post(StepEvent.HOOK_FAILED)
            return
        self._loop.watch(self._running.pidfd.fileno(), select.EPOLLIN, self._ended)
        self._loop.at("hook", hook.timeout_s, self.kill)

    def _started(self, name: str, hook: Hook, step: StepFolder) -> RunningHook:
        step.folder.discard_file(f"{name}.out")
        output_fd = step.folder.create_file(f"{name}.out")
        try:
            return RunningHook.start(name, hook, str(self._launch.runtime_id), self._environment(), output_fd, self._root)
        finally:
            os.close(output_fd)

    def _environment(self) -> list[bytes]:
        program, end = self._launch.program, self._records.history.end
        entries = [] if program is None else [raw_bytes(entry) for entry in program.env]
        entries.append(f"SPURPROC_STEP={self._launch.runtime_id}".encode("ascii"))
        if end is not None:
            entries.append(f"SPURPROC_EXIT={end}".encode())
        return entries

    def kill(self) -> None:
        """End a running one, at its timeout or because the step is to end."""
        if self._running is not None:
            self._running.kill()

    def _ended(self, _: int) -> None:
        if self._running is None:
            return
        self._loop.cancel("hook")
        self._loop.forget(self._running.pidfd.fileno())
        self._end = self._running.finish()
        self._running.close()
        self._running = None
        self._post(StepEvent.HOOK_PASSED if self._end.succeeded else StepEvent.HOOK_FAILED)

    def record_completed(self) -> ExitInfo:
        """How it ended, durable when this returns."""
        name, _ = self._due()
        end = self._records.history.hooks_completed.get(name)
        if end is None:
            end = self._end or ExitInfo.unknown("nobody saw its end")
            self._records.hook_completed(name, end)
        return end
