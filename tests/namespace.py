"""Run one test again in namespaces of its own, and bring its reports back.

A test that kills by number, forces a pid or lets a user signal everything may do so only where nothing but itself can be hit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.pace import at_this_pace
from tests.reports import Recorder, failed, recorded

MARKER = "own_pid_namespace(mount=, time=, user=, cgroup=, boottime_s=, timeout_s=): runs in a pid namespace of its own"
_INSIDE = "SPURPROC_TEST_NAMESPACE"
_REPORTS = "SPURPROC_TEST_REPORTS"
_TIMEOUT_S = 60.0
_KINDS = {"--pid", "--mount", "--cgroup", "--user", "--time"}


def wanted(item: pytest.Item) -> bool:
    """Whether the test must be run again inside: it is marked, and this is not the inside already."""
    return item.get_closest_marker("own_pid_namespace") is not None and not inside()


def inside() -> bool:
    """Whether this run is one that a marked test was sent to."""
    return _INSIDE in os.environ


def unmet(item: pytest.Item) -> str | None:
    """Why the namespaces that `item` is marked for cannot be had here, in the form of `requirements.unmet`; None if they can."""
    if not wanted(item):
        return None
    options = _options(item)
    options.pop("timeout_s", None)
    command = _unshare(**options)
    kinds = [word[2:] for word in command if word in _KINDS]
    why = _refused(tuple(command))
    return None if why is None else f"needs_namespace({', '.join(kinds)}): {why}"


@cache
def _refused(command: tuple[str, ...]) -> str | None:
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    return None if done.returncode == 0 else done.stderr.strip()


def _options(item: pytest.Item) -> dict[str, Any]:
    mark = item.get_closest_marker("own_pid_namespace")
    return {} if mark is None else dict(mark.kwargs)


def recorder(config: pytest.Config) -> Recorder:
    """Inside: hands each report to the run outside."""
    return Recorder(config, Path(os.environ[_REPORTS]))


def run_inside(item: pytest.Item) -> list[pytest.TestReport]:
    """Run `item`, once, in a new pytest under unshare(1) and return its reports. Blocks until it ends or its time is up."""
    options = _options(item)
    timeout_s = float(options.pop("timeout_s", _TIMEOUT_S))
    with tempfile.TemporaryDirectory(prefix="spurproc-namespace-") as folder:
        output, reports = Path(folder, "output"), Path(folder, "reports")
        ended = _run([*_unshare(**options), *_pytest(item)], output, reports, timeout_s)
        received = recorded(item.config, reports)
        if not any(report.when == "teardown" for report in received):
            # Died or was killed on the way: what it printed is all there is to see.
            text = f"the run in the namespace {ended} before the test was over:\n{output.read_text(errors='replace')}"
            received.append(failed(item.nodeid, text))
    return received


def _unshare(
    *, mount: bool = False, time: bool = False, user: bool = False, cgroup: bool = False, boottime_s: int | None = None
) -> list[str]:
    # --kill-child: when unshare dies, the init of the namespace gets SIGKILL, and with it everything inside.
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
    command += ["--mount"] if mount else []
    command += ["--cgroup"] if cgroup else []
    command += ["--user", "--map-root-user"] if user else []
    command += ["--time"] if time or boottime_s is not None else []
    command += ["--boottime", str(boottime_s)] if boottime_s is not None else []
    return command


def _pytest(item: pytest.Item) -> list[str]:
    config = item.config
    root = ["--rootdir", str(config.rootpath)]
    settings = ["-c", str(config.inipath)] if config.inipath is not None else []
    return [sys.executable, "-m", "pytest", *root, *settings, "-p", "no:cacheprovider", item.nodeid]


def _run(command: list[str], output: Path, reports: Path, timeout_s: float) -> str:
    environment = {**os.environ, _INSIDE: "1", _REPORTS: str(reports)}
    with output.open("wb") as sink:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
        try:
            return f"ended with status {process.wait(at_this_pace(timeout_s))}"
        except subprocess.TimeoutExpired:
            return f"was killed after {timeout_s:g} s"
        finally:
            process.kill()
            process.wait()
