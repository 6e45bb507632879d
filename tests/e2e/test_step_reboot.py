"""After a reboot: an end that was recorded stays, any other is UNKNOWN and says why, and what is owed is still done, once.

Here the keepers are killed, and the records are made those of another boot. `tests/vm/reboot` cuts the power.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from spurproc import AlreadyGone, Cgroup, ExitKind, ExitSource, Hook, Liveness, Step, adopt, gc
from spurproc.core.vantage import read_boot_id
from tests.fifo import Gate, Told
from tests.steps import WAIT_S, Steps, folder_of

ANOTHER_BOOT = "00000000-0000-4000-8000-000000000000"
RESTARTED = "the machine was restarted before the end was recorded"
LEFT = {"whole": None, "empty": b"", "zeros": bytes(400), "half": b'{"v":1,"runtime'}
"""Of a descriptor, which is not fsynced, a power cut may leave the name, and of its content all, or nothing, or some."""


def cut(steps: Steps, say: Told, go: Gate, log: Path, at: str) -> Step:
    """A step that has come as far as `at`, its prolog, leader or epilog, or has completed, when all that keeps it is gone."""
    waits = f"exec 3>{say.path}; echo up >&3; read x <{go.path}"
    scripts = {name: f"echo {name} >>{log}; {waits if at == name else ':'}" for name in ("prolog", "leader", "epilog")}
    hooks: dict[str, Any] = {name: Hook(argv=("sh", "-c", scripts[name]), timeout_s=3600.0) for name in ("prolog", "epilog")}
    step = steps.launch(["sh", "-c", f"{scripts['leader']}; exit 5"], start=False, **hooks)
    step.start()
    if at == "completed":
        step.wait(WAIT_S, completed=True)
    else:
        assert say.line() == "up"
    keepers = steps.descriptor(step)
    for keeper in (keepers.host, keepers.supervisor):  # else the host makes a successor, which lives on
        with suppress(AlreadyGone) if at == "completed" else nullcontext():  # there they may have left by themselves
            steps.kill(keeper)
    go.open()
    if at != "completed":
        say.wait_end()
    if keepers.cgroup is not None:  # no reboot leaves one
        with suppress(AlreadyGone), Cgroup.open(keepers.cgroup.path) as cgroup:
            cgroup.remove(WAIT_S)
    return step


def make_older(step: Step, descriptor: bytes | None) -> None:
    """Its records are those of another boot."""
    for name in ("launch.json", "descriptor.json", "journal.jsonl"):
        path = folder_of(step) / name
        path.write_bytes(path.read_bytes().replace(read_boot_id().encode(), ANOTHER_BOOT.encode()))
    if descriptor is not None:
        (folder_of(step) / "descriptor.json").write_bytes(descriptor)


HOOKS_RUN = {
    "prolog": ["prolog", "epilog"],
    "leader": ["prolog", "leader", "epilog"],
    "epilog": ["prolog", "leader", "epilog"],
    "completed": ["prolog", "leader", "epilog"],
}


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("at", HOOKS_RUN)
def test_another_boot_ends_it_and_what_is_owed_is_done_once(
    steps: Steps, told: Callable[[str], Told], gate: Callable[[str], Gate], tmp_path: Path, at: str, left: str
) -> None:
    """Nothing of its tree lives, whatever its records say. It is adopted, concluded, acknowledged and removed as any other."""
    log = tmp_path / "log"
    make_older(cut(steps, told("say"), gate("go"), log, at), LEFT[left])
    adoption = adopt(steps.path)
    assert adoption.refused == ()
    (step,) = adoption.steps
    assert (step.status().liveness.liveness, step.status().liveness.evidence) == (Liveness.GONE, "boot")
    end = step.wait(WAIT_S, completed=True)
    if at in ("epilog", "completed"):
        assert (end.code, end.source) == (5, ExitSource.WAITED)
    else:
        assert (end.kind, end.reason) == (ExitKind.UNKNOWN, RESTARTED)
    assert log.read_text().split() == HOOKS_RUN[at]
    assert steps.history(step).emptied is not None
    step.acknowledge()
    assert gc(steps.path).removed == (step.runtime_id,)
