"""Processes that /proc hides from other users: hidden is not gone."""

from __future__ import annotations

import signal
import subprocess

import pytest

from spurproc.core.facilities import Facilities
from spurproc.core.process.identity import ProcessIdentity, forget_reader
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.liveness import liveness_many
from spurproc.errors import AlreadyGone, IdentityUnreadable, NotPermitted, Unsupported, WaitTimeout
from tests.relatives import NOBODY, Blocked, in_fork
from tests.rungs import RUNGS, without


@pytest.mark.parametrize("hidepid", [1, 2, 4])
@pytest.mark.own_pid_namespace(mount=True)
def test_hidepid_hides_and_proves_nothing(hidepid: int) -> None:
    """As another user behind hidepid: a live process is never GONE, on any rung."""
    subprocess.run(["mount", "-t", "proc", "-o", f"hidepid={hidepid}", "proc", "/proc"], check=True)
    forget_reader()
    with Blocked() as child:
        identity = ProcessIdentity.of(child.pid)
        seen = {mask: in_fork(lambda mask=mask: _seen(identity, mask), uid=NOBODY) for mask in RUNGS}  # type: ignore[misc]
        child.reap()
        after = {mask: in_fork(lambda mask=mask: _seen(identity, mask), uid=NOBODY) for mask in RUNGS}  # type: ignore[misc]
    for mask in RUNGS:
        with without(mask) as facilities:
            strong = facilities.pidfs_inode
        assert seen[mask]["liveness"] == ("alive" if strong else "unknown"), mask
        assert (seen[mask]["evidence"] == "hidden") is not strong, mask
        assert "hides" in seen[mask]["of"], mask
        assert after[mask]["liveness"] == "gone", mask


def _seen(identity: ProcessIdentity, mask: str) -> dict[str, str]:
    with without(mask):
        seen = identity.observe()
        try:
            of = str(ProcessIdentity.of(identity.pid))
        except (IdentityUnreadable, AlreadyGone) as error:
            of = str(error)
        return {"liveness": seen.liveness.value, "evidence": seen.evidence, "of": of}


@pytest.mark.parametrize("hidepid", [1, 2, 4])
@pytest.mark.own_pid_namespace(mount=True)
def test_hidden_process_is_held_by_pidfd_or_refused(hidepid: int) -> None:
    subprocess.run(["mount", "-t", "proc", "-o", f"hidepid={hidepid}", "proc", "/proc"], check=True)
    forget_reader()
    with Blocked() as child:
        if Facilities.current().pidfd_open:
            refusal = "NotPermitted" if Facilities.current().pidfd_send_signal else "Unsupported"
            assert in_fork(lambda: _held(child.pid, ""), uid=NOBODY) == f"alive {refusal}"
        assert in_fork(lambda: _held(child.pid, "pidfd_open"), uid=NOBODY) == "cannot open"


def _held(pid: int, mask: str) -> str:
    with without(mask):
        try:
            pidfd = Pidfd.open(pid)
        except NotPermitted:
            return "cannot open"
        with pidfd:
            try:
                pidfd.send_signal(signal.SIGKILL)
            except (NotPermitted, Unsupported) as error:
                return f"{pidfd.liveness().value} {type(error).__name__}"
            return "sent"


@pytest.mark.parametrize("hidepid", [1, 2, 4])
@pytest.mark.own_pid_namespace(mount=True)
def test_folder_held_from_before_is_not_gone_when_hidden(hidepid: int) -> None:
    """Opened with rights and asked without them: ENOENT of what is in the folder is not the end of its process."""
    subprocess.run(["mount", "-t", "proc", "-o", f"hidepid={hidepid}", "proc", "/proc"], check=True)
    with without("pidfd_open"), Blocked() as child, Pidfd.open(child.pid) as pidfd:
        ask = lambda: [pidfd.liveness().value, liveness_many([pidfd])[0].value, _waited(pidfd)]  # noqa: E731
        assert in_fork(ask, uid=NOBODY) == ["unknown", "unknown", "still runs"]
        child.reap()
        assert in_fork(ask, uid=NOBODY) == ["gone", "gone", "ended"]


def _waited(pidfd: Pidfd) -> str:
    try:
        pidfd.wait(timeout_s=0, reap_grace_s=0)
    except WaitTimeout:
        return "still runs"
    return "ended"
