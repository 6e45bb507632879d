"""A second run of pytest beside this one: tests wait more than they compute, and there is more than one processor.

Both collect the same tests; this one goes through the files from the first on, the other from the last on, and each takes a
file that the other has not taken. The other has a reaper, a cgroup root and everything else of its own. Its reports are handed
to this run when both are through, which tells of all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cgroup_folder import TOKEN_VARIABLE
from tests.pace import readable
from tests.pidfds import open_pidfd
from tests.reports import Recorder, failed, recorded

VARIABLE = "SPURPROC_TEST_SIDE_BY_SIDE"
"""Environment variable: 1 asks for a second run; in that one, the folder over which the two speak."""
_ENDS_WITHIN_S = 3600.0
_OF_ONE_RUN = (TOKEN_VARIABLE, "SPURPROC_CGROUP_ROOT")


def plugins(config: pytest.Config) -> list[object]:
    """What this run needs beside the harness: nothing, if it is to be alone. Tests that start a pytest do not pass that on."""
    asked = os.environ.pop(VARIABLE, "")
    if asked in ("", "0"):
        return []
    if asked == "1":
        return [_First(config)]
    folder = Path(asked)
    return [_Second(folder), Recorder(config, folder / "reports")]


class _Taking:
    """Runs the tests of the files that it was the first to take."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: dict[str, bool] = {}

    def _take(self, file: str) -> bool:
        if file not in self._taken:
            try:
                self._folder.joinpath(file.replace("/", "!")).touch(exist_ok=False)
                self._taken[file] = True
            except FileExistsError:
                self._taken[file] = False
        return self._taken[file]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Leave it to the other run if that has its file."""
        if self._take(_file(item)):
            return None
        item.session._setupstate.teardown_exact(nextitem)  # what was set up for the tests before it: it has no public name
        return True


class _Second(_Taking):
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """From the last file on; the tests of a file stay in order."""
        places = {file: place for place, file in enumerate(dict.fromkeys(map(_file, items)))}
        items.sort(key=lambda item: -places[_file(item)])


class _First(_Taking):
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._holder = tempfile.TemporaryDirectory(prefix="spurproc-side-by-side-")
        super().__init__(Path(self._holder.name))
        self._reported: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember who is through."""
        if report.when == "teardown":
            self._reported.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Run half of it here, and the other half beside."""
        if session.config.option.collectonly or session.testsfailed:
            return (yield)
        with self._holder:
            pidfd = self._start()
            try:
                result = yield
                readable(pidfd, _ENDS_WITHIN_S)
            finally:
                os.close(pidfd)
            self._hand_over(session)
        return result

    def _start(self) -> int:
        """A child of the reaper, not of this run: a test may wait for any child that it has. What is left, the reaper ends."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *self._config.invocation_params.args]
        detached = ["sh", "-c", '"$@" >"$0" 2>&1 </dev/null & echo $!', str(self._folder / "output"), *command]
        env = {name: value for name, value in os.environ.items() if name not in _OF_ONE_RUN} | {VARIABLE: str(self._folder)}
        said = subprocess.run(detached, env=env, cwd=self._config.invocation_params.dir, capture_output=True, check=True)
        return open_pidfd(int(said.stdout))

    def _hand_over(self, session: pytest.Session) -> None:
        for report in recorded(self._config, self._folder / "reports"):
            session.ihook.pytest_runtest_logreport(report=report)
        missing = [item.nodeid for item in session.items if item.nodeid not in self._reported]
        if missing:
            output = (self._folder / "output").read_text(errors="replace")
            text = f"{len(missing)} tests were run by nobody; the run beside this one said:\n{output[-20_000:]}"
            session.ihook.pytest_runtest_logreport(report=failed(missing[0], text))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
