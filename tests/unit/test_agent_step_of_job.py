"""From a job that was given resources to the step that runs: its streams, environment and bounds, and nothing of the agent."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.agent.inventory.reading import Gpu
from spurproc.agent.jobs.environment import Surroundings, job_environment
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.jobs.output_pattern import PatternValues, check_pattern, expand_pattern
from spurproc.agent.jobs.step_of_job import JobPlace, start_failure, step_of_job
from spurproc.agent.resources.allocation import Allocation
from spurproc.core.exit_info import ExitInfo
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.errors import InvalidArgument, NotPermitted, Unsupported
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.raw_text import RawBytes
from spurproc.proto.runtime_id import BATCH_STEP, RuntimeId
from tests.agent_values import exited, job_spec

ATTEMPT = AttemptId(7, 2)
GIVEN = Allocation(cpus=(1, 3), memory_bytes=1 << 20)
PLACE = JobPlace(node="n1", script_path="/spool/7.2/script", scratch_path="/scratch/7.2")
VALUES = PatternValues(runtime_id=RuntimeId(7, 2, BATCH_STEP), job_name="a%jb", user="eve", node="n/1")


def environment(spec: JobSpec, given: Allocation = GIVEN) -> dict[bytes, bytes]:
    where = Surroundings(runtime_id=ATTEMPT.step(BATCH_STEP), node="n1", work_dir=b"/w\xff", allocation=given)
    entries = job_environment(spec, where)
    table = dict(entry.split(b"=", 1) for entry in entries)
    assert len(table) == len(entries)
    return {bytes(name): bytes(value) for name, value in table.items()}


def plan_of(spec: JobSpec, place: JobPlace = PLACE) -> SpawnPlan:
    plan = step_of_job(spec, ATTEMPT, GIVEN, place).plan
    assert plan is not None
    return plan


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("%j", b"7"),
        ("%a", b"2"),
        ("%s", b"batch"),
        ("%x", b"a%jb"),
        ("%u", b"eve"),
        ("%N", b"n_1"),
        ("%%j", b"%j"),
        ("%%%j", b"%7"),
        ("a%j.%ab", b"a7.2b"),
        (RawBytes(b"\xff%j"), b"\xff7"),
    ],
)
def test_each_letter_has_one_meaning(pattern: str | RawBytes, path: bytes) -> None:
    check_pattern("stdout", pattern)
    assert expand_pattern(pattern, VALUES) == path


@pytest.mark.parametrize("pattern", ["%", "%n", "%J", "%5j", "% j", "%\n", "a%%%", "", "\0", "a" * 4096, RawBytes(b"%\xff")])
def test_another_letter_is_an_error(pattern: str | RawBytes) -> None:
    with pytest.raises(InvalidArgument, match=r"^stdout: "):
        check_pattern("stdout", pattern)


@given(st.binary(max_size=30).map(lambda content: content.replace(b"\0", b"")))
def test_what_is_accepted_can_be_expanded(content: bytes) -> None:
    try:
        check_pattern("stdout", RawBytes(content))
    except InvalidArgument:
        return
    assert len(re.findall(rb"%%", content)) <= expand_pattern(RawBytes(content), VALUES).count(b"%")


def test_a_job_is_told_what_it_got() -> None:
    table = environment(job_spec(name="n", env=("A=1",)))
    assert table == {
        b"A": b"1",
        b"SPURD_JOB_ID": b"7",
        b"SPURD_RUN_ATTEMPT": b"2",
        b"SPURD_STEP_ID": b"batch",
        b"SPURD_JOB_NAME": b"n",
        b"SPURD_NODE": b"n1",
        b"SPURD_WORK_DIR": b"/w\xff",
        b"SPURD_CPUS": b"1,3",
        b"SPURD_CPU_COUNT": b"2",
        b"SPURD_MEMORY_BYTES": b"1048576",
        b"SPURD_GENERIC": b"",
        b"SPURD_GPUS": b"",
        b"SPURD_GPU_COUNT": b"0",
        b"CUDA_VISIBLE_DEVICES": b"",
        b"ROCR_VISIBLE_DEVICES": b"",
    }


def test_gpus_are_named_by_their_uuid_in_the_variable_of_their_family() -> None:
    gpus = (
        Gpu(kind="nvidia", pci_address="0000:01:00.0", uuid="GPU-aaaa"),
        Gpu(kind="amd", pci_address="0000:02:00.0", uuid="GPU-bbbb"),
        Gpu(kind="nvidia.com/gpu", uuid="GPU-cccc"),
        Gpu(kind="other", uuid="GPU-dddd"),
    )
    table = environment(job_spec(), Allocation(cpus=(0,), gpus=gpus))
    assert table[b"CUDA_VISIBLE_DEVICES"] == b"GPU-aaaa,GPU-cccc"
    assert table[b"ROCR_VISIBLE_DEVICES"] == b"GPU-bbbb"
    assert table[b"SPURD_GPUS"] == b"0000:01:00.0,0000:02:00.0,GPU-cccc,GPU-dddd"
    with pytest.raises(Unsupported, match=r"0000:01:00\.0.*no UUID"):
        environment(job_spec(), Allocation(cpus=(0,), gpus=(Gpu(kind="nvidia", pci_address="0000:01:00.0"),)))


def test_what_was_submitted_hides_nothing_of_that() -> None:
    entries = ("SPURD_JOB_ID=1", "CUDA_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=3", "GPU_DEVICE_ORDINAL=1", RawBytes(b"B=\xff"))
    table = environment(job_spec(env=entries))
    assert table[b"SPURD_JOB_ID"] == b"7"
    assert table[b"CUDA_VISIBLE_DEVICES"] == b""
    assert table[b"B"] == b"\xff"
    assert not table.keys() & {b"HIP_VISIBLE_DEVICES", b"GPU_DEVICE_ORDINAL"}


def test_nothing_of_the_agents_own_environment_reaches_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "of the agent")
    record = step_of_job(job_spec(), ATTEMPT, GIVEN, PLACE).record()
    assert record.program is not None
    assert not any("SECRET" in str(entry) for entry in record.program.env)
    assert not any(str(entry).startswith(("PATH=", "HOME=")) for entry in record.program.env)


def test_a_step_has_the_bounds_of_its_job() -> None:
    spec = job_spec(time_limit_s=5.0, pids_max=9, umask=0o77, limits={7: (1, 2)})
    step = step_of_job(spec, ATTEMPT, GIVEN, PLACE)
    assert step.runtime_id == RuntimeId(7, 2, BATCH_STEP)
    assert (step.time_limit_s, step.kill_plan) == (5.0, spec.kill_plan)
    limits = step.cgroup_limits
    assert (limits.memory_max_bytes, limits.pids_max, limits.cpus) == (1 << 20, 9, 2.0)
    plan = plan_of(spec)
    assert (plan.affinity, plan.umask, dict(plan.limits)) == ((1, 3), 0o77, {7: (1, 2)})
    assert not step.limits_required
    assert step_of_job(spec, ATTEMPT, Allocation(cpus=(0,)), PLACE).cgroup_limits.memory_max_bytes is None


def test_a_script_runs_as_its_copy_and_an_argv_as_it_is() -> None:
    plan = plan_of(job_spec(script=b"#!/bin/sh\n", argv=("a", "b")))
    assert plan.argv == (b"/spool/7.2/script", b"a", b"b")
    assert plan_of(job_spec(argv=("prog", "x"))).argv == (b"prog", b"x")
    for spec, place, field in (
        (job_spec(), JobPlace(node="n1", scratch_path="/s"), "script_path"),
        (job_spec(), JobPlace(node="n1", script_path="/s"), "scratch_path"),
        (job_spec(reservation=True), PLACE, "reservation"),
    ):
        with pytest.raises(InvalidArgument, match=field):
            step_of_job(spec, ATTEMPT, GIVEN, place)


def test_streams_stand_in_the_work_folder_unless_they_say_where() -> None:
    plan = plan_of(job_spec(work_dir="/w", stdin="in", stdout="%j.out"))
    assert (plan.cwd, plan.stdio) == (b"/w", (b"/w/in", b"/w/7.out", b"/w/7.out"))
    plan = plan_of(job_spec(stdout="/o", stderr="e"))
    assert (plan.cwd, plan.stdio) == (b"/scratch/7.2", (None, b"/o", b"/scratch/7.2/e"))


@pytest.mark.needs_root
def test_root_runs_it_as_its_user_with_no_name_looked_up() -> None:
    plan = plan_of(job_spec(uid=12345, gid=12346, groups=(7, 8)))
    assert (plan.user, plan.group, plan.groups) == (12345, 12346, (7, 8))


@pytest.mark.needs_root
def test_who_is_not_root_runs_only_what_is_its_own() -> None:
    os.seteuid(12345)
    try:
        plan = plan_of(job_spec(uid=12345))
        assert (plan.user, plan.group, plan.groups) == (None, None, None)
        with pytest.raises(NotPermitted, match="user 0"):
            plan_of(job_spec(uid=0))
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("CWD", "cannot enter the work folder '/w': No such file or directory"),
        ("STDOUT", "cannot open stdout, '/w/out': No such file or directory"),
        ("EXEC", "cannot run 'prog': its interpreter '/no': No such file or directory"),
        ("UID", "cannot start 'prog'"),
    ],
)
def test_what_kept_it_from_running_is_named(stage: str, message: str) -> None:
    spec = job_spec(argv=("prog",), work_dir="/w", stdout="out")
    step = step_of_job(spec, ATTEMPT, GIVEN, PLACE)
    end = ExitInfo.not_started(stage, 2, interpreter="/no" if stage == "EXEC" else None)
    assert (start_failure(spec, step, end) or "").startswith(message)
    assert start_failure(spec, step, exited(1)) is None
