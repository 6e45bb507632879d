"""What a step has used, its leader alone and all of it, is on record at its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import KillPlan
from spurproc.core.cgroup.limits import CgroupLimits
from spurproc.core.cgroup.root import ROOT_VARIABLE
from spurproc.errors import Unsupported
from tests.steps import WAIT_S, Steps, hand_down


def test_what_all_of_it_has_used_is_on_record(steps: Steps, payload_program: Callable[[str], Path]) -> None:
    """The leader's own by getrusage(2); the tree's, with what nobody waited for, by its cgroup."""
    burn = payload_program("burn")
    step = steps.launch(["sh", "-c", f"(setsid {burn} 200 & ); {burn} 100"], kill_plan=KillPlan(steps=((18, 60.0), (9, None))))
    end = step.wait(WAIT_S, completed=True)
    assert end.usage is not None
    assert end.usage.user_usec + end.usage.system_usec >= 90_000
    assert end.usage.max_rss_bytes > 0
    emptied = steps.history(step).emptied
    assert emptied is not None
    if steps.descriptor(step).cgroup is not None:
        assert emptied.usage is not None
        assert emptied.usage.cpu_usec is not None
        assert emptied.usage.cpu_usec >= 280_000


def test_a_limit_that_nobody_can_keep_is_an_error_or_on_record(bare_steps: Steps) -> None:
    """Where there is no cgroup at all as well."""
    limits = CgroupLimits(pids_max=50, cpus=1.0)
    with pytest.raises(Unsupported, match=r"cannot set pids\.max, cpu\.max: the step has no cgroup here"):
        bare_steps.launch(["true"], cgroup_limits=limits)
    step = bare_steps.launch(["true"], cgroup_limits=limits, limits_required=False)
    step.wait(WAIT_S, completed=True)
    assert bare_steps.descriptor(step).not_enforced == ("pids.max", "cpu.max")


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_controller("memory")
def test_the_most_memory_at_once_and_the_kills_for_want_of_it_are_on_record(
    steps: Steps, payload_program: Callable[[str], Path], cgroup_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(hand_down(cgroup_root, "memory")))
    step = steps.launch([str(payload_program("eat")), "64"], cgroup_limits=CgroupLimits(memory_max_bytes=1 << 24))
    end = step.wait(WAIT_S, completed=True)
    assert end.oom_kills
    emptied = steps.history(step).emptied
    assert emptied is not None
    assert emptied.usage is not None
    assert emptied.usage.oom_kills
    assert emptied.usage.memory_peak_bytes is None or emptied.usage.memory_peak_bytes <= 1 << 24
