"""The settings of a running agent, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spurproc.agent.configuration.fields import FIELDS
from spurproc.core.tree.termination import KillPlan

__all__ = ["Configuration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One attribute for each setting of the table in `fields`, which says what it means."""

    state_dir: str
    node_name: str
    socket_path: str | None
    controller: str
    heartbeat_interval_s: float
    heartbeat_timeout_s: float
    inventory_interval_s: float
    cpus: tuple[int, ...] | None
    memory_bytes: int | None
    gpus: tuple[str, ...] | None
    generic: Mapping[str, int]
    gpus_in_use: str
    prolog_argv: tuple[str, ...]
    prolog_timeout_s: float
    epilog_argv: tuple[str, ...]
    epilog_timeout_s: float
    kill_plan: KillPlan
    time_limit_s: float | None
    max_job_script_bytes: int
    output_pattern: str
    launch_concurrency: int
    history_jobs: int
    log_level: str
    log_format: str

    def to_toml(self) -> str:
        """A file that says all of it."""
        return "".join(f"{field.name} = {field.kind.to_toml(getattr(self, field.name))}\n" for field in FIELDS)
