"""One exhaustive search by Spin: the verifier is made, compiled and run. A truncated search is no answer."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from protocol.catalogue import Search

__all__ = ["Outcome", "make", "outcome_of", "run", "trace_of"]

_ERRORS = re.compile(r"errors: (\d+)")
_STATES = re.compile(r"^\s*(\S+) states, stored", re.MULTILINE)
_VIOLATION = re.compile(r"^pan:1: (.+?) \(at depth \d+\)", re.MULTILINE)
_TRUNCATED = re.compile(
    r"max search depth too small|out of memory|-DMEMLIM bound|hash table full|Interrupted|limit reached|exceeds|pan: warning",
    re.IGNORECASE,
)
_DEPTH = 200_000
_STEP = re.compile(r"^ *\d+:\s+proc +\d+ \((.*?):\d+\) \S+:(\d+) \(state \d+\)\s+\[(.*)\]$")
_SILENT = re.compile(r"^(IF|DO|\.\(goto\)|goto .*|\(1\)|else|sub-sequence:.*|\.|break|assert\(.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a search came to, in CPU time. `violation`: what Spin found first. `broken`: why the search is no answer."""

    states: int = 0
    seconds: float = 0.0
    violation: str = ""
    broken: str = ""

    def wrong(self, search: Search) -> str:
        """Why this is not what the search had to come to; empty if it is."""
        if self.broken:
            return f"no answer: {self.broken}"
        if search.breaks:
            if not self.violation:
                return f"NOT FOUND in {_count(self.states)}"
            squeezed = "".join(self.violation.split())
            return "" if "".join(search.breaks.split()) in squeezed else f"found another one: {self.violation}"
        if self.violation:
            return f"not clean: {self.violation}"
        return "" if self.states >= search.states else f"only {_count(self.states)}, and it had {_count(search.states)}"

    def line(self, search: Search) -> str:
        """For people."""
        wrong = self.wrong(search)
        if wrong:
            return f"{search.name}: {wrong}"
        if search.breaks:
            return f"{search.name}: found ({self.violation.replace(' violated', ''):.100})"
        return f"{search.name}: clean, {_count(self.states)}, {self.seconds:.0f} s"


def _count(states: int) -> str:
    return f"{states / 1e6:.1f} M states" if states >= 100_000 else f"{states} states"


def make(search: Search, folder: Path) -> str:
    """Build the verifier in `folder`, which is made. What went wrong; empty if nothing did."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    source = folder / search.source.name
    source.write_bytes(search.source.read_bytes())
    made = _tool(["spin", "-a", *search.flags, source.name], folder)
    if made or not (folder / "pan.c").exists():
        return f"spin: {made or 'made nothing'}"
    failed = _tool(["gcc", "-w", *_compiling(search), "-o", "pan", "pan.c"], folder)
    return f"gcc: {failed}" if failed else ""


def run(search: Search, folder: Path) -> Outcome:
    """Run the verifier, and keep in `folder` what a trace needs. Blocks for as long as it takes."""
    with (folder / "pan.out").open("w+", encoding="utf-8") as out:
        verifier = subprocess.Popen(["./pan", *_running(search)], cwd=folder, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(verifier.pid, 0)
        verifier.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return outcome_of(out.read(), usage.ru_utime + usage.ru_stime)


def _compiling(search: Search) -> list[str]:
    """A fault is found within seconds, breadth first so that its trace is short; there the compiler takes the most time."""
    flags = ["-O0", "-DSAFETY", "-DBFS"] if search.breaks else ["-O2", "-DNP" if search.cycles else "-DSAFETY"]
    return [*flags, *(["-DCOLLAPSE"] if search.collapse else []), f"-DMEMLIM={search.memory_gib * 1024}"]


def _running(search: Search) -> list[str]:
    if search.breaks:
        return ["-w20"]
    return [f"-m{_DEPTH}", "-w25" if search.states > 1_000_000 else "-w22", *(["-l"] if search.cycles else [])]


def _tool(command: list[str], folder: Path) -> str:
    """What it complained of; empty if it worked."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    said = (ended.stdout + ended.stderr).strip()
    return said[-500:] or f"status {ended.returncode}" if ended.returncode else ""


def outcome_of(output: str, seconds: float) -> Outcome:
    """Read what the verifier said. Anything that is not a search of everything, or a violation, is broken."""
    errors, states, violation = _ERRORS.search(output), _STATES.search(output), _VIOLATION.search(output)
    if errors is None or states is None:
        return Outcome(broken=output.strip()[-300:] or "pan said nothing")
    seen = int(float(states[1]))
    if violation is not None:
        if violation[1].startswith(("invalid", "assertion", "non-progress")):
            return Outcome(states=seen, seconds=seconds, violation=violation[1])
        return Outcome(states=seen, broken=violation[1])
    if truncated := _TRUNCATED.search(output) or re.search("Search not completed", output):
        return Outcome(states=seen, broken=truncated[0])
    if int(errors[1]):
        return Outcome(states=seen, broken=f"{errors[1]} errors, and none is named")
    return Outcome(states=seen, seconds=seconds)


def trace_of(search: Search, folder: Path) -> Iterator[str]:
    """The steps that lead to what was found, a line each: who, the line of the model, what. Nothing if nothing was found."""
    source = search.source.name
    if not (folder / f"{source}.trail").exists():
        return
    shown = subprocess.run(["spin", "-t", "-p", *search.flags, source], cwd=folder, capture_output=True, text=True, check=False)
    for line in shown.stdout.splitlines():
        step = _STEP.match(line)
        if step is not None and not _SILENT.match(step[3]):
            yield f"{step[1]:8} {source}:{step[2]:5} {step[3]:.110}"
