"""Runs the suites inside the guest: `python3 -m tests.vm.suites PART...`, by the guest's own Python, which has no pytest of ours.

Each test file runs in a systemd service of its own, so that one that hangs costs its own time only, and an OOM kill in a cgroup
of a job does not end the run (OOMPolicy=continue). A part is a folder of tests or a single file; it ends with one line of totals.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
import venv
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
SITE = Path("/mnt/project/site.tar")
_FILE_TIMEOUT_S = 1800
_TOTALS = re.compile(r"^=* ?((?:\d+ \w+, )*\d+ \w+) in [\d.]+s")
_SKIP = re.compile(r"^SKIPPED \[\d+\] \S+ (?P<reason>.*)")
# No test of it touches the kernel: nothing there hangs, and each file by itself would only cost its start.
_AT_ONCE = ("tests/unit",)
# Linux 6.1 lacks what came later; the guest has all else that a test may need.
_ALLOWED_SKIPS = ("needs_facility(", "needs_kernel(")


@dataclass(slots=True)
class Part:
    """What came of one part: pytest's words with their counts, and what is wrong besides."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether a test failed, or a file gave no answer, or a skip hid a test that this guest could have run."""
        return bool(self.faults or self.counts["failed"] or self.counts["error"] or not self.counts["passed"])

    def take(self, line: str, file: str) -> bool:
        """Note what a line of pytest's output says; whether these were the totals of `file`."""
        totals, skip = _TOTALS.match(line), _SKIP.match(line)
        if totals:
            self.counts.update(_counts(totals[1]))
        elif skip and not skip["reason"].startswith(_ALLOWED_SKIPS):
            self.faults.append(f"skipped in {file}: {skip['reason']}")
        return totals is not None

    def end(self, file: str, status: int, *, counted: bool) -> None:
        """Note that pytest has ended: a good end has totals and status 0, whatever the totals say."""
        if not counted:
            self.faults.append(f"{file} ended without totals (status {status})")
        elif status != 0:
            self.faults.append(f"{file} ended with status {status}")

    def totals(self, took_s: float) -> str:
        """In the words of pytest."""
        words = [f"{self.counts[word]} {word}" for word in ("failed", "passed", "skipped", "error") if self.counts[word]]
        return f"== {self.name}: {', '.join([*words, *self.faults]) or 'nothing ran'} in {took_s:.0f}s"


def install() -> None:
    """An environment with the wheel and what the tests need, as the host has unpacked them; what was there before is dropped."""
    shutil.rmtree(VENV, ignore_errors=True)
    venv.create(VENV, symlinks=True)
    site = VENV / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    subprocess.run(["tar", "-xf", SITE, "-C", site], check=True)
    for script in Path(site, "bin").iterdir():
        _, _, text = script.read_text(encoding="utf-8").partition("\n")
        own = VENV / "bin" / script.name
        own.write_text(f"#!{VENV}/bin/python\n{text}", encoding="utf-8")
        own.chmod(0o755)


def run_part(name: str) -> Part:
    """Run the files of one part, one after the other, and say what came of them."""
    part, begin = Part(name=name), time.monotonic()
    for file in _files(name):
        print(f"-- {file}", flush=True)
        _run_file(file, part)
    print(part.totals(time.monotonic() - begin), flush=True)
    return part


def _files(name: str) -> list[str]:
    path = ROOT / name.partition("::")[0]
    return (
        [name]
        if path.is_file() or name in _AT_ONCE
        else [str(file.relative_to(ROOT)) for file in sorted(path.rglob("test_*.py"))]
    )


def _run_file(file: str, part: Part) -> None:
    counted = False
    with subprocess.Popen(_command(file), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        for line in service.stdout:
            print(line, end="", flush=True)
            counted = part.take(line, file) or counted
    part.end(file, service.returncode, counted=counted)


def _command(file: str) -> list[str]:
    environment = {"HOME": "/root", "SPURPROC_STRICT": "1", "SPURPROC_VM": "1"}
    properties = {"OOMPolicy": "continue", "RuntimeMaxSec": str(_FILE_TIMEOUT_S)}
    return [
        *("systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--same-dir"),
        *(f"--setenv={name}={value}" for name, value in environment.items()),
        *(f"--property={name}={value}" for name, value in properties.items()),
        *(str(VENV / "bin/python"), "-m", "pytest", "-p", "no:cacheprovider", "--quiet", "--no-header", file),
    ]


def _counts(totals: str) -> dict[str, int]:
    pairs = (entry.split(" ", 1) for entry in totals.split(", "))
    return {word.replace("errors", "error"): int(count) for count, word in pairs}


def main(names: list[str]) -> int:
    """Exit status 1 if any part failed."""
    install()
    parts = [run_part(name) for name in names]
    return int(any(part.failed for part in parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
