"""What is seen of a job while it is waited for: one line that moves on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from spurproc.agent.cli.fields import attempt_fields, end_cell, job_fields, state_cell
from spurproc.agent.service.replies import Changed, Ended
from spurproc.agent.service.shown import JobView
from spurproc.command_line.answer import Cell, Line, Toned
from spurproc.command_line.escape import escaped
from spurproc.command_line.output import Stream

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Progress", "submitted_text", "warning_line"]


class Progress:
    """Of one job. Use it as a context manager: the moving line is gone afterwards, and the last word stands."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self._stream = Stream(command, as_json=as_json)
        self._as_json = as_json
        self._moving = _MovingLine() if not as_json and sys.stdout is not None and sys.stdout.isatty() else None

    def submitted(self, job_id: int, *, repeated: bool, warnings: tuple[str, ...] = ()) -> None:
        """That there is one, and what is to be known of it."""
        fields = {"event": "submitted", "job_id": job_id, "repeated": repeated, "warnings": list(warnings)}
        self._stream.put(fields, Line(submitted_text(job_id, repeated=repeated)), *map(warning_line, warnings))

    def changed(self, standing: Changed) -> None:
        """How it stands now."""
        if self._moving is not None:
            self._moving.show(standing.job)
        else:
            self._stream.put({"event": "changed", "job": job_fields(standing.job)}, Line(_line(standing.job)))

    def away(self, why: str) -> None:
        """That nobody tells just now, and we go on asking."""
        if self._moving is not None:
            self._moving.note(why)
        else:
            self._stream.put({"event": "agent-away", "reason": why}, Line(f"{why}; asking again"))

    def absent(self, path: str) -> None:
        """That there is nobody yet to be asked, for programs; people are told on standard error."""
        if self._as_json:
            self._stream.put({"event": "agent-away", "reason": f"no agent answers at {path!r}"})

    def ended(self, standing: Ended, exit_code: int) -> None:
        """How it ended. The last word."""
        self._stop()
        fields = {"event": "ended", "job": job_fields(standing.job), "exit_code": exit_code}
        fields["attempt"] = None if standing.attempt is None else attempt_fields(standing.attempt)
        self._stream.put(fields, Line(_last_line(standing)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._moving is not None:
            self._moving.stop()


def submitted_text(job_id: int, *, repeated: bool) -> str:
    """For people."""
    return f"job {job_id} was submitted before with this key" if repeated else f"submitted job {job_id}"


def warning_line(warning: str) -> Line:
    """For people."""
    return Line(Toned(f"warning: {warning}", "weak"))


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def _line(job: JobView) -> str:
    because = "" if job.held_because is None else f": {job.held_because}"
    return f"job {job.attempt}: {_text(state_cell(job))}{because}"


def _last_line(standing: Ended) -> Cell:
    attempt = standing.attempt
    if attempt is None or attempt.end is None:
        return Toned(f"job {standing.job.attempt}: ended, and nobody knows how", "weak")
    cell = end_cell(attempt.end, cancelled=attempt.cancelled)
    fault = "" if attempt.node_fault is None else f", for {attempt.node_fault}"
    text = f"job {attempt.attempt}: {_text(cell)}{fault}"
    return text if isinstance(cell, str) else Toned(text, cell.tone)


class _MovingLine:
    """One line on a terminal, drawn again a few times a second. Loads rich when it is first shown."""

    _FRAMES = "|/-\\"

    def __init__(self) -> None:
        self._job: JobView | None = None
        self._since = time.monotonic()
        self._note = ""
        self._live: AbstractContextManager[Any] = nullcontext()
        self._lives = False

    def show(self, job: JobView) -> None:
        """From now on."""
        if self._job is None or state_cell(job) != state_cell(self._job):
            self._since = time.monotonic()
        self._job, self._note = job, ""
        self._start()

    def note(self, text: str) -> None:
        """Beside it, until it changes."""
        self._note = text
        self._start()

    def stop(self) -> None:
        """Wipe it. May be called twice."""
        if self._lives:
            self._lives = False
            self._live.__exit__(None, None, None)

    def _start(self) -> None:
        if self._lives:
            return
        from rich.console import Console  # noqa: PLC0415 - for a terminal alone
        from rich.live import Live  # noqa: PLC0415

        console = Console(markup=False, emoji=False, highlight=False)
        self._live = Live(get_renderable=self._renderable, console=console, transient=True, refresh_per_second=4)
        self._live.__enter__()
        console.show_cursor()  # else whoever is killed here leaves a terminal without one
        self._lives = True

    def _renderable(self) -> RenderableType:
        from rich.text import Text  # noqa: PLC0415 - for a terminal alone

        spent_s = int(time.monotonic() - self._since)
        frame = self._FRAMES[int(time.monotonic() * 4) % len(self._FRAMES)]
        clock = f"{spent_s // 3600}:{spent_s // 60 % 60:02}:{spent_s % 60:02}"
        parts = [f"{frame} {clock}", "" if self._job is None else f"{_line(self._job)}  {self._job.name}", self._note]
        return Text(escaped("  ".join(filter(None, parts))), no_wrap=True, overflow="ellipsis")
