"""Which unit of systemd an agent runs in, and what a stop of it would do to supervisors, by what the kernel and systemd say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from spurproc.agent.node.running_unit import (
    UnitPlace,
    UnitVerdict,
    find_running_unit,
    judge_unit,
    parse_show,
    unit_place,
)

# What Linux shows of a service of systemd 252, by hand: pure v2, hybrid, v1 alone, of a user's manager, delegated, nested.
PURE = "0::/system.slice/spurd.service\n"
HYBRID = "5:memory:/x\n1:name=systemd:/system.slice/spurd.service\n0::/system.slice/spurd.service\n"
OLD = "5:memory:/\n1:name=systemd:/system.slice/spurd.service\n0::/\n"
OF_USER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/spurd.service\n"
SESSION = "0::/user.slice/user-1000.slice/session-3.scope\n"
DELEGATED = "0::/system.slice/spurd.service/spurproc/supervisors\n"
NESTED = "0::/system.slice/docker-x.scope/system.slice/spurd.service\n"
NONE = ["0::/\n", "0::/init\n", "", "nonsense\n", "0::/system.slice\n", "5:memory:/a.service\n0::/\n", "0::/a.service.d/x\n"]

SERVICE = UnitPlace(name="spurd.service", path="/system.slice/spurd.service", of_user=False)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (PURE, SERVICE),
        (HYBRID, SERVICE),
        (OLD, UnitPlace(name="spurd.service", path="/system.slice/spurd.service", of_user=False, old_hierarchy=True)),
        (
            OF_USER,
            UnitPlace(
                name="spurd.service",
                path="/user.slice/user-1000.slice/user@1000.service/app.slice/spurd.service",
                of_user=True,
            ),
        ),
        (SESSION, UnitPlace(name="session-3.scope", path="/user.slice/user-1000.slice/session-3.scope", of_user=False)),
        (DELEGATED, SERVICE),
        (
            NESTED,
            UnitPlace(name="spurd.service", path="/system.slice/docker-x.scope/system.slice/spurd.service", of_user=False),
        ),
        *((text, None) for text in NONE),
    ],
)
def test_the_unit_is_the_innermost_one(text: str, place: UnitPlace | None) -> None:
    """Of cgroup v2 where that names one, as systemd itself looks there; else of its v1 hierarchy."""
    assert unit_place(text) == place


def nobody_asked(_place: UnitPlace) -> Mapping[str, str]:
    raise AssertionError("asked for nothing")


def says(**properties: str) -> Mapping[str, str]:
    return {"Id": "spurd.service", "LoadState": "loaded"} | properties


@pytest.mark.parametrize("supervisors", ["/spurproc/supervisors", "/system.slice/spurd.service2/x", "/system.slice"])
def test_supervisors_outside_are_spared_and_nobody_is_asked(supervisors: str) -> None:
    """Whatever the KillMode. A name that only begins alike is another unit."""
    found = judge_unit(SERVICE, supervisors, nobody_asked)
    assert (found.verdict, found.unit) == (UnitVerdict.SPARES, "spurd.service")
    assert supervisors in found.sentence


INSIDE = [None, "/system.slice/spurd.service", "/system.slice/spurd.service/spurproc/supervisors"]


@pytest.mark.parametrize("supervisors", INSIDE)
@pytest.mark.parametrize(
    ("mode", "verdict"),
    [
        ("control-group", UnitVerdict.KILLS),
        ("mixed", UnitVerdict.KILLS),
        ("something-new", UnitVerdict.KILLS),
        ("process", UnitVerdict.SPARES),
        ("none", UnitVerdict.SPARES),
    ],
)
def test_supervisors_inside_depend_on_the_kill_mode(supervisors: str | None, mode: str, verdict: UnitVerdict) -> None:
    """systemd.kill(5); of one that is not known the worst is said. The sentence says what to do."""
    found = judge_unit(SERVICE, supervisors, lambda _place: says(KillMode=mode))
    assert (found.verdict, found.unit) == (verdict, "spurd.service")
    assert found.properties["KillMode"] == mode
    assert f"KillMode={mode}" in found.sentence
    assert ("set KillMode=process" in found.sentence) == (verdict is UnitVerdict.KILLS)


def test_in_the_old_hierarchy_nobody_gets_outside() -> None:
    """What we start is moved in v2 alone, so a stop finds it wherever its v2 cgroup is."""
    place = UnitPlace(name="spurd.service", path="/system.slice/spurd.service", of_user=False, old_hierarchy=True)
    found = judge_unit(place, "/spurproc/supervisors", lambda _place: says(KillMode="control-group"))
    assert found.verdict is UnitVerdict.KILLS


@pytest.mark.parametrize("answer", ["systemctl did not answer within 5 s", {"LoadState": "not-found", "KillMode": "process"}, {}])
def test_without_an_answer_it_is_unknown(answer: Mapping[str, str] | str) -> None:
    """Neither killed nor spared; the sentence says why it cannot be told."""
    found = judge_unit(SERVICE, None, lambda _place: answer)
    assert found.verdict is UnitVerdict.UNKNOWN
    assert "spurd.service" in found.sentence
    if isinstance(answer, str):
        assert answer in found.sentence


def test_what_systemctl_shows_is_read() -> None:
    """As `systemctl show` of systemd 252 prints it; a value may hold '='."""
    text = "Id=spurd.service\nKillMode=process\nDelegate=yes\nExecStart={ path=/usr/bin/spurd ; argv[]=/usr/bin/spurd }\n\n"
    assert parse_show(text) == {
        "Id": "spurd.service",
        "KillMode": "process",
        "Delegate": "yes",
        "ExecStart": "{ path=/usr/bin/spurd ; argv[]=/usr/bin/spurd }",
    }


def test_the_whole_way_on_a_proc_of_ones_own(tmp_path: Path) -> None:
    """The unit of the text, asked for by its place."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(OF_USER)
    asked: list[UnitPlace] = []

    def ask(place: UnitPlace) -> Mapping[str, str]:
        asked.append(place)
        return says(KillMode="control-group")

    found = find_running_unit(None, ask=ask, proc=str(tmp_path))
    assert found.verdict is UnitVerdict.KILLS
    assert [place.of_user for place in asked] == [True]
    (tmp_path / "self" / "cgroup").write_text("0::/\n")
    assert find_running_unit(None, ask=nobody_asked, proc=str(tmp_path)).verdict is UnitVerdict.NO_UNIT
    (tmp_path / "self" / "cgroup").unlink()
    assert find_running_unit(None, ask=nobody_asked, proc=str(tmp_path)).verdict is UnitVerdict.UNKNOWN
