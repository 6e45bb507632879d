"""`spurproc-inspect signal`: one signal to a process or to a whole tree, and what became of it."""

from __future__ import annotations

import errno
import os
import signal as _signal
from dataclasses import replace
from typing import Any

import click

from spurproc.command_line.answer import Answer, Block, Cell, Facts, Grid, Toned
from spurproc.command_line.output import json_option
from spurproc.core.cgroup.signal_report import Refusal, RefusalReason, Route, SignalReport
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.signalling import signal_tree
from spurproc.errors import AlreadyGone, Busy, NotPermitted, SignalRefused, Unsupported
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.held import HeldFolder, open_folder, open_process
from spurproc.inspect.provenance import ROUTE, process_fields, process_rows, run_fields, run_rows, step_fields, step_rows
from spurproc.inspect.signal_name import SIGNAL, signal_text
from spurproc.inspect.target import TARGET, FolderTarget, StepTarget, Target

__all__ = ["command"]

_BY_PIDFD = "PIDFD"
_PIDFD_TEXT = "the pidfd of the process itself"


@click.command("signal")
@click.argument("target", type=TARGET)
@click.argument("signal", type=SIGNAL)
@click.option("--tree", "scope", flag_value="tree", help="All of the tree: what a FOLDER means. Of a PID: its group and session.")
@click.option("--leader", "scope", flag_value="leader", help="One process alone: what a PID means. Of a FOLDER: its leader.")
@json_option
def command(target: Target, signal: int, scope: str | None, as_json: bool) -> Answer:
    """Send SIGNAL to TARGET, and say whom it reached.

    SIGNAL is a name, with SIG or without, or a number; 0 only asks. Exit code 0 if it reached all that were found, 1 if that was
    nobody, if somebody refused, or if not all could be seen.
    """
    if isinstance(target, StepTarget):
        return _to_step(target, signal, alone=scope == "leader")
    if isinstance(target, FolderTarget):
        with open_folder(target) as folder:
            wide = scope != "leader"
            report = folder.run.signal(signal).to_json() if wide else _send(_leader_of(folder), signal)
            return _answer(run_fields(folder), run_rows(folder), "tree" if wide else "leader", report)
    with open_process(target) as process:
        wide = scope == "tree"
        report = signal_tree(process.tree(), signal).to_json() if wide else _send(process.pidfd, signal)
        return _answer(process_fields(process), process_rows(process), "tree" if wide else "process", report)


def _to_step(target: StepTarget, signal: int, *, alone: bool) -> Answer:
    from spurproc.client.act import nobody  # noqa: PLC0415 - as open_step
    from spurproc.inspect.held_step import open_step  # noqa: PLC0415 - see there

    step = open_step(target)
    if alone:
        leader = step.status().leader
        if leader is None:
            raise Busy(errno.EBUSY, f"cannot signal the leader of step {target.runtime_id}: none is recorded")
        with leader.open() as pidfd:
            return _answer(step_fields(target), step_rows(target), "leader", _send(pidfd, signal))
    act = step.signal(signal)
    report = (act.signals or nobody(signal)).to_json()
    by = "its supervisor" if act.supervised else "this program: no supervisor answers"
    answer = _answer(step_fields(target), [*step_rows(target), ("sent by", by)], "tree", report)
    return replace(answer, fields={**answer.fields, "supervised": act.supervised})


def _leader_of(folder: HeldFolder) -> Pidfd:
    leader = folder.run.leader
    if leader is None:
        raise Busy(errno.EBUSY, f"cannot signal the leader of the run in {folder.run.folder!r}: none is recorded")
    if folder.parts.leader is None:
        leader.open().close()  # says why it could not be held
        raise AlreadyGone(errno.ESRCH, f"cannot signal process {leader.pid}: it was not there a moment ago")
    return folder.parts.leader


def _send(pidfd: Pidfd, signal: int) -> dict[str, Any]:
    """To one process, through its pidfd; reported in the form of a tree's report."""
    refused: tuple[Refusal, ...] = ()
    reached = 0
    try:
        if pidfd.liveness() is Liveness.ALIVE:
            _ask(pidfd) if signal == 0 else pidfd.send_signal(signal)
            reached = 1
    except AlreadyGone:
        pass
    except NotPermitted as error:
        refused = (Refusal(pid=pidfd.pid, errno=error.errno or errno.EPERM, reason=RefusalReason.NOT_PERMITTED),)
    report = SignalReport(signal=signal, route=Route.NOBODY, signalled=reached, refused=refused, passes=1, complete=True)
    return report.to_json() | {"route": [_BY_PIDFD] if reached or refused else []}


def _ask(pidfd: Pidfd) -> None:
    """Signal 0, refused for whom the core refuses any other signal. Raises as Pidfd.send_signal does."""
    if pidfd.pid <= 1 or pidfd.pid == os.getpid():
        raise SignalRefused(f"cannot signal process {pidfd.pid}: it is this process, an init or out of this namespace")
    if not Facilities.current().pidfd_send_signal:
        raise Unsupported(f"cannot signal process {pidfd.pid}: it needs pidfd_send_signal(2), which is refused here")
    try:
        _signal.pidfd_send_signal(pidfd.fileno(), 0)
    except ProcessLookupError as error:
        raise AlreadyGone(errno.ESRCH, str(error)) from error
    except PermissionError as error:
        raise NotPermitted(error.errno or errno.EPERM, str(error)) from error


def _answer(target: dict[str, Any], rows: list[tuple[str, Cell]], scope: str, report: dict[str, Any]) -> Answer:
    report["refused"] = [who | {"error": os.strerror(who["errno"])} for who in report["refused"]]
    report["provenance"] = [_route_text(name) for name in report["route"]]
    return Answer(
        exit_code=_exit_code(report),
        fields={"target": target, "scope": scope, "report": report},
        blocks=_blocks(rows, scope, report),
    )


def _exit_code(report: dict[str, Any]) -> ExitCode:
    refused = report["refused"]
    if report["signalled"] and not refused and report["complete"]:
        return ExitCode.HOLDS
    if refused and not report["signalled"] and all(who["reason"] == RefusalReason.UNSUPPORTED.value for who in refused):
        return ExitCode.UNSUPPORTED
    return ExitCode.FAILS


def _blocks(rows: list[tuple[str, Cell]], scope: str, report: dict[str, Any]) -> list[Block]:
    to = {"process": "the process alone", "leader": "the leader alone", "tree": "the whole tree"}[scope]
    count = report["signalled"]
    reached = Toned(str(count), "good") if count else Toned("0: nobody was there to be signalled", "bad")
    if not count and report["refused"]:
        reached = Toned("0", "bad")
    rows = [*rows, ("signal", f"{signal_text(report['signal'])}, to {to}"), ("reached", reached)]
    rows += [("route", f"{name.lower().replace('_', ' ')}: {_route_text(name)}") for name in report["route"]]
    if scope == "tree":
        whole = "the last found nobody new" if report["complete"] else "the tree could not be seen whole"
        rows.append(("passes", f"{report['passes']}: {whole}"))
    if not report["refused"]:
        return [Facts(rows)]
    rows.append(("refused", Toned(str(len(report["refused"])), "bad")))
    grid = [(str(who["pid"]) if who["pid"] else "-", who["reason"], who["error"]) for who in report["refused"]]
    return [Facts(rows), Grid(("PID", "REFUSED", "ERROR"), grid, numbers=frozenset((0,)))]


def _route_text(name: str) -> str:
    return _PIDFD_TEXT if name == _BY_PIDFD else ROUTE[name]
