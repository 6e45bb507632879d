"""The records of a run: `run.json`, written by the launcher beforehand; `started` and `usage`, written by the recorder.

Codecs only: bytes in, values out, and back. The room of `started` and `usage` is made beforehand with NULs, so what counts ends
at the first NUL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.exit_info import ResourceUsage
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.members import Containment
from spurproc.core.vantage import boot_id_valid
from spurproc.errors import InvalidArgument, RecordInvalid

__all__ = ["RunRecord", "Started", "parse_started", "parse_usage"]

RUN_NAME = "run.json"
RUN_LIMIT_BYTES = 1 << 20
STARTED_NAME = "started"
STARTED_BYTES = 2048
USAGE_NAME = "usage"
USAGE_BYTES = 256
_VERSION = 1
_ARGV_LIMIT_BYTES = 16384  # enough for people to recognise the job by; argv itself may have megabytes
_NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)
_USAGE = re.compile(rb"spurproc-usage 1 ([0-9a-f]{32})((?: (?:0|[1-9][0-9]{0,19})){7})\n", re.ASCII)
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a launch was meant to be: `run.json`, version 1.

    `argv` may be cut short. `candidates` are the paths that exec was to try, for saying later which interpreter was missing;
    relative ones are relative to `cwd`. `cgroup` is None without CGROUP containment.
    """

    nonce: str
    boot_id: str
    launcher: ProcessIdentity
    containment: Containment
    cgroup: CgroupRecord | None
    recorder_uid: int
    job_uid: int
    argv: tuple[str, ...]
    candidates: tuple[str, ...]
    cwd: str | None

    @property
    def job_may_forge(self) -> bool:
        """Whether the job could have written its own record: it runs as the recorder's user, or as root."""
        return self.job_uid in (0, self.recorder_uid)

    def to_bytes(self) -> bytes:
        """The content of `run.json`: ASCII, one object. Bytes that are no UTF-8 are kept as lone surrogates."""
        form = {
            "version": _VERSION,
            "nonce": self.nonce,
            "boot_id": self.boot_id,
            "launcher": self.launcher.to_text(),
            "containment": self.containment.value,
            "cgroup": None if self.cgroup is None else self.cgroup.to_json(),
            "recorder_uid": self.recorder_uid,
            "job_uid": self.job_uid,
            "argv": _clipped(self.argv),
            "candidates": _clipped(self.candidates),
            "cwd": self.cwd,
        }
        # A field a line for people to read; laid out here, as json's own indent is written in Python and three times as slow.
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in form.items())
        return f"{{\n{lines}\n}}\n".encode("ascii")

    @classmethod
    def from_bytes(cls, content: bytes, path: str = RUN_NAME) -> RunRecord:
        """Undo `to_bytes`. Raises RecordInvalid, whatever the bytes are; nothing is filled in."""
        fields = _Fields(content, path)
        try:
            cgroup = fields.optional_object("cgroup")
            record = cls(
                nonce=fields.matching("nonce", _NONCE),
                boot_id=fields.boot_id("boot_id"),
                launcher=ProcessIdentity.from_text(fields.text("launcher")),
                containment=Containment(fields.text("containment")),
                cgroup=None if cgroup is None else CgroupRecord.from_json(cgroup),
                recorder_uid=fields.number("recorder_uid"),
                job_uid=fields.number("job_uid"),
                argv=fields.texts("argv"),
                candidates=fields.texts("candidates"),
                cwd=fields.optional_text("cwd"),
            )
        except ValueError as error:  # InvalidArgument is one
            raise RecordInvalid(path, str(error)) from error
        wanted = Containment.DESCENDANTS if record.cgroup is None else Containment.CGROUP
        if record.containment is not wanted:
            raise RecordInvalid(path, f"its containment, {record.containment.value}, does not fit its cgroup")
        return record


class _Fields:
    """The fields of one JSON object, each asked for with its type. A mistake is a RecordInvalid that names the field."""

    def __init__(self, content: bytes, path: str) -> None:
        self._path = path
        try:
            form = json.loads(content.decode("ascii"), object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise RecordInvalid(path, f"not JSON: {error}") from error
        if not isinstance(form, dict):
            raise RecordInvalid(path, "not an object")
        self._form = form
        if form.get("version") != _VERSION or isinstance(form.get("version"), bool):
            raise RecordInvalid(path, f"its version is {form.get('version')!r}, not {_VERSION}")

    def _bad(self, name: str, wanted: str) -> RecordInvalid:
        return RecordInvalid(self._path, f"{name} is not {wanted}")

    def text(self, name: str) -> str:
        value = self._form.get(name)
        if not isinstance(value, str):
            raise self._bad(name, "a string")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._absent(name) else self.text(name)

    def matching(self, name: str, pattern: re.Pattern[str]) -> str:
        if pattern.fullmatch(self.text(name)) is None:
            raise self._bad(name, f"of the form {pattern.pattern}")
        return self.text(name)

    def boot_id(self, name: str) -> str:
        if not boot_id_valid(self.text(name)):
            raise self._bad(name, "a boot id")
        return self.text(name)

    def number(self, name: str) -> int:
        value = self._form.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
            raise self._bad(name, "an unsigned 32-bit number")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._form.get(name)
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise self._bad(name, "a list of strings")
        return tuple(value)

    def optional_object(self, name: str) -> Mapping[str, object] | None:
        if self._absent(name):
            return None
        value = self._form.get(name)
        if not isinstance(value, dict):
            raise self._bad(name, "an object")
        return value

    def _absent(self, name: str) -> bool:
        if name not in self._form:
            raise self._bad(name, "there")
        return self._form[name] is None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; two readers need not agree on which of two equal keys counts."""
    form = dict(pairs)
    if len(form) != len(pairs):
        raise ValueError("a key stands there twice")
    return form


def _clipped(texts: tuple[str, ...]) -> list[str]:
    kept, room = [], _ARGV_LIMIT_BYTES
    for text in texts:
        if room <= 0:
            break
        kept.append(text[:room])
        room -= len(text) + 1  # an empty one takes room too
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What the recorder has noted so far.

    Lines, in this order: `recorder <identity>`; `leader <identity>`, before the gate opens; `launched`, once exec is confirmed;
    `unrecorded`, when the sentinel could not be written; `empty`, when a subreaper saw its last descendant end.
    """

    recorder: ProcessIdentity | None = None
    leader: ProcessIdentity | None = None
    launched: bool = False
    unrecorded: bool = False
    empty: bool = False


def parse_started(content: bytes, path: str = STARTED_NAME) -> Started:
    """The notes in `content`. A last line without its newline does not count yet. Raises RecordInvalid for anything else odd."""
    *lines, _unfinished = content.partition(b"\0")[0].split(b"\n")
    identities: dict[str, ProcessIdentity] = {}
    words: set[str] = set()
    for line in lines:
        word, _, rest = line.decode("latin-1").partition(" ")
        if word in ("recorder", "leader") and word not in identities:
            identities[word] = _identity(rest, path)
        elif word in ("launched", "unrecorded", "empty") and not rest and word not in words:
            words.add(word)
        else:
            raise RecordInvalid(path, f"unexpected line {line[:64]!r}")
    if "launched" in words and "leader" not in identities:
        raise RecordInvalid(path, "launched, but no leader")
    return Started(
        recorder=identities.get("recorder"),
        leader=identities.get("leader"),
        launched="launched" in words,
        unrecorded="unrecorded" in words,
        empty="empty" in words,
    )


def _identity(text: str, path: str) -> ProcessIdentity:
    try:
        return ProcessIdentity.from_text(text)
    except InvalidArgument as error:
        raise RecordInvalid(path, str(error)) from error


def parse_usage(content: bytes, nonce: str) -> ResourceUsage | None:
    """The resources in a usage line of this run; None where there is none. Never raises: the end counts, this is its trimming."""
    match = _USAGE.match(content)
    if match is None or match[1] != nonce.encode("ascii"):
        return None
    user, system, max_rss_kib, minor, major, voluntary, involuntary = (int(field) for field in match[2].split())
    return ResourceUsage(
        user_usec=user,
        system_usec=system,
        max_rss_bytes=max_rss_kib * _KIB,
        minor_faults=minor,
        major_faults=major,
        voluntary_switches=voluntary,
        involuntary_switches=involuntary,
    )
