"""The page of the agent's records has every field, name, exit code and variable as the code has them, and no other."""

from __future__ import annotations

import inspect
import re

import msgspec
import pytest

from spurproc.agent.attempts import hooks
from spurproc.agent.inventory.reading import Gpu
from spurproc.agent.jobs.environment import Surroundings, job_environment
from spurproc.agent.node import state_dir
from spurproc.agent.node.exit_codes import ExitCode
from spurproc.agent.node.quarantine import QuarantinedTree, QuarantineRecord
from spurproc.agent.node.readiness import ReadyRecord
from spurproc.agent.resources.allocation import Allocation
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import BATCH_STEP
from tests.agent_values import job_spec
from tests.meta.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "agent-records.md").read_text()
HOOKS_PAGE = (ROOT / "docs" / "how-to" / "agent-hooks.md").read_text()


def section(heading: str) -> str:
    """The text below a heading."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> set[str]:
    """What is code in the first column of its tables."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def fields_of(kind: type[msgspec.Struct]) -> set[str]:
    """As they stand on disk."""
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_fields_of_the_readiness_file() -> None:
    assert first_cells(section("ready.json")) == fields_of(ReadyRecord)


def test_fields_of_the_quarantine() -> None:
    text = section("quarantine.json")
    assert first_cells(text) == fields_of(QuarantineRecord)
    assert {name for name in fields_of(QuarantinedTree) if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("name", sorted(name for name in vars(state_dir) if name.endswith("_NAME") and name.isupper()))
def test_every_file_of_the_state_folder(name: str) -> None:
    assert vars(state_dir)[name] in first_cells(PAGE.partition("\n## ")[0])


def test_exit_codes_of_the_agent() -> None:
    codes = re.findall(r"^\| (\d+) \|", section("How `spurd serve` ends"), re.MULTILINE)
    assert sorted(map(int, codes)) == sorted(map(int, ExitCode))


def test_variables_of_a_job() -> None:
    given = Allocation(cpus=(0,), gpus=(Gpu(kind="nvidia", pci_address=None, uuid="GPU-1"),))
    where = Surroundings(runtime_id=AttemptId(1, 1).step(BATCH_STEP), node="n", work_dir=b"/", allocation=given)
    names = {entry.partition(b"=")[0].decode() for entry in job_environment(job_spec(), where)}
    assert first_cells(section("What a job is told")) == names


def test_variables_of_a_hook() -> None:
    """By the names in the module that gives them."""
    names = set(re.findall(r'"(SPURD_\w+)"', inspect.getsource(hooks)))
    assert names == set(re.findall(r"`(SPURD_\w+)`", HOOKS_PAGE))
