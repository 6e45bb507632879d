"""Whether the unit that the agent runs in would take its supervisors along when it is stopped or restarted.

systemd kills what it finds in the unit's cgroup, by the unit's KillMode: systemd.kill(5). So there are two questions: do
the supervisors stand in there, and what would be done to them? The answer is a value with a sentence; what to make of it is up to
others.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spurproc.core.cgroup.folder import kernel_path, open_folder
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.command.run import run
from spurproc.core.tree.termination import KILL_ALL
from spurproc.errors import RunTimeout, SpurprocError

__all__ = ["RunningUnit", "UnitPlace", "UnitVerdict", "find_running_unit", "judge_unit", "parse_show", "unit_place"]

_ASK_WITHIN_S = 5.0
_BOOTED = "/run/systemd/system"  # sd_booted(3)
_ASKED = ("Id", "LoadState", "KillMode", "Delegate", "SendSIGKILL", "Type")
_UNIT = re.compile(r"\.(?:service|scope)$")
_USER_MANAGER = re.compile(r"^user@\d+\.service$")
_SPARING = frozenset({"process", "none"})

Ask = Callable[["UnitPlace"], Mapping[str, str] | str]
"""What systemd says of a unit: its properties, or why it did not answer."""


class UnitVerdict(enum.Enum):
    """What a stop of the unit would do to supervisors."""

    NO_UNIT = "no unit"
    """It runs in none that systemd would stop."""
    SPARES = "spares"
    KILLS = "kills"
    UNKNOWN = "unknown"
    """It cannot be told; to be taken as KILLS by who can do something about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlace:
    """The unit, where its cgroup lies, and whose manager has it."""

    name: str
    path: str
    """As `/proc/PID/cgroup` spells it."""
    of_user: bool
    """It belongs to a `systemd --user`."""
    old_hierarchy: bool = False
    """systemd tracks it in a v1 hierarchy, which no process that we start ever leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUnit:
    """The answer. `properties`: what systemd said, as far as it was asked."""

    verdict: UnitVerdict
    sentence: str
    unit: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def find_running_unit(root: CgroupRoot | None, *, ask: Ask | None = None, proc: str = "/proc") -> RunningUnit:
    """Look at our own cgroup, and ask systemd where the answer depends on it: for five seconds at most.

    `root`: where supervisors are put, None where they stay with whoever starts them. Source: proc_pid_cgroup(5), systemctl(1).
    """
    try:
        with open(f"{proc}/self/cgroup", "rb") as file:
            text = file.read()
    except OSError as error:
        return RunningUnit(verdict=UnitVerdict.UNKNOWN, sentence=f"cannot tell the unit: {proc}/self/cgroup: {error.strerror}")
    place = unit_place(os.fsdecode(text))
    if place is None:
        return RunningUnit(verdict=UnitVerdict.NO_UNIT, sentence="not in a service or scope of systemd")
    return judge_unit(place, None if root is None else _kernel_path(root.supervisors), ask or ask_systemd)


def unit_place(text: str) -> UnitPlace | None:
    """The innermost unit in a `/proc/PID/cgroup`; None where it names none. cgroup v2 counts first, as it does for systemd."""
    lines = [line.split(":", 2) for line in text.splitlines()]
    paths = {controllers: path for _, controllers, path in (line for line in lines if len(line) == 3)}
    for controllers in ("", "name=systemd"):
        parts = paths.get(controllers, "/").split("/")
        for end in range(len(parts), 1, -1):
            if _UNIT.search(parts[end - 1]):
                return UnitPlace(
                    name=parts[end - 1].removeprefix("_"),  # an escape: systemd.unit(5) names never begin so in a cgroup
                    path="/".join(parts[:end]),
                    of_user=any(_USER_MANAGER.match(above) for above in parts[: end - 1]),
                    old_hierarchy=controllers != "",
                )
    return None


def judge_unit(place: UnitPlace, supervisors: str | None, ask: Ask) -> RunningUnit:
    """What a stop of that unit does to supervisors in the cgroup `supervisors`, None: in its own. `ask`: see `Ask`."""
    if supervisors is not None and not place.old_hierarchy and not f"{supervisors}/".startswith(f"{place.path}/"):
        sentence = f"supervisors stand in {supervisors}, outside of {place.name}: a stop of it leaves them alone"
        return RunningUnit(verdict=UnitVerdict.SPARES, sentence=sentence, unit=place.name)
    answer = ask(place)
    if isinstance(answer, str):
        sentence = f"supervisors stand inside of {place.name}, and systemd does not say what a stop does to them: {answer}"
        return RunningUnit(verdict=UnitVerdict.UNKNOWN, sentence=sentence, unit=place.name)
    verdict, sentence = _verdict(place, answer)
    return RunningUnit(verdict=verdict, sentence=sentence, unit=place.name, properties=answer)


def _verdict(place: UnitPlace, answer: Mapping[str, str]) -> tuple[UnitVerdict, str]:
    mode = answer.get("KillMode", "")
    if answer.get("LoadState") == "not-found" or not mode:
        return UnitVerdict.UNKNOWN, f"supervisors stand inside of {place.name}, of which systemd knows no KillMode"
    if mode in _SPARING:
        return (
            UnitVerdict.SPARES,
            f"supervisors stand inside of {place.name}, which has KillMode={mode}: a stop leaves them alone",
        )
    kills = f"supervisors stand inside of {place.name}, which has KillMode={mode}: a stop or restart of it ends every job"
    return UnitVerdict.KILLS, f"{kills}; set KillMode=process"


def parse_show(text: str) -> dict[str, str]:
    """The `NAME=value` lines of `systemctl show`. A line that is none is left out."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def ask_systemd(place: UnitPlace) -> Mapping[str, str] | str:
    """By `systemctl show`, where systemd is the init. Blocks, for five seconds at most."""
    if not os.path.isdir(_BOOTED):
        return "systemd is not the init here"
    manager = ("--user",) if place.of_user else ()
    argv = ["systemctl", *manager, "show", f"--property={','.join(_ASKED)}", "--", place.name]
    try:
        done = run(argv, timeout_s=_ASK_WITHIN_S, kill_plan=KILL_ALL, capture=True)
    except RunTimeout:
        return f"systemctl did not answer within {_ASK_WITHIN_S:g} s"
    except SpurprocError as error:
        return str(error)
    if not done.succeeded:
        return f"systemctl: {' '.join((done.stderr or b'').decode(errors='replace').split()) or done}"
    return parse_show((done.stdout or b"").decode(errors="replace"))


def _kernel_path(path: str) -> str | None:
    """The cgroup as `/proc/PID/cgroup` would spell it; None, which is taken for our own, where that cannot be told."""
    try:
        folder_fd = open_folder(path)
    except SpurprocError:
        return None
    try:
        return kernel_path(folder_fd)
    finally:
        os.close(folder_fd)
