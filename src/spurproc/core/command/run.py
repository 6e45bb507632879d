"""`run`: a command and everything that it starts, from beginning to proven end."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict, Unpack

from spurproc.core.cgroup.events import RECHECK_S
from spurproc.core.command.capture import Capture
from spurproc.core.command.cgroup_job import CgroupJob
from spurproc.core.command.job import KILL_TIMEOUT_S, Job
from spurproc.core.command.kept_job import KeptJob
from spurproc.core.deadline import deadline_after, left_s, shortest_s
from spurproc.core.exit_info import ExitInfo
from spurproc.core.recorded.launch import choose_root
from spurproc.core.spawn.environment import EnvArgument
from spurproc.core.spawn.plan import SpawnPlan, Stdio
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KILL_ALL, KillPlan, TerminationReport
from spurproc.errors import InvalidArgument, ProcessFailed, RunTimeout, RunUnproven

__all__ = ["RunOptions", "RunResult", "run"]

_START_TIMEOUT_S = 10.0
_START_LEAST_S = 1.0  # a short time for the job is no reason to say that it could not be started
_LEFTOVER_GRACE_S = 0.1  # `cmd > >(tee log)`: tee ends a moment after the shell, and should
_CLOSE_TRIES = 5
_STDOUT_FD, _STDERR_FD = 1, 2
_SUBPROCESS_NAMES = {
    "timeout": "it is timeout_s here",
    "capture_output": "it is capture here",
    "check": "use run(...).check()",
    "text": "output is bytes",
    "shell": 'use ["sh", "-c", ...]',
}


class RunOptions(TypedDict, total=False):
    """The fields of SpawnPlan that `run` takes too. `stdout` and `stderr` are the caller's own where they are not given."""

    env: EnvArgument
    cwd: str | bytes | os.PathLike[str] | None
    stdin: Stdio
    stdout: Stdio
    stderr: Stdio
    user: str | int | None
    group: str | int | None
    groups: Sequence[str | int] | None
    umask: int | None
    limits: Mapping[int, tuple[int, int]]
    affinity: Collection[int] | None
    oom_score_adj: int | None
    pass_fds: Sequence[int]
    no_new_privs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(ExitInfo):
    """How the command ended, as ExitInfo, and what it said.

    `stdout`, `stderr`: all of it, None where it was not captured. `leftovers`: what it took to end those of its tree that
    outlived it, or all of it at the deadline, the last SIGKILL included; None where nothing had to be done. `leftovers.empty` is
    false only in what RunUnproven carries.

    `usage.max_rss_bytes` under CGROUP is at least the caller's own size: Linux counts the memory that a child shares with its
    parent until it execs. getrusage(2)
    """

    argv0: str
    containment: Containment
    stdout: bytes | None = None
    stderr: bytes | None = None
    leftovers: TerminationReport | None = None

    def check(self) -> Self:
        """Itself if it succeeded, else ProcessFailed, which names the command and carries this."""
        if not self.succeeded:
            raise ProcessFailed(f"{self.argv0!r} failed: {self}", self)
        return self

    def to_json(self) -> dict[str, Any]:
        """As ExitInfo, with the rest; output as text, bytes that are not UTF-8 as surrogates (`surrogateescape`)."""
        form = ExitInfo.to_json(self)  # super() knows no slotted dataclass
        form["argv0"] = self.argv0
        form["containment"] = self.containment.value
        for name, output in (("stdout", self.stdout), ("stderr", self.stderr)):
            if output is not None:
                form[name] = output.decode("utf-8", "surrogateescape")
        if self.leftovers is not None:
            form["leftovers"] = self.leftovers.to_json()
        return form


def run(
    argv: Sequence[str | bytes | os.PathLike[str]],
    *,
    timeout_s: float | None = None,
    kill_plan: KillPlan | None = None,
    capture: bool = False,
    input: bytes | None = None,  # noqa: A002 - as subprocess.run has it
    containment: Containment | None = None,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run a command and wait for its end, like subprocess.run, but for the whole tree that it starts. No shell.

    When it returns, nothing of the tree lives: proven by a fresh cgroup (`containment` CGROUP), or, where none may be made, by a
    keeper that adopts orphans (DESCENDANTS). After the command's end, with a grace of 0.1 s, or after `timeout_s`, what lives is
    ended by `kill_plan` (TERM, 10 s, KILL), and what that leaves by SIGKILL, in at most 10 s. A plan whose last step has no time
    waits as long as that takes. A grandchild that holds a pipe hangs nobody. RunTimeout, after `timeout_s`, carries the result so
    far. On KeyboardInterrupt and any other error all of it is killed at once.

    Raises RunUnproven, with the result so far, where no proof can be had: members are left that may not be signalled or that the
    kernel does not let go, or the job has killed its keeper, which only DESCENDANTS has. Then, after its own end or `timeout_s`,
    what can be found is killed, the leader with its group and session, and others may live. An exception that was under way has
    that as a note.

    `capture` gathers stdout and stderr in memory, without a limit: for output of unknown size pass a file as `stdout`. `input` is
    fed to stdin, else that is the null device. Raises InvalidArgument for `capture` beside `stdout` or `stderr` and for `input`
    beside `stdin`, SpawnError if the command did not start, Unsupported if `containment` cannot be had. Never raises for how
    the command ended: see `check()`, `succeeded`, `returncode`.
    """
    _check_arguments(kill_plan, containment, input, options)
    _refuse_doubles(options, content=input, capture=capture)
    deadline = deadline_after(timeout_s)
    root = choose_root(containment)
    pipes = Capture()
    job: Job = KeptJob() if root is None else CgroupJob(root)
    try:
        plan, gathered = _plan(argv, pipes, options, content=input, capture=capture)
        job.start(plan, _START_TIMEOUT_S if timeout_s is None else min(max(timeout_s, _START_LEAST_S), _START_TIMEOUT_S))
        pipes.close_theirs()
        watched = _Watched(job, pipes)
        in_time = watched.wait(job.leader_ended, job.leader_entries, deadline)
        leftovers = watched.clear(kill_plan or KillPlan.default(), grace_s=_LEFTOVER_GRACE_S if in_time else 0.0)
        pipes.drain()
        result = _result(plan.argv0, job, leftovers, gathered)
        _close(job, pipes)
    except BaseException as error:
        left = _close(job, pipes)
        if left is not None and not left.empty:
            error.add_note(f"cannot prove that nothing of it lives on: {_why(left)}")
        raise
    late = "" if in_time else f"it still ran after {timeout_s} s"
    if leftovers is not None and not leftovers.empty:
        raise RunUnproven(
            f"cannot prove that nothing of {plan.argv0!r} lives on: {_why(leftovers)}{late and '; ' + late}", result
        )
    if late:
        raise RunTimeout(f"{plan.argv0!r} was ended: {late}", result)
    return result


def _check_arguments(kill_plan: object, containment: object, content: object, options: Mapping[str, object]) -> None:
    """Before anything is made. An unknown name is a TypeError, as in any call; it says what subprocess.run's are called here."""
    for name in options.keys() - RunOptions.__annotations__.keys():
        hint = f"; {_SUBPROCESS_NAMES[name]}" if name in _SUBPROCESS_NAMES else ""
        raise TypeError(f"run() got an unexpected keyword argument {name!r}{hint}")
    kinds = {"kill_plan": (kill_plan, KillPlan), "containment": (containment, Containment), "input": (content, bytes)}
    for name, (value, kind) in kinds.items():
        if value is not None and not isinstance(value, kind):
            raise InvalidArgument(f"{name}: {value!r} is no {kind.__name__}")


def _refuse_doubles(options: RunOptions, *, content: bytes | None, capture: bool) -> None:
    for argument, meant, others in (("capture", capture, ("stdout", "stderr")), ("input", content is not None, ("stdin",))):
        for other in others:
            if meant and other in options:
                raise InvalidArgument(f"{other}: cannot be given together with {argument}")


def _why(left: TerminationReport) -> str:
    if left.survivors:
        return f"alive: {', '.join(map(str, left.survivors))}"
    return "its keeper was killed, or its members come and go faster than they are found: none was seen, which is no proof"


def _close(job: Job, pipes: Capture) -> TerminationReport | None:
    """Let go of both; what was left to be ended. An interrupt does not end this: it is begun anew, and raised afterwards."""
    late: BaseException | None = None
    report = None
    for _ in range(_CLOSE_TRIES):
        try:
            pipes.close()  # first: a job that is ended here must not wait for a reader
            report = job.close()
            break
        except BaseException as error:  # noqa: BLE001 - raised below
            late = late or error
    if late is not None:
        raise late
    return report


def _plan(
    argv: Sequence[str | bytes | os.PathLike[str]],
    pipes: Capture,
    options: RunOptions,
    *,
    content: bytes | None,
    capture: bool,
) -> tuple[SpawnPlan, tuple[bytearray | None, bytearray | None]]:
    """The plan with its pipes, and where the output will be."""
    plan = SpawnPlan(argv=argv, **_with_own_output(options))
    if content is not None:
        plan = replace(plan, stdin=pipes.open_input(content))
    if not capture:
        return plan, (None, None)
    stdout_fd, stdout = pipes.open_output()
    stderr_fd, stderr = pipes.open_output()
    return replace(plan, stdout=stdout_fd, stderr=stderr_fd), (stdout, stderr)


def _with_own_output(options: RunOptions) -> RunOptions:
    own: RunOptions = {}
    if _is_open(_STDOUT_FD):
        own["stdout"] = _STDOUT_FD
    if _is_open(_STDERR_FD):
        own["stderr"] = _STDERR_FD
    return {**own, **options}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class _Watched:
    """A job and its pipes, served while something is waited for."""

    def __init__(self, job: Job, pipes: Capture) -> None:
        self._job = job
        self._pipes = pipes

    def wait(self, until: Callable[[], bool], entries: Callable[[], list[tuple[int, int]]], deadline: float | None) -> bool:
        """Serve the pipes until `until()`; False at the deadline. `entries`: what to poll for it, beside a look now and then."""
        while not until():
            wait_s = shortest_s(RECHECK_S, left_s(deadline))
            if not wait_s:
                return False
            poll = select.poll()
            for fd, events in (*entries(), *self._pipes.entries()):
                poll.register(fd, events)
            self._pipes.serve(poll.poll(wait_s * 1000))
        return True

    def clear(self, plan: KillPlan, *, grace_s: float) -> TerminationReport | None:
        """End what lives on, step by step, reading on: who is asked to end may have something to say. None: nobody did."""
        if self._empty_within(grace_s):
            return None
        reports = []
        for sig, span_s in plan.steps:
            if self._job.is_lost():
                break
            kills = sig == signal.SIGKILL
            reports.append(self._job.terminate(KillPlan(steps=((sig, span_s if kills else 0.0),))))
            if reports[-1].empty or (not kills and self._empty_within(span_s)):
                break
        # Whatever the plan has left. It does nothing to an empty tree and says that it is one.
        reports.append(self._job.terminate(KILL_ALL, timeout_s=KILL_TIMEOUT_S))
        return replace(reports[-1], steps=tuple(step for report in reports for step in report.steps))

    def _empty_within(self, span_s: float | None) -> bool:
        """Whether nothing lives, as soon as that is so, or can never be told, or the time is over."""
        deadline = deadline_after(span_s)
        self.wait(lambda: self._job.is_empty() or self._job.is_lost(), self._job.empty_entries, deadline)
        return self._job.is_empty()


def _result(
    argv0: str, job: Job, leftovers: TerminationReport | None, gathered: tuple[bytearray | None, bytearray | None]
) -> RunResult:
    info = job.end()
    stdout, stderr = (None if part is None else bytes(part) for part in gathered)
    return RunResult(
        **{field.name: getattr(info, field.name) for field in fields(ExitInfo)},
        argv0=argv0,
        containment=job.containment,
        stdout=stdout,
        stderr=stderr,
        leftovers=leftovers,
    )
