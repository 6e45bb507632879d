"""One run of some tests on the copy, where a fault can hit nothing but itself.

It has a pid and a mount namespace of its own, whose init takes everything along when it is killed, a cgroup folder of its own
(tests/cgroup_folder.py), and a time that it may take.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import cgroup_folder
from tests.mutation.scratch import Scratch

__all__ = ["Trial", "run"]

_ALONE = ("nice", "-n", "10", "unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL")
# In the place of the host's /proc, not over it: a test that takes /proc away must not find that one below.
_OWN_PROC = ("sh", "-c", 'umount --lazy /proc && mount -t proc proc /proc && exec "$@"', "sh")
_PYTEST = ("-m", "pytest", "--exitfirst", "--verbose", "--no-header", "--tb=short", "-p", "no:cacheprovider")
# hypothesis needs no plugin to be used, and takes half the time of a short run to be imported as one.
_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_forked"}
_PASSED, _FAILED = 0, 1
_BAD = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_BEGUN = re.compile(r"^(tests/\S+::\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of it. `noticed`: who noticed, and how; empty where all tests passed. `broken`: nothing can be said.

    `hung`: it stood still in a test until the limit, for ever or because the machine is slow.
    """

    noticed: str
    broken: bool
    hung: bool
    seconds: float
    output: str


def run(scratch: Scratch, tests: Sequence[str], limit_s: float) -> Trial:
    """Run `tests` until one fails, for at most `limit_s`."""
    token = f"mutant-{os.getpid()}-{secrets.token_hex(4)}"
    output = scratch.root / "output"
    begun = time.monotonic()
    try:
        status, quiet_s = _run(scratch, tests, output, token, limit_s)
    finally:
        _remove_cgroups(token)
    seconds, text = time.monotonic() - begun, output.read_text(encoding="utf-8", errors="replace")
    # Ended at the limit before the first test, or in the middle of one quick test after the other: slow, and no hang.
    slow = status is None and (not _BEGUN.search(text) or quiet_s < limit_s / 2)
    broken = slow or _broken(status, text)
    return Trial(noticed=_noticed(status, text, limit_s), broken=broken, hung=status is None, seconds=seconds, output=text)


def _run(scratch: Scratch, tests: Sequence[str], output: Path, token: str, limit_s: float) -> tuple[int | None, float]:
    """The exit status; None: it was killed at the limit, and had said nothing for so many seconds. Who is killed may say more."""
    command = [*_ALONE, *_OWN_PROC, str(scratch.python), *_PYTEST, "--basetemp", str(scratch.root / "tmp"), *tests]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPURPROC_")}
    environment = kept | _PLUGINS | {"SPURPROC_TEST_TOKEN": token}
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, cwd=scratch.root, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
        )
        try:
            return process.wait(limit_s), 0.0
        except subprocess.TimeoutExpired:
            return None, time.time() - output.stat().st_mtime
        finally:
            process.kill()
            process.wait()


def _remove_cgroups(token: str) -> None:
    base = cgroup_folder.base()
    if base is None:
        return
    folder = base / f"{cgroup_folder.PREFIX}{token}"
    try:
        cgroup_folder.remove(folder)
    except RecursionError:  # a test makes a very deep one, and its own cleaning up may be what the fault has hit
        subprocess.run(["find", str(folder), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], check=True)


def _noticed(status: int | None, text: str, limit_s: float) -> str:
    if status == _PASSED:
        return ""
    last = (_BEGUN.findall(text) or ["the start"])[-1]
    if status is None:
        return f"{last}, which hung: ended from outside after {limit_s:g} s"
    if status == _FAILED:
        return str((_BAD.findall(text) or [last])[0])
    return f"{last}, in which the run itself ended with status {status}"


def _broken(status: int | None, text: str) -> bool:
    """Tests that cannot be collected or are not there, or all of them skipped, notice nothing."""
    if status in (_PASSED, _FAILED):
        return " passed" not in text and " failed" not in text and " error" not in text
    return "ERROR collecting" in text or "no tests ran" in text or "ERROR: not found" in text
