"""`spurproc-inspect tree`: the processes of a tree as they stand now, what they do and use, and who has escaped."""

from __future__ import annotations

from typing import Any

import click

from spurproc.command_line.answer import Answer, Block, Cell, Facts, Toned
from spurproc.command_line.output import json_option
from spurproc.core.tree.process_walk import proc_shows_all
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.provenance import observation_fields, observation_rows
from spurproc.inspect.target import TARGET, Target
from spurproc.inspect.tree_members import Escape, Member, tree_members
from spurproc.inspect.tree_subject import TreeSubject, open_tree
from spurproc.inspect.tree_usage import read_usage
from spurproc.inspect.tree_view import Shown, tree_blocks, tree_fields

__all__ = ["command"]


@click.command("tree")
@click.argument("target", type=TARGET)
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Show N levels below the top at most.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=500, show_default=True, metavar="N", help="Show N processes at most."
)
@json_option
def command(target: Target, depth: int | None, limit: int, as_json: bool) -> Answer:
    """Show the processes of TARGET as a tree.

    Exit code 0 if any of them lives, 1 if none does.
    """
    with open_tree(target) as subject:
        tree = subject.find()
        members = [] if tree is None else tree_members(tree)
        return _answer(subject, members, _shown(members, depth, limit))


def _shown(members: list[Member], depth: int | None, limit: int) -> list[Shown]:
    chosen = [member for member in members if depth is None or member.depth <= depth][:limit]
    return [Shown(member, read_usage(member.row)) for member in chosen]


def _answer(subject: TreeSubject, members: list[Member], shown: list[Shown]) -> Answer:
    seen, whole = subject.observe(), proc_shows_all()
    omitted = len(members) - len(shown)
    known = {one.member.row.pid for one in shown}
    alive = any(one.alive for one in shown) or any(not m.row.ended for m in members if m.row.pid not in known)
    escaped = sum(member.escape is Escape.CGROUP for member in members)
    fields: dict[str, Any] = {
        **subject.fields,
        **observation_fields(seen),
        "count": len(members),
        "escaped_count": escaped,
        "omitted": omitted,
        "proc_shows_all": whole,
        "processes": tree_fields(shown),
    }
    rows = [*subject.rows, *observation_rows(seen), ("processes", _count_cell(len(members), escaped, whole=whole))]
    blocks: list[Block] = [Facts(rows), *tree_blocks(shown, omitted)]
    return Answer(exit_code=ExitCode.HOLDS if alive else ExitCode.FAILS, fields=fields, blocks=blocks)


def _count_cell(count: int, escaped: int, *, whole: bool) -> Cell:
    text = f"{count}" + (f", {escaped} of them outside of the cgroup" if escaped else "")
    if not whole:
        text += "; /proc does not show all there may be"
    return Toned(text, "bad") if escaped else text
