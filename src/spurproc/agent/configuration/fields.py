"""The one table of all settings: TOML keys, flags, environment variables and the reference page are made from it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spurproc.agent.configuration.kinds import AbsolutePath, Choice, Kind, Optional, Pattern, Seconds, Text, Whole
from spurproc.agent.configuration.list_kinds import Argv, Counts, CpuList, Kills, Words

__all__ = ["FIELDS", "FIELD_OF_NAME", "PREFIX", "Field", "default_config_file"]

PREFIX = "SPURD_"
"""What the environment variable of each setting begins with; its name in capitals follows."""
_GIB = 1 << 30
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One setting. Its unit stands in its name."""

    name: str
    """The TOML key; flag and variable are made of it."""
    kind: Kind[Any]
    default: str | Callable[[Mapping[str, str], int], str]
    """As text; or made of the environment and the effective user."""
    default_words: str = ""
    """The same in words, where it is made."""
    help: str

    @property
    def flag(self) -> str:
        """On the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """In the environment."""
        return f"{PREFIX}{self.name.upper()}"

    def default_text(self, environment: Mapping[str, str], uid: int) -> str:
        """The default, as it would be typed."""
        return self.default if isinstance(self.default, str) else self.default(environment, uid)


def _home(environment: Mapping[str, str], uid: int) -> str:
    """Of a user whom the user database does not know, as in a container, the root."""
    home = environment.get("HOME", "")
    if home.startswith("/"):
        return home.rstrip("/")
    try:
        return pwd.getpwuid(uid).pw_dir.rstrip("/")
    except KeyError:
        return ""


def _xdg(environment: Mapping[str, str], uid: int, variable: str, below_home: str) -> str:
    """XDG Base Directory Specification: a relative path is to be ignored."""
    chosen = environment.get(variable, "")
    return chosen if chosen.startswith("/") else f"{_home(environment, uid)}/{below_home}"


def _state_dir(environment: Mapping[str, str], uid: int) -> str:
    return "/var/lib/spurd" if uid == 0 else f"{_xdg(environment, uid, 'XDG_STATE_HOME', '.local/state')}/spurd"


def default_config_file(environment: Mapping[str, str], uid: int) -> str:
    """The file that is read if none is named; it need not be there."""
    return "/etc/spurd.toml" if uid == 0 else f"{_xdg(environment, uid, 'XDG_CONFIG_HOME', '.config')}/spurd.toml"


def _node_name(_environment: Mapping[str, str], _uid: int) -> str:
    return os.uname().nodename or "localhost"


FIELDS = (
    Field(
        name="state_dir",
        kind=AbsolutePath(),
        default=_state_dir,
        default_words="/var/lib/spurd as root, else spurd in XDG_STATE_HOME or ~/.local/state",
        help="The folder with all that the agent keeps. One agent owns it. It has to outlast a reboot, on a local file system.",
    ),
    Field(
        name="node_name",
        kind=Text(meaning="a name of at most 253 letters, digits, '.', '_' and '-'", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"),
        default=_node_name,
        default_words="the host name",
        help="What this node is called: in the controller's books, and `%N` in an output pattern.",
    ),
    Field(
        name="socket_path",
        kind=Optional(AbsolutePath(), "auto"),
        default="auto",
        help="Where users reach the agent; auto: control.sock in the state folder. The kernel tells who asks.",
    ),
    Field(
        name="controller",
        kind=Choice(("local",)),
        default="local",
        help="Where jobs come from; local: a queue of this node's own.",
    ),
    Field(
        name="heartbeat_interval_s",
        kind=Seconds(low=0.1, high=_HOUR_S),
        default="10",
        help="How often the agent says that it serves: to the controller, and in ready.json.",
    ),
    Field(
        name="heartbeat_timeout_s",
        kind=Seconds(low=0.2, high=24 * _HOUR_S),
        default="60",
        help="After how long without a heartbeat a controller may take the node for dead. Below 30 s a busy machine is one.",
    ),
    Field(
        name="inventory_interval_s",
        kind=Seconds(low=0.1, high=24 * _HOUR_S),
        default="60",
        help="How often CPUs, memory and devices are looked at again.",
    ),
    Field(
        name="cpus",
        kind=Optional(CpuList(), "auto"),
        default="auto",
        help="The CPUs that jobs may have; auto: all that the agent may use itself.",
    ),
    Field(
        name="memory_bytes",
        kind=Optional(Whole(low=1, high=(1 << 63) - 1), "auto"),
        default="auto",
        help="The memory that jobs may have in all; auto: what the machine and the agent's cgroups allow.",
    ),
    Field(
        name="gpus",
        kind=Optional(Words(), "auto"),
        default="auto",
        help="The GPUs that jobs may have, by PCI address or UUID; auto: all that are found; empty: none.",
    ),
    Field(
        name="generic",
        kind=Counts(),
        default="",
        help="Other things that jobs can ask for, by name, and how many there are of each.",
    ),
    Field(
        name="gpus_in_use",
        kind=Choice(("hold-back", "give")),
        default="hold-back",
        help="A GPU that something still has open when its job has ended: kept from jobs until it is closed, or given at once.",
    ),
    Field(
        name="prolog_argv",
        kind=Argv(),
        default="",
        help="Run before each attempt, as the agent's user. If it fails, the job is not started, and the node drains.",
    ),
    Field(
        name="prolog_timeout_s",
        kind=Seconds(low=0.1, high=24 * _HOUR_S),
        default="300",
        help="How long it may take; then it is ended, and has failed.",
    ),
    Field(
        name="epilog_argv",
        kind=Argv(),
        default="",
        help="Run after each attempt, as the agent's user. If it fails, or its end is not known, the node drains.",
    ),
    Field(
        name="epilog_timeout_s",
        kind=Seconds(low=0.1, high=24 * _HOUR_S),
        default="300",
        help="How long it may take; then it is ended, and has failed.",
    ),
    Field(
        name="kill_plan",
        kind=Kills(for_users=True),
        default="SIGTERM:10,SIGKILL",
        help="How a job is ended that brings no plan of its own.",
    ),
    Field(
        name="time_limit_s",
        kind=Optional(Seconds(low=1.0), "none"),
        default="none",
        help="How long a job may run, or a reservation last, that asks for no limit.",
    ),
    Field(
        name="max_job_script_bytes",
        kind=Whole(low=1, high=_GIB),
        default=str(4 << 20),
        help="The longest script that is taken.",
    ),
    Field(
        name="output_pattern",
        kind=Pattern(),
        default="job-%j.%a.out",
        help="Where a job's output goes that names no file, from its work folder on: `%j %a %s %x %u %N`.",
    ),
    Field(
        name="launch_concurrency",
        kind=Whole(low=1, high=256),
        default="4",
        help="How many jobs are launched, or ended, at the same time.",
    ),
    Field(
        name="history_jobs",
        kind=Whole(low=100, high=10**9),
        default="100000",
        help="How many jobs back the history goes; an older one that has ended is forgotten, and its submission key with it.",
    ),
    Field(
        name="log_level",
        kind=Choice(("debug", "info", "warning", "error")),
        default="info",
        help="The least that is logged.",
    ),
    Field(
        name="log_format",
        kind=Choice(("text", "json")),
        default="text",
        help="How it is logged, one line a fact, to stderr.",
    ),
)

FIELD_OF_NAME: Mapping[str, Field] = {field.name: field for field in FIELDS}
