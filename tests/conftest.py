"""The harness: needs, allowed skips, namespaces of one's own, the leak guard, payloads and cgroups.

How a run is built: `reaper` puts a process above the runner that takes in orphans; a test marked `own_pid_namespace` is run
again by `namespace` in a pytest of its own; every test is surrounded by `leaks.guarded`; every skip goes through `skips`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from spurproc.core.spawn.program import program_fd
from tests import cgroup_folder, leaks, namespace, reaper, requirements, sandbox, side_by_side, skips, sole_listener
from tests.payload import Payload, build

_LEFT_BEHIND = "the test left behind:\n  "


class _Outside:
    """The guard for tests that run in another process, where the fixture below cannot see what they leave to us."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if item.get_closest_marker("forked") is None and not namespace.wanted(item):
            return (yield)
        before = leaks.Snapshot.take()
        result = yield
        found = before.leaks()
        if found:
            text = _LEFT_BEHIND + "\n  ".join(found)
            item.ihook.pytest_runtest_logreport(
                report=pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "teardown")
            )
        return result


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers; every run has a cgroup root of its own, so that runs side by side do not meet."""
    for marker in (*requirements.MARKERS, namespace.MARKER):
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(_Outside())
    if namespace.inside():
        config.pluginmanager.register(namespace.recorder(config))
    for plugin in side_by_side.plugins(config):
        config.pluginmanager.register(plugin)
    if cgroup_folder.base() is not None:
        os.environ["SPURPROC_CGROUP_ROOT"] = str(cgroup_folder.session_folder() / "root")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main() -> None:
    """Put the reaper above us, before there is anything that a fork could harm; enter the sandbox that the run is meant for."""
    reaper.split(_remove_session_folder)
    sandbox.enter()


def pytest_report_header() -> str:
    """Say which spurproc is under test: the source tree or an installed wheel."""
    import spurproc  # noqa: PLC0415 - --help and --markers need no build

    return f"spurproc: {Path(str(spurproc.__file__)).parent}"


def pytest_sessionstart() -> None:
    """Make the folder of this run, in which the code under test makes its root."""
    if cgroup_folder.base() is not None:
        cgroup_folder.session_folder().mkdir(exist_ok=True)


def _remove_session_folder() -> None:
    # A run inside a namespace leaves that to the run that started it.
    if not namespace.inside() and cgroup_folder.base() is not None:
        cgroup_folder.remove(cgroup_folder.session_folder())


def _unmet(item: pytest.Item) -> str | None:
    return requirements.unmet(item) or namespace.unmet(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, before any fixture is made."""
    missing = _unmet(item)
    if missing is not None:
        pytest.skip(missing)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send a marked test into its namespace."""
    if not namespace.wanted(item) or _unmet(item) is not None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in namespace.run_inside(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.session._setupstate.teardown_exact(nextitem)  # what pytest-forked does: it has no public name
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip that is not allowed into a failure."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        refusal = skips.refusal(reason)
        if refusal is not None:
            report.outcome = "failed"
            report.longrepr = refusal
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that skips itself hides every test in it: never allowed."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"a module may not skip itself: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def held_program() -> None:
    """The static program's descriptor is opened once and held for the life of the process: no test leaks it."""
    program_fd()


@pytest.fixture(autouse=True)
def leak_guard() -> Iterator[None]:
    """No process, zombie, descriptor or cgroup may be there after a test that was not there before it."""
    before = leaks.Snapshot.take()
    yield
    found = before.leaks()
    if found:
        pytest.fail(_LEFT_BEHIND + "\n  ".join(found), pytrace=False)


@pytest.fixture(autouse=True)
def alone_if_listening(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests that hear of the kernel's process events hear of each other too: one at a time on this machine."""
    with sole_listener.alone() if request.node.get_closest_marker("needs_proc_events") else nullcontext():
        yield


@pytest.fixture
def cgroup_root() -> Iterator[Path]:
    """A fresh, empty cgroup2 folder of this test's own, removed afterwards with all that is in it.

    Mark the test `needs_cgroup_v2`. It is never a parent of another test's cgroups, so it may be killed and frozen.
    """
    folder = cgroup_folder.make()
    yield folder
    cgroup_folder.remove(folder)


@pytest.fixture
def payload() -> Iterator[Callable[..., Payload]]:
    """Start tests/payload/<name>.c: `payload("hold", "7", cgroup=folder)`. All are ended and reaped afterwards."""
    started: list[Payload] = []

    def start(name: str, *arguments: str, cgroup: Path | None = None) -> Payload:
        started.append(Payload(build(name), *arguments, cgroup=cgroup))
        return started[-1]

    yield start
    for each in reversed(started):
        each.close()


@pytest.fixture
def payload_program() -> Callable[[str], Path]:
    """The path of the program made from tests/payload/<name>.c, to be started by the code under test."""
    return build
