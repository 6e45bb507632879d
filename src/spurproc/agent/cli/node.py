"""`spurd status`, `drain`, `undrain`: the node itself."""

from __future__ import annotations

from typing import Any

import click

from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.fields import cpu_list, inventory_fields, size_text, time_text
from spurproc.agent.cli.reach import Reach, agent_options
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.service.replies import NodeStatus
from spurproc.command_line.answer import Answer, Block, Cell, Facts, Line, Toned
from spurproc.command_line.output import json_option

__all__ = ["drain", "status", "undrain"]

_Rows = list[tuple[str, Cell]]


@click.command("status")
@json_option
@agent_options
def status(reach: Reach, as_json: bool) -> Answer:
    """Show how the node is.

    What it has and what is free, its drains, and what is wrong.

    Exit code 0 if an agent answers, whatever it says.
    """
    with reach.connect() as client:
        node = client.status()
    blocks: list[Block] = [Facts(_rows(node))]
    return Answer(exit_code=ExitCode.DONE, fields=_fields(node), blocks=blocks)


def _fields(node: NodeStatus) -> dict[str, Any]:
    return {
        "node": node.node,
        "version": node.version,
        "boot_id": node.boot_id,
        "agent_uid": node.agent_uid,
        "started_at": node.started_at,
        "registered": node.registered,
        "totals": inventory_fields(node.totals),
        "free": inventory_fields(node.free),
        "missing": inventory_fields(node.missing),
        "drains": [{"kind": one.kind, "cause": one.cause, "why": one.why, "since": one.since} for one in node.drains],
        "jobs": dict(node.jobs),
        "held": [
            {"job_id": one.attempt.job_id, "run_attempt": one.attempt.run_attempt, "uid": one.uid, "why": one.why}
            for one in node.held
        ],
        "not_enforced": dict(node.not_enforced),
        "problems": list(node.problems),
    }


def _rows(node: NodeStatus) -> _Rows:
    rows: _Rows = [
        ("node", node.node),
        ("agent", f"{node.version}, as user {node.agent_uid}, since {time_text(node.started_at)}"),
        ("state", _state(node)),
        ("jobs", ", ".join(f"{count} {word}" for word, count in node.jobs.items() if count) or "none"),
    ]
    for name, inventory in (("has", node.totals), ("free", node.free), ("missing", node.missing)):
        if inventory is not None and (name != "missing" or inventory != Inventory()):
            rows.append((name, _inventory_text(inventory)))
    rows += [("note", Toned(why, "weak")) for why in node.not_enforced.values()]
    rows += [("drain", f"{one.kind}: {one.why or one.cause}, since {time_text(one.since)}") for one in node.drains]
    rows += [("held", Toned(f"{one.attempt}: {one.why}", "bad")) for one in node.held]
    rows += [("problem", Toned(problem, "bad")) for problem in node.problems]
    return rows


def _state(node: NodeStatus) -> Cell:
    if node.drains:
        return Toned("drained: it starts nothing new", "weak")
    return Toned("takes jobs", "good") if node.registered else Toned("not registered yet", "weak")


def _inventory_text(inventory: Inventory) -> str:
    parts = [f"CPU {cpu_list(inventory.cpus)}" if inventory.cpus else "no CPU", size_text(inventory.memory_bytes)]
    parts += [f"GPU {gpu}" for gpu in inventory.gpus]
    parts += [f"{count} {name}" for name, count in inventory.generic.items()]
    return ", ".join(parts)


@click.command("drain")
@click.option("--why", default="", metavar="TEXT", help="The reason, for the record.")
@json_option
@agent_options
def drain(reach: Reach, why: str, as_json: bool) -> Answer:
    """Let the node start nothing new.

    What runs goes on. Only root may. It stays so over restarts, until `undrain`.

    Exit code 0 once that is on record.
    """
    with reach.connect() as client:
        changed = client.drain(why)
    return _changed(changed, "the node is drained", "the node was drained already")


@click.command("undrain")
@json_option
@agent_options
def undrain(reach: Reach, as_json: bool) -> Answer:
    """Let the node take jobs again.

    As far as it was drained by hand: other drains lift themselves. Only root may.

    Exit code 0 once that is on record.
    """
    with reach.connect() as client:
        changed = client.undrain()
    return _changed(changed, "the node is not drained by hand any more", "the node was not drained by hand")


def _changed(changed: bool, text: str, otherwise: str) -> Answer:
    return Answer(exit_code=ExitCode.DONE, fields={"changed": changed}, blocks=(Line(text if changed else otherwise),))
