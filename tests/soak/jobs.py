"""Jobs of all kinds: what is submitted, and which ends they may have when nobody disturbs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from spurproc import KillPlan
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.request import ResourceRequest
from tests.agent_values import job_spec
from tests.fifo import Gate

CPUS, GPUS = 6, 2
_SOON = KillPlan(steps=((15, 0.2), (9, None)))
_BEGIN = """#!/bin/sh
me=$SPURD_JOB_ID.$SPURD_RUN_ATTEMPT
echo $me >>{facts}/ran
fd=3
for one in $(echo $SPURD_CPUS,$SPURD_GPUS | tr , ' '); do
    eval "exec $fd>>{facts}/lock-$one"
    flock --nonblock $fd || echo $one $me >>{facts}/twice
    fd=$((fd + 1))
done
end() {{ echo $me $1 >>{facts}/ends; exit $1; }}
"""
"""What each says and takes first: locks that all of its tree holds, however far it runs, on whatever it was given."""


@dataclass(slots=True, kw_only=True)
class Job:
    """One that was submitted, or that somebody has tried to submit."""

    key: str
    kind: str
    spec: JobSpec
    ends: tuple[str, ...]
    gate: Gate
    job_id: int | None = None
    let_go: bool = False
    told_to_end: bool = False
    attempts: int = 1
    """At most so many, as often as it was put back."""
    unwitnessed: set[str] = field(default_factory=set)
    """Attempts whose host, the witness of their end, was killed while they ran."""
    unsupervised: set[str] = field(default_factory=set)
    """Attempts of which the supervisor was killed."""

    @property
    def orphaned(self) -> set[str]:
        """Both were, together or one after the other: their end may be lost, and then nobody claims one."""
        return self.unwitnessed & self.unsupervised


def _exits(random: Random, gate: str) -> tuple[str, tuple[str, ...]]:
    code = random.randrange(100)
    return f"end {code}", (f"exited {code}",)


def _waits(random: Random, gate: str) -> tuple[str, tuple[str, ...]]:
    code = random.randrange(100)
    return f"read x <{gate}; end {code}", (f"exited {code}",)


def _leaves_a_daemon(random: Random, gate: str) -> tuple[str, tuple[str, ...]]:
    code = random.randrange(100)
    return f"setsid sh -c 'setsid sleep 1000 & sleep 1000' & read x <{gate}; end {code}", (f"exited {code}",)


def _leaves_a_deaf_daemon(random: Random, gate: str) -> tuple[str, tuple[str, ...]]:
    code = random.randrange(100)
    return f"(trap '' TERM HUP; setsid sleep 1000 &); end {code}", (f"exited {code}",)


def _dies(random: Random, gate: str) -> tuple[str, tuple[str, ...]]:
    name = random.choice(("KILL", "USR1", "TERM"))
    return f"kill -{name} $$; end 99", (f"killed by SIG{name}",)


def _takes_too_long(random: Random, gate: str) -> tuple[str, tuple[str, ...]]:
    return "exec sleep 1000", ("killed by SIGTERM",)


def _is_deaf(random: Random, gate: str) -> tuple[str, tuple[str, ...]]:
    code = random.randrange(100)
    return f"trap '' TERM; read x <{gate}; end {code}", (f"exited {code}",)


def _has_no_interpreter(random: Random, gate: str) -> tuple[str, tuple[str, ...]]:
    return "", ("not started: No such file or directory (ENOENT) at stage EXEC",)


_KINDS: dict[Callable[[Random, str], tuple[str, tuple[str, ...]]], int] = {
    _exits: 4,
    _waits: 4,
    _leaves_a_daemon: 2,
    _leaves_a_deaf_daemon: 2,
    _dies: 2,
    _takes_too_long: 1,
    _is_deaf: 1,
    _has_no_interpreter: 1,
}


def draw(random: Random, facts: Path, number: int) -> Job:
    """One of them."""
    (kind,) = random.choices(list(_KINDS), list(_KINDS.values()))
    gate = Gate(facts / f"gate-{number}")
    text, ends = kind(random, str(gate.path))
    begin = "#!/no/such/interpreter\n" if kind is _has_no_interpreter else _BEGIN.format(facts=facts)
    more: dict[str, Any] = {"time_limit_s": 0.3} if kind is _takes_too_long else {}
    resources = ResourceRequest(cpus=random.choice((1, 1, 2)), gpus=random.choice((0, 0, 0, 1)))
    spec = job_spec(
        name=kind.__name__.strip("_"),
        script=f"{begin}{text}\n".encode(),
        stdout=str(facts / "out-%j.%a"),
        kill_plan=_SOON,
        resources=resources,
        **more,
    )
    return Job(key=f"key-{number}", kind=spec.name, spec=spec, ends=ends, gate=gate)
