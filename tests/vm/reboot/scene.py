"""Steps in every stage of their lives, for whoever cuts the power next: `python -m tests.vm.reboot.scene`.

Says `ready` once each stands where it should. Nothing is synced here but what the product syncs, and what a hook says of itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spurproc import Hook, KillPlan, RuntimeId, SpawnPlan, Step, StepSpec, StepState, launch
from tests.fifo import Told

FOLDER = Path("/var/lib/spurproc-test-reboot")
STATE = FOLDER / "state"
HOOKS = FOLDER / "hooks"
"""A line for each hook that has run: its name, and its step."""
ENDED, UNACKNOWLEDGED, RUNNING, EMPTYING, IN_PROLOG, IN_EPILOG = (RuntimeId(job, 1, 0) for job in range(1, 7))
EXTERN = RuntimeId(7, 1, RuntimeId.EXTERN)
_WAIT_S = 60.0


def hook(name: str, then: str = "") -> Hook:
    """Leaves a line that the loss of power does not take, and then does something."""
    said = f"echo {name} $SPURPROC_STEP >>{HOOKS}; sync {HOOKS}; {then}"
    return Hook(argv=("sh", "-c", said), timeout_s=3600.0)


def start(runtime_id: RuntimeId, script: str | None, **more: Any) -> Step:
    """A step that runs this script."""
    plan = None if script is None else SpawnPlan(argv=["sh", "-c", script])
    return launch(StepSpec(runtime_id=runtime_id, plan=plan, **more), STATE, timeout_s=0.0 if "prolog" in more else _WAIT_S)


def play(say: Told) -> None:
    """All of them."""
    tell = f"echo up >{say.path}"
    start(ENDED, "exit 3", epilog=hook("epilog")).wait(_WAIT_S, completed=True)
    Step.open(STATE, ENDED).acknowledge()
    start(UNACKNOWLEDGED, "kill -9 $$").wait(_WAIT_S, completed=True)
    start(RUNNING, f"{tell}; exec sleep 3600", epilog=hook("epilog"))
    assert say.line() == "up"
    patient = KillPlan(steps=((15, 3600.0), (9, None)))
    emptying = start(
        EMPTYING, f"(trap '' TERM; setsid sh -c '{tell}; sleep 3600; :' &); exit 5", epilog=hook("epilog"), kill_plan=patient
    )
    assert say.line() == "up"
    assert emptying.wait(_WAIT_S).code == 5
    assert emptying.status().state is StepState.EMPTYING
    start(IN_PROLOG, "exit 6", prolog=hook("prolog", f"{tell}; exec sleep 3600"), epilog=hook("epilog"))
    assert say.line() == "up"
    start(IN_EPILOG, "exit 7", epilog=hook("epilog", f"{tell}; exec sleep 3600"))
    assert say.line() == "up"
    start(EXTERN, None)


if __name__ == "__main__":
    FOLDER.mkdir(mode=0o700)
    with Told(FOLDER / "say") as told, open(told.path, "wb"):  # else it ends with the first who has told something
        play(told)
    print("ready", flush=True)
