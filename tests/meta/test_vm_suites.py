"""What the run in the virtual machine makes of pytest's output: it must not pass for want of an answer."""

from __future__ import annotations

import pytest

from tests.vm.suites import Part

GOOD = "3 passed, 1 skipped in 0.51s"


def part_of(*lines: str) -> Part:
    part = Part(name="tests/kernel")
    for line in lines:
        part.take(line + "\n", "tests/kernel/test_x.py")
    return part


def test_totals_are_added_up() -> None:
    part = part_of(GOOD, "250 passed in 187.42s (0:03:07)")
    assert (part.totals(188.0), part.failed) == ("== tests/kernel: 253 passed, 1 skipped in 188s", False)


@pytest.mark.parametrize(
    "line",
    ["1 failed, 4 passed in 1.00s", "4 passed, 2 errors in 1.00s", "==== 1 failed, 3 passed, 1 error in 520.85s (0:08:40) ===="],
)
def test_one_failure_fails_the_part(line: str) -> None:
    assert part_of(GOOD, line).failed


def test_a_part_without_a_test_that_passed_fails() -> None:
    assert part_of().failed
    assert part_of("2 skipped in 0.10s").failed


@pytest.mark.parametrize("reason", ["needs_controller(memory): the cgroup2 mount has []", "needs_root: the uid is 1"])
def test_a_skip_that_the_guest_could_have_run_fails_the_part(reason: str) -> None:
    part = part_of(f"SKIPPED [2] tests/conftest.py:85: {reason}", GOOD)
    assert part.failed
    assert reason in part.totals(1.0)


@pytest.mark.parametrize(("status", "counted"), [(2, True), (3, True), (137, False), (0, False)])
def test_good_totals_do_not_make_up_for_a_bad_end(status: int, counted: bool) -> None:
    """Interrupted, an internal error, killed: some tests had passed by then."""
    part = part_of(GOOD)
    part.end("tests/kernel/test_x.py", status, counted=counted)
    assert part.failed
    assert "tests/kernel/test_x.py ended with" in part.totals(1.0)


def test_a_skip_for_want_of_a_newer_kernel_is_fine() -> None:
    assert not part_of("SKIPPED [1] tests/conftest.py:85: needs_facility(pidfs_inode): the probe did not find it", GOOD).failed
