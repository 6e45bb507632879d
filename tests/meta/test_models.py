"""The models of protocol/ fit the code and their catalogue, and their runner cannot pass for want of an answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from protocol.__main__ import verify
from protocol.catalogue import FOLDER, Search, faults_of, flags_of, load
from protocol.search import Outcome, outcome_of
from spurproc.proto.journal_record import JournalRecord
from spurproc.proto.step_state import StepState

MODELS = sorted(path.stem for path in FOLDER.glob("*.pml"))
STEP = (FOLDER / "step.pml").read_text(encoding="utf-8")
CLEAN = "State-vector 92 byte, depth reached 171, errors: 0\n 1.3401e+07 states, stored\n"
TINY = """
byte x;
active proctype P() {
    x = 1;
#ifdef BUG_TWO
    x = 2;
#endif
    x = 3; x = 4; assert(x != 2)
#ifdef BUG_FOUND
    ; x = 2; assert(x != 2)
#endif
}
"""


@pytest.mark.parametrize("model", MODELS)
def test_each_fault_of_a_model_is_in_the_catalogue_and_the_other_way_round(model: str) -> None:
    listed = {search.name for search in load() if search.breaks and search.model == model}
    assert listed == faults_of(model)


def test_flags_of_the_catalogue_are_known_to_their_model() -> None:
    unknown = {
        f"{search.name}: {flag}"
        for search in load()
        for flag in (*search.options, *search.budgets)
        if flag not in flags_of(search.model)
    }
    assert unknown == set()


def test_base_is_checked_quickly_and_so_is_each_fault() -> None:
    quick = {search.name for search in load() if search.quick}
    assert {search.name for search in load() if search.breaks} | {"base"} <= quick


def test_names_are_unique() -> None:
    """They are the folders that the searches work in."""
    names = [search.name for search in load()]
    assert len(names) == len(set(names))


def test_each_record_of_the_journal_is_in_the_model() -> None:
    """As a variable, or as one by which nothing is decided."""
    left_out = re.search(r"Nothing is decided by the records (.*?), so they are left out", STEP)
    assert left_out
    names = {str(record.__struct_config__.tag) for record in get_args(JournalRecord)}
    modelled = {name for name in names if re.search(rf"^byte [\w, \[\]]*\b{name}\b", STEP, re.MULTILINE)}
    assert names == modelled | set(re.findall(r"`(\w+)`", left_out[1]))


def test_each_state_of_the_model_is_one_of_the_code() -> None:
    states = {name.rstrip("_") for name in re.findall(r"\bstate = ([A-Z_]+)", STEP)}
    assert {"READY", "COMPLETED"} <= states
    assert states - {"OFFLINE"} <= {state.name for state in StepState}


# ---------------------------------------------------------------- the runner


def tiny(tmp_path: Path, name: str, **more: object) -> Search:
    (tmp_path / "tiny.pml").write_text(TINY, encoding="utf-8")
    return Search(name=name, model="tiny", folder=tmp_path, **more)  # type: ignore[arg-type]  # fields by name


def verdict(tmp_path: Path, search: Search) -> int:
    return verify([search], tmp_path / "scratch")


def test_a_fault_that_does_nothing_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(tmp_path, tiny(tmp_path, "BUG_NOTHING", breaks="x!=2")) == 1
    assert "BUG_NOTHING: NOT FOUND in 6 states" in capsys.readouterr().out


def test_a_fault_that_nobody_can_see_is_a_failure(tmp_path: Path) -> None:
    assert verdict(tmp_path, tiny(tmp_path, "BUG_TWO", breaks="x!=2")) == 1


def test_a_fault_is_found_by_what_it_breaks_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(tmp_path, tiny(tmp_path, "BUG_FOUND", breaks="x != 2")) == 0
    assert capsys.readouterr().out == "BUG_FOUND: found (assertion (x!=2))\n"
    assert verdict(tmp_path, tiny(tmp_path, "BUG_FOUND", breaks="invalid end state")) == 1


def test_the_trace_of_what_was_found_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify([tiny(tmp_path, "BUG_FOUND", breaks="x!=2")], tmp_path / "scratch", trace=True) == 0
    assert re.search(r"^ +P +tiny\.pml:\d+ +x = 4$", capsys.readouterr().out, re.MULTILINE)


def test_a_configuration_that_is_not_clean_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(tmp_path, tiny(tmp_path, "wrong", options=("BUG_FOUND",), states=2)) == 1
    assert "x = 4" in capsys.readouterr().out
    assert verdict(tmp_path, tiny(tmp_path, "clean", states=2)) == 0


def test_a_configuration_that_has_lost_its_states_is_a_failure(tmp_path: Path) -> None:
    assert verdict(tmp_path, tiny(tmp_path, "small", states=1000)) == 1


def test_a_model_that_is_no_promela_is_a_failure(tmp_path: Path) -> None:
    search = tiny(tmp_path, "broken", states=2)
    search.source.write_text("proctype {", encoding="utf-8")
    assert verdict(tmp_path, search) == 1


def test_no_search_at_all_is_a_failure(tmp_path: Path) -> None:
    assert verify([], tmp_path) == 1


@pytest.mark.parametrize(
    "cut_short",
    [
        "error: max search depth too small\n" + CLEAN,
        "pan: reached -DMEMLIM bound\n" + CLEAN,
        "pan: out of memory\n" + CLEAN,
        "Warning: Search not completed\n" + CLEAN,
        "Interrupted\n" + CLEAN,
        CLEAN.replace("errors: 0", "errors: 1"),
        "Segmentation fault",
        "",
    ],
)
def test_a_search_that_was_cut_short_is_no_answer(cut_short: str) -> None:
    clean, fault = Search(name="base", states=2), Search(name="BUG_X", breaks="x")
    outcome = outcome_of(cut_short, 1.0)
    assert outcome.broken
    assert outcome.wrong(clean)
    assert outcome.wrong(fault)
    assert not outcome_of(CLEAN, 1.0).wrong(clean)


def test_what_a_clean_search_is_told_as() -> None:
    assert Outcome(states=12_200_000, seconds=13.2).line(Search(name="base", states=2)) == "base: clean, 12.2 M states, 13 s"


@pytest.mark.parametrize(
    "table",
    [
        "[clean.x]\nquick = true",
        '[clean.x]\nstates = 9\nbreaks = "x"',
        '[fault.BUG_X]\nsays = "x"',
        "[clean.x]\nstates = 9\nno = 1",
    ],
)
def test_a_table_that_asks_for_nothing_is_refused(table: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        load(table)
