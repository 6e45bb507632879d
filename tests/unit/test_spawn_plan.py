"""A plan that cannot mean anything is refused when it is made, and the message names the field."""

from __future__ import annotations

from typing import Any

import pytest

from spurproc.core.spawn.plan import SpawnPlan
from spurproc.errors import InvalidArgument

GOOD: dict[str, Any] = {"argv": ["/bin/true"]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("argv", []),
        ("argv", "ls -l"),
        ("argv", b"ls"),
        ("argv", [""]),
        ("stdin", -1),
        ("stdin", True),
        ("stdout", 1.5),
        ("stdout", ""),
        ("stderr", object()),
        ("groups", "wheel"),
        ("umask", -1),
        ("umask", 0o1000),
        ("umask", True),
        ("oom_score_adj", 1001),
        ("oom_score_adj", -1001),
        ("limits", {7: (2, 1)}),
        ("limits", {7: (-1, 1)}),
        ("limits", {7: 1}),
        ("limits", {7: (1, 2, 3)}),
        ("limits", {-1: (1, 1)}),
        ("limits", {"nofile": (1, 1)}),
        ("affinity", []),
        ("affinity", [-1]),
        ("affinity", [8192]),
        ("pass_fds", [2]),
        ("pass_fds", [-1]),
        ("pass_fds", [True]),
    ],
)
def test_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"^{field}: "):
        SpawnPlan(**(GOOD | {field: value}))


def test_limits_and_affinity_as_the_kernel_takes_them() -> None:
    """-1 is unlimited; a mask is a whole number of 8-byte words."""
    plan = SpawnPlan(**GOOD, limits={7: (100, -1)}, affinity=[0, 3, 64])
    assert plan.limits_packed == [(7, 100, 2**64 - 1)]
    assert plan.affinity_packed == bytes([9]) + bytes(7) + bytes([1]) + bytes(7)
    assert SpawnPlan(**GOOD).affinity_packed == b""


def test_a_plan_is_a_value() -> None:
    plan = SpawnPlan(**GOOD)
    assert plan == SpawnPlan(**GOOD)
    with pytest.raises(AttributeError):
        plan.detach = True  # type: ignore[misc]


def test_plan_keeps_its_own_copies() -> None:
    """What was checked is what is spawned: not what the caller's list holds by then, nor what is left of a generator."""
    argv, env, limits = ["a", "b"], {"A": "1"}, {1: (0, 0)}
    plan = SpawnPlan(argv=argv, env=env, limits=limits, affinity=(cpu for cpu in (1, 3)), pass_fds=iter([5]), groups=iter([7]))  # type: ignore[arg-type]
    argv.clear()
    env.clear()
    limits.clear()
    assert (plan.argv, plan.env, plan.limits) == (("a", "b"), {"A": "1"}, {1: (0, 0)})
    assert (plan.affinity_packed, plan.affinity, plan.pass_fds, plan.groups) == (b"\x0a" + bytes(7), (1, 3), (5,), (7,))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("argv", value) for value in (None, 5, {"a"}, {"a": 1}, "a", b"a", ["a", 5], [None], iter(()))),
        *(("env", value) for value in (5, "A=1", b"A=1")),
        *(("cwd", value) for value in (5, ["/"])),
        *(("groups", value) for value in (5, "wheel")),
        *(("affinity", value) for value in (5, iter(()))),
        *(("pass_fds", value) for value in (5, None)),
        *(("limits", value) for value in (None, [(1, 2)])),
        *(("detach", value) for value in ("no", 1, None)),
        *(("no_new_privs", value) for value in ("no", 0)),
        *(("cgroup", value) for value in ("/sys/fs/cgroup", 5)),
    ],
)
def test_what_is_no_value_of_a_field_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=name):
        SpawnPlan(**({"argv": ["a"]} | {name: value}))
