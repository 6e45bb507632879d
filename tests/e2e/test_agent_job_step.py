"""A job as it really runs: as its user, from its own copy of the script, with what it was given and nothing of the agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc import launch
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.jobs.scratch import make_scratch
from spurproc.agent.jobs.spool import write_script
from spurproc.agent.jobs.step_of_job import JobPlace, start_failure, step_of_job
from spurproc.agent.resources.allocation import Allocation
from spurproc.client.spec import StepSpec
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.exit_info import ExitInfo
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import job_spec
from tests.steps import WAIT_S, Steps

ATTEMPT = AttemptId(7, 2)
JOB_UID, JOB_GID = 12345, 12346


class Node:
    """The folders of an agent, and one CPU to give."""

    def __init__(self, path: Path, steps: Steps) -> None:
        self.steps = steps
        self.spool = PrivateFolder.create(path / "spool")
        self.scratch = PrivateFolder.create(path / "scratch")
        for folder in (self.spool, self.scratch):
            os.fchmod(folder.fileno(), 0o711)
        self.given = Allocation(cpus=(max(os.sched_getaffinity(0)),), memory_bytes=1 << 28)

    def run(self, spec: JobSpec) -> tuple[StepSpec, ExitInfo]:
        """To its end, as an agent would."""
        script = None if spec.script is None else write_script(self.spool, ATTEMPT, spec.script, uid=spec.uid, gid=spec.gid)
        scratch = make_scratch(self.scratch, ATTEMPT, uid=spec.uid, gid=spec.gid)
        step = step_of_job(spec, ATTEMPT, self.given, JobPlace(node="n1", script_path=script, scratch_path=scratch))
        return step, self.steps.keep(launch(step, self.steps.path)).wait(WAIT_S, completed=True)

    def output(self, name: str) -> list[str]:
        """The lines of a file in the scratch folder."""
        return Path(self.scratch.path, "7.2", name).read_text(encoding="utf-8").splitlines()


@pytest.fixture
def node(commons: Path, steps: Steps) -> Iterator[Node]:
    commons.chmod(0o755)
    made = Node(commons, steps)
    yield made
    made.spool.close()
    made.scratch.close()


@pytest.mark.needs_root
def test_a_script_runs_as_its_user_with_what_it_was_given(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "of the agent")
    script = b"""#!/bin/sh -e
echo "$(id -u) $(id -g) $(id -G)"
pwd
umask
sed -n s/^Cpus_allowed_list:.//p /proc/self/status
echo "$0 $*"
echo "$SPURD_JOB_ID.$SPURD_RUN_ATTEMPT.$SPURD_STEP_ID $SPURD_CPUS $SPURD_MEMORY_BYTES ${CUDA_VISIBLE_DEVICES-unset}. $A"
env > environment
echo error >&2
exit 3
"""
    spec = job_spec(
        name="n", user="eve", uid=JOB_UID, gid=JOB_GID, groups=(JOB_GID, 12399), script=script, argv=("x", "y z"),
        env=("A=1", "PATH=/usr/bin:/bin"), stdout="%x-%j.%a.%s.%u.%N", umask=0o27,
    )  # fmt: skip
    step, end = node.run(spec)
    assert start_failure(spec, step, end) is None
    assert end.code == 3
    (cpu,) = node.given.cpus
    assert node.output("n-7.2.batch.eve.n1") == [
        "12345 12346 12346 12399",
        f"{node.scratch.path}/7.2",
        "0027",
        str(cpu),
        f"{node.spool.path}/7.2/script x y z",
        f"7.2.batch {cpu} {1 << 28} . 1",
        "error",
    ]
    facts = Path(node.scratch.path, "7.2", "n-7.2.batch.eve.n1").stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o777) == (JOB_UID, JOB_GID, 0o640)
    names = {line.partition("=")[0] for line in node.output("environment")}
    assert {name for name in names if not name.startswith(("SPURD_", "CUDA_", "ROCR_"))} <= {
        "A",
        "PATH",
        "PWD",
        "_",
        "SHLVL",
        "OLDPWD",
    }


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"work_dir": "/nonexistent"}, "cannot enter the work folder '/nonexistent': No such file or directory"),
        ({"work_dir": "/proc/1/cwd"}, "cannot enter the work folder '/proc/1/cwd': Permission denied"),
        ({"stdout": "/proc/%j"}, "cannot open stdout, '/proc/7': "),
        ({"stdin": "missing"}, "cannot open stdin, "),
        ({"script": b"#!/nonexistent/sh\n"}, "its interpreter '/nonexistent/sh': No such file or directory"),
        ({"script": b"#!/bin/sh\r\n"}, r"its interpreter '/bin/sh\r': No such file or directory"),
        ({"argv": ("/nonexistent/program",)}, "cannot run '/nonexistent/program': No such file or directory"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_keeps_a_job_from_running_is_named(node: Node, change: dict[str, object], message: str) -> None:
    spec = job_spec(uid=JOB_UID, gid=JOB_GID, **change)
    assert message in (start_failure(spec, *node.run(spec)) or "it ran")
