"""Where the settings come from: a flag, else the environment, else the file, else the default. Every mistake is named at once."""

from __future__ import annotations

import difflib
import enum
import errno
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.configuration.fields import FIELD_OF_NAME, FIELDS, PREFIX, Field, default_config_file
from spurproc.agent.configuration.kinds import shown
from spurproc.agent.configuration.toml_lines import KeyPath, broken_statement, key_lines
from spurproc.errors import ConfigurationInvalid

__all__ = ["CONFIG_ENVIRONMENT", "LoadedConfiguration", "Origin", "Source", "load_configuration"]

CONFIG_ENVIRONMENT = f"{PREFIX}CONFIG"
"""Environment variable: the file to read; a flag `--config` goes before it."""
_LIMIT_BYTES = 1 << 20
_SAFE_TIMEOUT_S = 30.0
_TOO_LONG = re.compile(r"[0-9_]{4300,}", re.ASCII)
"""Of digits, for Python. Source: its library reference, "Integer string conversion length limitation"."""
_AT_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


class Source(enum.Enum):
    """What kind of place a value stands in."""

    FLAG = "flag"
    ENVIRONMENT = "variable"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place of one value; `str` names it."""

    source: Source
    name: str = ""
    """The flag, the variable, or the path of the file."""
    line: int | None = None

    def __str__(self) -> str:
        if self.source is Source.DEFAULT:
            return "default"
        if self.source is Source.FILE:
            return self.name if self.line is None else f"{self.name}, line {self.line}"
        return f"{self.source.value} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfiguration:
    """The values, where each comes from, and what somebody should be told of."""

    configuration: Configuration
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...] = ()
    file: str | None = None
    """The file that was read; None where there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A value as it was given: how to read it, and where it stands."""

    origin: Origin
    read: Callable[[], Any]


def load_configuration(
    flags: Mapping[str, str], *, file: str | None = None, environment: Mapping[str, str] = os.environ, uid: int | None = None
) -> LoadedConfiguration:
    """All settings. `flags`: what was typed, by the names of the settings; `file`: the one that was named, which has to exist.

    Raises ConfigurationInvalid, which names every value that cannot be used, with its place, and every key that nobody knows.
    """
    uid = os.geteuid() if uid is None else uid
    problems: list[str] = []
    path, content = _chosen_file(file, environment, uid, problems)
    given = _defaults(environment, uid)
    given |= _from_file(path, content, problems)
    given |= {field.name: _text(field, Source.ENVIRONMENT, environment[field.variable]) for field in _set_in(environment)}
    given |= {field.name: _text(field, Source.FLAG, flags[field.name]) for field in FIELDS if field.name in flags}
    unknown = sorted(flags.keys() - FIELD_OF_NAME.keys())
    problems += [f"cannot use {name} (flag): no setting has this name{_nearest(name, FIELD_OF_NAME)}" for name in unknown]
    values = _values(given, problems)
    origins = {name: each.origin for name, each in given.items()}
    _check_together(values, origins, problems)
    if problems:
        raise ConfigurationInvalid(problems)
    configuration = Configuration(**values)
    warnings = tuple(_warnings(configuration, origins, environment))
    return LoadedConfiguration(
        configuration=configuration, origins=origins, warnings=warnings, file=None if content is None else path
    )


def _defaults(environment: Mapping[str, str], uid: int) -> dict[str, _Given]:
    def read(field: Field) -> Callable[[], Any]:
        return lambda: field.kind.from_text(_checked(field.default_text(environment, uid)))

    return {field.name: _Given(origin=Origin(source=Source.DEFAULT), read=read(field)) for field in FIELDS}


def _set_in(environment: Mapping[str, str]) -> list[Field]:
    return [field for field in FIELDS if field.variable in environment]


def _text(field: Field, source: Source, text: str) -> _Given:
    name = field.flag if source is Source.FLAG else field.variable
    return _Given(origin=Origin(source=source, name=name), read=lambda: field.kind.from_text(_checked(text)))


def _checked(text: str) -> str:
    """What is typed may be any bytes; but records, messages and the log are UTF-8."""
    if not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text):
        raise ValueError(f"{shown(text)} is not UTF-8")
    return text


def _values(given: Mapping[str, _Given], problems: list[str]) -> dict[str, Any]:
    values = {}
    for name, each in given.items():
        try:
            values[name] = each.read()
        except ValueError as error:
            problems.append(f"cannot use {name} ({each.origin}): {error}")
    return values


def _chosen_file(file: str | None, environment: Mapping[str, str], uid: int, problems: list[str]) -> tuple[str, str | None]:
    """Its path, and what it says; None where there is none, which only one that was named has to be."""
    named = environment.get(CONFIG_ENVIRONMENT) if file is None else file
    if file == "":
        problems.append("cannot read '': --config names no file")
        return "", None
    path = named or default_config_file(environment, uid)
    try:
        path = os.path.abspath(path)
        return path, _read_file(path, uid)
    except OSError as error:
        if named or error.errno != errno.ENOENT:
            problems.append(f"cannot read {path}: {error.strerror}")
    except ValueError as error:
        problems.append(f"cannot read {path}: {error}")
    return path, None


def _read_file(path: str, uid: int) -> str:
    """A link is fine, for who can put one there can put a file there. What others may change decides what root runs."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        facts = os.fstat(fd)
        others = 0o022 if uid == 0 else 0o002
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LIMIT_BYTES:
            raise ValueError(f"not a regular file of at most {_LIMIT_BYTES} bytes")
        if facts.st_uid not in (0, uid):
            raise ValueError(f"it belongs to user {facts.st_uid}")
        if facts.st_mode & others:
            raise ValueError(f"others may write it: its mode is {stat.S_IMODE(facts.st_mode):04o}")
        return _decoded(os.pread(fd, facts.st_size, 0))
    finally:
        os.close(fd)


def _decoded(content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start].count(b"\n")
        raise ValueError(f"line {before + 1} is not UTF-8") from None
    if text.startswith("\ufeff"):
        raise ValueError("line 1 begins with a byte order mark, which TOML has none of")
    return text


def _from_file(path: str, content: str | None, problems: list[str]) -> dict[str, _Given]:
    if content is None:
        return {}
    try:
        table, lines = tomllib.loads(content), key_lines(content)
    except tomllib.TOMLDecodeError as error:
        problems.append(_syntax_problem(path, content, str(error)))
        return {}
    except ValueError:
        found = _TOO_LONG.search(content)
        line = content[: found.start()].count("\n") + 1 if found else 1
        problems.append(_syntax_problem(path, content, f"A number has too many digits (at line {line}, column 1)"))
        return {}
    except RecursionError:
        problems.append(f"cannot read {path}: its values are nested too deeply")
        return {}
    known = {}
    for key, value in table.items():
        if key in FIELD_OF_NAME:
            known[key] = _toml(FIELD_OF_NAME[key], value, path, lines)
        else:
            origin = Origin(source=Source.FILE, name=path, line=lines.get((key,)))
            problems.append(f"cannot use {key or repr(key)} ({origin}): no setting has this name{_nearest(key, FIELD_OF_NAME)}")
    return known


def _toml(field: Field, value: object, path: str, lines: Mapping[KeyPath, int]) -> _Given:
    """With the line of its key; of a table, with that of the first entry in it that cannot be used."""
    places: list[KeyPath] = [(field.name,)]
    if isinstance(value, dict):
        places = [(field.name, key) for key, each in value.items() if not _is_fine(field, {key: each})] + places
    origin = Origin(source=Source.FILE, name=path, line=lines.get(places[0]))
    return _Given(origin=origin, read=lambda: field.kind.from_toml(value))


def _is_fine(field: Field, value: object) -> bool:
    try:
        field.kind.from_toml(value)
    except ValueError:
        return False
    return True


def _syntax_problem(path: str, content: str, message: str) -> str:
    """With the line, and the key whose value it is, if one begins there, or above, where the value has many lines."""
    lines = content.split("\n")
    found = _AT_LINE.search(message)
    line = int(found[1]) if found and found[1] else len(lines)
    key, equals, _ = lines[(broken_statement(content) or line) - 1].partition("=")
    where = f"{path}, line {line}" + (f", {key.strip()}" if equals and key.strip() else "")
    reason = _AT_LINE.sub("", message)
    return f"cannot read {where}: {reason[:1].lower()}{reason[1:]}"


def _nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; the nearest is {found[0]}" if found else ""


def _check_together(values: Mapping[str, Any], origins: Mapping[str, Origin], problems: list[str]) -> None:
    """What each value allows by itself, and the two of them do not."""
    interval_s, timeout_s = values.get("heartbeat_interval_s"), values.get("heartbeat_timeout_s")
    if interval_s is not None and timeout_s is not None and timeout_s <= interval_s:
        reason = f"{timeout_s:g} s is not longer than heartbeat_interval_s ({origins['heartbeat_interval_s']}), {interval_s:g} s"
        problems.append(f"cannot use heartbeat_timeout_s ({origins['heartbeat_timeout_s']}): {reason}")


def _warnings(configuration: Configuration, origins: Mapping[str, Origin], environment: Mapping[str, str]) -> Iterable[str]:
    timeout_s = configuration.heartbeat_timeout_s
    if timeout_s < _SAFE_TIMEOUT_S:
        where = f"heartbeat_timeout_s ({origins['heartbeat_timeout_s']}) is {timeout_s:g} s"
        yield f"{where}: below {_SAFE_TIMEOUT_S:g} s a node that is only busy, or waits for its disk, is taken for dead"
    for name, argv in (("prolog_argv", configuration.prolog_argv), ("epilog_argv", configuration.epilog_argv)):
        if argv and not (os.path.isfile(argv[0]) and os.access(argv[0], os.X_OK)):
            yield f"{name} ({origins[name]}): {argv[0]!r} is no program that can be run, so far"
    known = {field.variable for field in FIELDS} | {CONFIG_ENVIRONMENT}
    for name in sorted(name for name in environment if name.startswith(PREFIX) and name not in known):
        yield f"the variable {name} is no setting{_nearest(name, known)}"
