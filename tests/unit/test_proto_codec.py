"""Records and messages as bytes: what is written is read, what is not is refused by a named error, and nothing grows."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc import KillPlan, ProcessIdentity
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.cgroup.usage import CgroupUsage
from spurproc.core.exit_info import ExitInfo, ExitSource, ResourceUsage
from spurproc.core.spawn.stage import SpawnStage
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import Proof
from spurproc.errors import RecordInvalid, RecordTooNew
from spurproc.proto import codec, journal_record, messages
from spurproc.proto.codec import OLDEST_VERSION, PROTOCOL_VERSION, decode, encode, version_of
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.framing import MESSAGE_LIMIT_BYTES, LineBuffer
from spurproc.proto.journal_record import History, JournalRecord, history_of
from spurproc.proto.launch_record import Hook, LaunchRecord, Program
from spurproc.proto.messages import HostRequest, Reply, Request
from spurproc.proto.raw_text import raw_bytes, raw_text
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_state import StepState

ONE = RuntimeId(7, 1, 0)
BOOT = "01234567-89ab-cdef-0123-456789abcdef"
IDENTITY = ProcessIdentity(
    pid=12, start_ticks=34, boot_id=BOOT, pidfs_inode=56, pid_namespace=4026531836, time_namespace=4026531834
).to_text()
CGROUP = CgroupRecord(path="/sys/fs/cgroup/x", inode=2, above_inode=1, boot_id=BOOT)
ENDS = [
    ExitInfo.unknown("nobody knows"),
    ExitInfo.not_started(SpawnStage.EXEC.name, 2, interpreter="/bin/none", reason="no"),
    ExitInfo.from_wait_status(
        0x0B | 0x80,
        source=ExitSource.WAITED,
        usage=ResourceUsage(user_usec=1, system_usec=2, max_rss_bytes=3),
        oom_kills=1,
        trusted=False,
    ),
]
USAGE = CgroupUsage(cpu_usec=3, user_usec=2, system_usec=1)
JOURNAL: list[Any] = [
    journal_record.GateOpening(at=1.0),
    journal_record.Launched(at=2.0),
    *[journal_record.ExitObserved(at=3.0, end=end) for end in ENDS],
    journal_record.Terminating(at=4.0, why="é\n"),
    journal_record.Emptied(at=5.0, proof=Proof.CGROUP_EMPTY, usage=USAGE),
    journal_record.HookBegun(at=6.0, hook="epilog", cgroup=CGROUP),
    journal_record.HookCompleted(at=7.0, hook="epilog", end=ENDS[0]),
    journal_record.Acknowledged(at=8.0),
]
REQUESTS: list[Any] = [
    messages.Hello(runtime_id=ONE, capability="0" * 32),
    messages.Signal(runtime_id=ONE, signal=15),
    messages.Terminate(runtime_id=ONE, plan=KillPlan.default()),
    *[kind(runtime_id=ONE) for kind in (messages.Start, messages.Status, messages.Subscribe, messages.Terminate)],
    *[kind(runtime_id=ONE) for kind in (messages.Suspend, messages.Resume, messages.Acknowledge)],
]
REPLIES: list[Any] = [
    messages.Welcome(state=StepState.RUNNING),
    messages.Refused(why="so", state=StepState.READY),
    messages.StatusReply(state=StepState.HELD, end=ENDS[2], blocked_at="STDOUT", held_by=("a", "b")),
    messages.Signalled(report={"signalled": 1}),
    messages.StateChanged(state=StepState.EPILOG),
    messages.Started(leader=IDENTITY),
    messages.Ended(end=ENDS[1]),
    messages.Completed(end=ENDS[0]),
]
HOST_REQUESTS: list[Any] = [messages.Launch(runtime_id=ONE), messages.TakeOver(runtime_id=ONE), messages.Retire()]
LAUNCH = LaunchRecord(
    runtime_id=ONE,
    boot_id=BOOT,
    capability="0" * 32,
    program=Program(argv=("a", raw_text(b"\xff")), env=("A=1",), limits={7: (1, 2)}, stdout="/x"),
    prolog=Hook(argv=("p",)),
    epilog=Hook(argv=("e",), timeout_s=0.5),
    time_limit_s=1e300,
)
DESCRIPTOR = Descriptor(
    runtime_id=ONE,
    supervisor_text=IDENTITY,
    host_text=IDENTITY,
    containment=Containment.CGROUP,
    cgroup=CGROUP,
    joined=True,
    leader_text=IDENTITY,
)
EVERY: list[tuple[Any, Any]] = [
    *[(JournalRecord, value) for value in JOURNAL],
    *[(Request, value) for value in REQUESTS],
    *[(Reply, value) for value in REPLIES],
    *[(HostRequest, value) for value in HOST_REQUESTS],
    (messages.HostReply, messages.LookAgain()),
    (messages.HostReply, messages.Refused(why="no")),
    (LaunchRecord, LAUNCH),
    (Descriptor, DESCRIPTOR),
]
KINDS: list[Any] = [JournalRecord, Request, Reply, HostRequest, LaunchRecord, Descriptor]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


def named(value: Any) -> str:
    return type(value).__name__


def written(value: Any) -> Any:
    return json.loads(encode(value))


def unharmed(content: bytes, kind: Any) -> None:
    """Either a value, or the one error that is said to come."""
    with suppress(RecordInvalid):
        decode(content, kind, "here")


@pytest.mark.parametrize(("kind", "value"), EVERY, ids=[named(value) for _, value in EVERY])
def test_what_is_written_is_read(kind: Any, value: Any) -> None:
    line = encode(value)
    assert b"\n" not in line
    assert decode(line, kind, "here") == value


def test_every_kind_of_message_and_record_is_tried_here() -> None:
    tried = {type(value) for _, value in EVERY}
    for kind in (JournalRecord, Request, Reply, HostRequest, messages.HostReply):
        assert set(kind.__args__) <= tried


@pytest.mark.parametrize(("kind", "value"), EVERY, ids=[named(value) for _, value in EVERY])
def test_a_field_of_a_later_release_is_left_out(kind: Any, value: Any) -> None:
    form = {**written(value), "of_a_later_release": {"deep": [1]}}
    assert decode(json.dumps(form).encode(), kind, "here") == value


@pytest.mark.parametrize("kind", KINDS)
@given(content=st.binary(max_size=400))
def test_bytes_are_a_value_or_refused(kind: Any, content: bytes) -> None:
    unharmed(content, kind)


@pytest.mark.parametrize("kind", KINDS)
@given(value=JSON)
def test_json_is_a_value_or_refused(kind: Any, value: Any) -> None:
    unharmed(json.dumps(value).encode(), kind)


@given(data=st.data())
def test_a_field_that_is_changed_is_a_value_or_refused(data: st.DataObject) -> None:
    """One leaf, anywhere, becomes anything."""
    kind, value = data.draw(st.sampled_from(EVERY))
    form = written(value)
    place, key = form, data.draw(st.sampled_from(sorted(form)))
    while isinstance(place[key], dict) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place)))
    place[key] = data.draw(JSON)
    unharmed(json.dumps(form).encode(), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_nested_without_end_is_refused(kind: Any) -> None:
    for content in (b"[" * 100_000, b'{"a":' * 100_000, b'{"request":' * 20_000):
        with pytest.raises(RecordInvalid):
            decode(content, kind, "here")


# Versions.


@pytest.mark.parametrize("record", [LAUNCH, DESCRIPTOR])
def test_a_record_says_its_version(record: Any) -> None:
    assert version_of(encode(record), "here") == PROTOCOL_VERSION


@given(version=st.integers(min_value=PROTOCOL_VERSION + 1, max_value=2**63 - 1))
def test_a_newer_record_is_refused_by_its_number_whatever_else_is_in_it(version: int) -> None:
    with pytest.raises(RecordTooNew, match=str(version)) as refused:
        version_of(json.dumps({"v": version, "runtime_id": "of another shape"}).encode(), "here")
    assert refused.value.version == version


@pytest.mark.parametrize("version", [0, -1, OLDEST_VERSION - 1, 10**30, 1.5, "1", None])
def test_a_version_that_is_none_is_refused(version: object) -> None:
    with pytest.raises(RecordInvalid):
        version_of(json.dumps({"v": version}).encode(), "here")


def test_the_version_before_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it will be once there has been one."""
    monkeypatch.setattr(codec, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    monkeypatch.setattr(codec, "OLDEST_VERSION", PROTOCOL_VERSION)
    assert version_of(encode(LAUNCH), "here") == PROTOCOL_VERSION
    monkeypatch.setattr(codec, "OLDEST_VERSION", PROTOCOL_VERSION + 1)
    with pytest.raises(RecordInvalid, match=f"its version is {PROTOCOL_VERSION}"):
        version_of(encode(LAUNCH), "here")


def test_the_oldest_is_the_one_before() -> None:
    assert max(1, PROTOCOL_VERSION - 1) == OLDEST_VERSION


# Journals.


def lines_of(*records: Any) -> list[bytes]:
    return [encode(record) for record in records]


def test_of_each_kind_the_first_counts() -> None:
    again = journal_record.ExitObserved(at=9.0, end=ENDS[1])
    history = history_of(lines_of(*JOURNAL, again), "here")
    assert history.end == ENDS[0]
    assert history.emptied is not None
    assert history.emptied.usage == USAGE
    assert history.hooks_begun["epilog"].cgroup == CGROUP
    assert history.hooks_completed == {"epilog": ENDS[0]}


def test_a_hook_that_completes_without_having_begun_is_no_history() -> None:
    with pytest.raises(RecordInvalid, match="never began"):
        history_of(lines_of(journal_record.HookCompleted(at=1.0, hook="prolog", end=ENDS[0])), "here")


def test_the_line_that_cannot_be_read_is_named() -> None:
    with pytest.raises(RecordInvalid, match="line 2"):
        history_of([*lines_of(JOURNAL[0]), b"{}"], "here")


@given(lines=st.lists(st.sampled_from(lines_of(*JOURNAL)) | st.binary(max_size=60), max_size=12))
def test_any_journal_is_a_history_or_refused(lines: list[bytes]) -> None:
    try:
        history = history_of(lines, "here")
    except RecordInvalid:
        return
    assert isinstance(history, History)
    assert history_of(lines, "here") == history


@given(records=st.permutations(JOURNAL))
def test_a_record_is_never_taken_back(records: list[Any]) -> None:
    """Whatever is appended, what was known before stays as it was."""
    lines = lines_of(*records)
    known: dict[str, object] = {}
    for count in range(len(lines) + 1):
        try:
            history = history_of(lines[:count], "here")
        except RecordInvalid:
            return
        for name, value in known.items():
            assert value is None or getattr(history, name) == value
        known = {name: getattr(history, name) for name in ("gate_opening", "launched", "exit_observed", "emptied")}


# Framing.


@given(content=st.lists(st.binary(max_size=50).filter(lambda line: b"\n" not in line), max_size=10), data=st.data())
def test_lines_come_out_as_they_went_in_however_they_are_cut(content: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in content)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[first:last] for first, last in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    lines = LineBuffer("here")
    assert [line for piece in pieces for line in lines.feed(piece)] == content


def fed_until_refused(lines: LineBuffer, piece: bytes) -> int:
    fed = 0
    while True:
        fed += len(piece)
        try:
            assert lines.feed(piece) == []
        except RecordInvalid:
            return fed


@pytest.mark.parametrize("piece", [1, 4096, MESSAGE_LIMIT_BYTES])
def test_a_line_without_end_is_refused_before_it_is_held(piece: int) -> None:
    tracemalloc.start()
    try:
        assert fed_until_refused(LineBuffer("here"), b"a" * piece) <= MESSAGE_LIMIT_BYTES
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MESSAGE_LIMIT_BYTES


@pytest.mark.parametrize(("length", "taken"), [(MESSAGE_LIMIT_BYTES - 1, True), (MESSAGE_LIMIT_BYTES, False)])
def test_the_longest_message(length: int, taken: bool) -> None:
    lines = LineBuffer("here")
    if taken:
        assert lines.feed(b"a" * length + b"\n") == [b"a" * length]
    else:
        with pytest.raises(RecordInvalid):
            lines.feed(b"a" * length + b"\n")


# Text.


@given(content=st.binary(max_size=50))
def test_bytes_of_any_kind_are_kept(content: bytes) -> None:
    text = raw_text(content)
    assert raw_bytes(msgspec.json.decode(encode(text), type=messages_text)) == content


messages_text: Any = type(raw_text(b"\xff")) | str


@given(job=st.integers(), attempt=st.integers(), step=st.integers())
def test_a_runtime_id_on_the_wire_is_as_strict_as_anywhere(job: int, attempt: int, step: int) -> None:
    """An attempt of 0, or a part that is missing, matches nothing."""
    form = {"request": "status", "runtime_id": {"job_id": job, "run_attempt": attempt, "step_id": step}}
    valid = 1 <= job < 2**63 and 1 <= attempt < 2**32 and 0 <= step < 2**32 - 1
    kind: Any = Request
    try:
        decode(json.dumps(form).encode(), kind, "here")
    except RecordInvalid:
        assert not valid
    else:
        assert valid


@pytest.mark.parametrize("missing", ["job_id", "run_attempt", "step_id"])
def test_a_runtime_id_needs_all_three_parts(missing: str) -> None:
    parts = {"job_id": 1, "run_attempt": 1, "step_id": 0}
    del parts[missing]
    kind: Any = Request
    with pytest.raises(RecordInvalid, match=missing):
        decode(json.dumps({"request": "status", "runtime_id": parts}).encode(), kind, "here")
