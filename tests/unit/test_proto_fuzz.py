"""Thousands of damaged messages and records, from a fixed seed: each is a value or refused by name, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spurproc import RuntimeId, adopt
from spurproc.core.durable.journal import read_journal
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.errors import RecordInvalid
from spurproc.proto.codec import decode, encode, version_of
from spurproc.proto.framing import MESSAGE_LIMIT_BYTES, LineBuffer
from spurproc.proto.journal_record import history_of
from tests.step_records import ACKNOWLEDGED, write_step
from tests.unit.test_proto_codec import DESCRIPTOR, EVERY

SEED = 20261130
ROUNDS = 150
"""For each kind of message and record: four thousand and more in all."""
TOKENS = [
    b"{",
    b"}",
    b"[",
    b'"',
    b"\\",
    b":",
    b",",
    b"null",
    b"1e999",
    b"-1",
    b"9" * 40,
    b"\\ud800",
    b"\xff",
    b"\0",
    b"\n",
    b'{"v":',
]


def flip(chance: random.Random, line: bytes) -> bytes:
    """One bit of it."""
    at = chance.randrange(len(line))
    return line[:at] + bytes([line[at] ^ 1 << chance.randrange(8)]) + line[at + 1 :]


def cut(chance: random.Random, line: bytes) -> bytes:
    """A piece is missing."""
    first, last = sorted(chance.choices(range(len(line) + 1), k=2))
    return line[:first] + line[last:]


def repeat(chance: random.Random, line: bytes) -> bytes:
    """A piece is there twice, or many times."""
    first, last = sorted(chance.choices(range(len(line) + 1), k=2))
    return line[:first] + line[first:last] * chance.choice([2, 3, 50]) + line[last:]


def insert(chance: random.Random, line: bytes) -> bytes:
    """Something of the grammar, or of none, where it does not belong."""
    at = chance.randrange(len(line) + 1)
    return line[:at] + chance.choice(TOKENS) * chance.choice([1, 1, 2, 5000]) + line[at:]


def splice(chance: random.Random, line: bytes) -> bytes:
    """The head of one and the tail of another."""
    other = encode(chance.choice(EVERY)[1])
    return line[: chance.randrange(len(line) + 1)] + other[chance.randrange(len(other) + 1) :]


DAMAGE: list[Callable[[random.Random, bytes], bytes]] = [flip, cut, repeat, insert, splice]


def damaged(chance: random.Random, line: bytes) -> bytes:
    """Damaged once, or a few times."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        line = chance.choice(DAMAGE)(chance, line) or b"x"
    return line


@pytest.mark.parametrize(("kind", "value"), EVERY, ids=[type(value).__name__ for _, value in EVERY])
def test_a_damaged_one_is_a_value_or_refused(kind: Any, value: Any) -> None:
    """And what is taken for a value is one: it can be written and read again."""
    chance = random.Random(f"{SEED} {value!r}")
    for _ in range(ROUNDS):
        line = damaged(chance, encode(value))
        with suppress(RecordInvalid):
            version_of(line, "here")
        with suppress(RecordInvalid):
            taken = decode(line, kind, "here")
            assert decode(encode(taken), kind, "here") == taken


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_is_the_same_lines_however_it_is_cut(seed: int) -> None:
    """Damaged messages, with newlines where there should be none and lines that are too long: all before such a one come out."""
    chance = random.Random(f"{SEED} {seed}")
    stream = b"".join(damaged(chance, encode(chance.choice(EVERY)[1])) + b"\n" for _ in range(100))
    whole = stream.split(b"\n")[:-1]
    long = next((number for number, line in enumerate(whole) if len(line) >= MESSAGE_LIMIT_BYTES), len(whole))
    for largest in (1 << 10, 1 << 14, len(stream)):
        lines, refused = fed_in_pieces(chance, stream, largest)
        assert refused == (long < len(whole))
        assert lines == whole[: len(lines)]
        assert len(lines) <= long
        if not refused:
            assert len(lines) == len(whole)


def fed_in_pieces(chance: random.Random, stream: bytes, largest: int) -> tuple[list[bytes], bool]:
    """The lines that came out, and whether it was refused at last."""
    buffer, lines, at = LineBuffer("here"), [], 0
    while at < len(stream):
        size = chance.randint(1, largest)
        try:
            lines += buffer.feed(stream[at : at + size])
        except RecordInvalid:
            return lines, True
        at += size
    return lines, False


def test_damaged_journals_are_histories_or_refused(tmp_path: Path) -> None:
    """As files: with torn tails, lines of others, and no end."""
    chance = random.Random(SEED)
    records = b"".join(encode(value) + b"\n" for kind, value in EVERY if "event" in encode(value).decode())
    tmp_path.chmod(0o700)
    for _ in range(500):
        (tmp_path / "journal.jsonl").write_bytes(damaged(chance, records))
        with PrivateFolder.open(tmp_path) as folder, suppress(RecordInvalid):
            history_of(read_journal(folder), "here")


@pytest.mark.parametrize("name", ["launch.json", "descriptor.json", "journal.jsonl"])
def test_a_state_folder_of_damaged_records_is_adopted_as_far_as_it_goes(tmp_path: Path, name: str) -> None:
    """Each step is adopted or refused by name; what is adopted can be asked how it stands, or says what of it cannot be read."""
    chance = random.Random(f"{SEED} {name}")
    state, count = tmp_path / "state", 100
    for runtime_id in (RuntimeId(job, 1, 0) for job in range(1, count + 1)):
        folder = write_step(state, runtime_id, ACKNOWLEDGED)
        (folder / "descriptor.json").write_bytes(encode(replace(DESCRIPTOR, runtime_id=runtime_id)))
        (folder / name).write_bytes(damaged(chance, (folder / name).read_bytes()))
    adoption = adopt(state)
    assert len(adoption.steps) + len(adoption.refused) == count
    assert adoption.steps
    assert adoption.refused
    for step in adoption.steps:
        with suppress(RecordInvalid):
            step.status()
