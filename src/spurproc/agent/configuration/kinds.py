"""What a setting can be: each kind is read from TOML and from text, and written as both, and back comes what was there.

Reading raises ValueError, whose message is the reason alone: where the value stands is for the caller to say.
"""

from __future__ import annotations

import json
import math
import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["NUMBER", "AbsolutePath", "Choice", "Kind", "Optional", "Pattern", "Seconds", "Text", "Whole", "shown", "toml_string"]

T = TypeVar("T")

NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
"""A whole number as it is typed."""
_PATH_LAST_BYTES = 4095
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)


class Kind(ABC, Generic[T]):
    """How a value is read and written. `meaning` says it in words, for the reference page and for who got it wrong."""

    meaning: str

    def from_toml(self, value: object) -> T:
        """The value of a TOML document; text where the kind has no form of its own there."""
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is not {self.meaning}")  # noqa: TRY004 - one class for all that is wrong
        return self.from_text(value)

    @abstractmethod
    def from_text(self, text: str) -> T:
        """The value of a flag or a variable."""

    @abstractmethod
    def to_text(self, value: T) -> str:
        """What `from_text` reads as `value`."""

    def to_toml(self, value: T) -> str:
        """What TOML reads as what `from_toml` takes for `value`, on one line."""
        return toml_string(self.to_text(value))

    def _wrong(self, value: object) -> ValueError:
        return ValueError(f"{shown(value)} is not {self.meaning}")


@dataclass(frozen=True, slots=True)
class Text(Kind[str]):
    """Text of one line, which may be held to a pattern."""

    meaning: str = "text of one line"
    pattern: str = r"[^\x00-\x1f\x7f]+"

    def from_text(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise self._wrong(text)
        return text

    def to_text(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class AbsolutePath(Kind[str]):
    """A path. In a file it has to be absolute; what is typed is taken from the current folder."""

    meaning: str = "an absolute path"

    def from_toml(self, value: object) -> str:
        if not isinstance(value, str) or not value.startswith("/"):
            raise self._wrong(value)
        return self.from_text(value)

    def from_text(self, text: str) -> str:
        if not text or "\0" in text:
            raise self._wrong(text)
        try:
            return os.path.abspath(text)
        except OSError as error:
            reason = f"is relative, and the current folder cannot be told: {error.strerror}"
            raise ValueError(f"{shown(text)} {reason}") from None

    def to_text(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Kind[int]):
    """A whole number between two, both included."""

    low: int
    high: int

    @property
    def meaning(self) -> str:  # type: ignore[override]
        return f"a whole number from {self.low} to {self.high}"

    def from_toml(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise self._wrong(value)
        return value

    def from_text(self, text: str) -> int:
        if not NUMBER.fullmatch(text):
            raise self._wrong(text)
        return self.from_toml(int(text))

    def to_text(self, value: int) -> str:
        return str(value)

    def to_toml(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds(Kind[float]):
    """A time span, finite."""

    low: float
    high: float = 366 * 86_400.0

    @property
    def meaning(self) -> str:  # type: ignore[override]
        return f"a number of seconds from {self.low:g} to {self.high:.10g}"

    def from_toml(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:  # a NaN is not
            raise self._wrong(value)
        return float(value)

    def from_text(self, text: str) -> float:
        if not _DECIMAL.fullmatch(text):
            raise self._wrong(text)
        return self.from_toml(float(text))

    def to_text(self, value: float) -> str:
        return str(int(value)) if value == math.floor(value) else repr(value)

    def to_toml(self, value: float) -> str:
        return self.to_text(value)


@dataclass(frozen=True, slots=True)
class Choice(Kind[str]):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def meaning(self) -> str:  # type: ignore[override]
        return f"one of {', '.join(self.words)}"

    def from_text(self, text: str) -> str:
        if text not in self.words:
            raise self._wrong(text)
        return text

    def to_text(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Optional(Kind[T | None]):
    """Another kind, or a word for None."""

    kind: Kind[T]
    word: str

    @property
    def meaning(self) -> str:  # type: ignore[override]
        return f"{self.kind.meaning}, or {self.word}"

    def from_toml(self, value: object) -> T | None:
        return None if value == self.word else self.kind.from_toml(value)

    def from_text(self, text: str) -> T | None:
        return None if text == self.word else self.kind.from_text(text)

    def to_text(self, value: T | None) -> str:
        return self.word if value is None else self.kind.to_text(value)

    def to_toml(self, value: T | None) -> str:
        return toml_string(self.word) if value is None else self.kind.to_toml(value)


@dataclass(frozen=True, slots=True)
class Pattern(Kind[str]):
    """A path with places in it; what may stand in them is checked here, and what comes of it where it is used."""

    meaning: str = "a path, in which a % stands before one of j a s x u N %"

    def from_text(self, text: str) -> str:
        if len(text.encode()) > _PATH_LAST_BYTES or not re.fullmatch(r"(?:[^%\x00-\x1f\x7f]|%[jasxuN%])+", text):
            raise self._wrong(text)
        return text

    def to_text(self, value: str) -> str:
        return value


def shown(value: object) -> str:
    """Short, on one line, whatever it is."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no longer one
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def toml_string(text: str) -> str:
    """A basic string; JSON escapes what TOML does, but for DEL, which TOML wants escaped. Source: TOML 1.0, "String"."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
