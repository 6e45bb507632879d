"""The rules for a job's script, the same wherever it comes from. It is run as it is: by its own first line, byte for byte.

A script without a first line that names an interpreter is refused. A shell would run it, and execve(2) would not; which shell,
and whether at all, would depend on who starts it.
"""

from __future__ import annotations

import os

from spurproc.errors import InvalidArgument

__all__ = ["SCRIPT_LIMIT_BYTES", "check_script", "interpreter_of", "script_warnings"]

SCRIPT_LIMIT_BYTES = 4 << 20
_FIRST_LINE_BYTES = 255
"""As far as the kernel reads it. Source: execve(2), "Interpreter scripts"."""
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t"


def check_script(script: bytes) -> None:
    """Raises InvalidArgument for what cannot be run, with the reason."""
    reason = _why_not(script)
    if reason is not None:
        raise InvalidArgument(f"script: {reason}")


def interpreter_of(script: bytes) -> str:
    """The program that its first line names, as the kernel takes it; whatever ends with a CR shows it."""
    words = script.partition(b"\n")[0][2:].strip(_BLANK).split(b" ")[0].split(b"\t")
    return os.fsdecode(words[0])


def script_warnings(script: bytes) -> tuple[str, ...]:
    """What can be run, and most likely is not what was meant."""
    first, _, rest = script.partition(b"\n")
    if first.endswith(b"\r"):
        what = "the name of its interpreter" if interpreter_of(script).endswith("\r") else "the argument of its interpreter"
        return (f"its first line ends with CR LF, so {what} ends with a CR",)
    if b"\r\n" in rest:
        return ("lines of it end with CR LF: most interpreters take the CR for a part of the line",)
    return ()


def _why_not(script: bytes) -> str | None:
    if not script:
        return "it is empty"
    if len(script) > SCRIPT_LIMIT_BYTES:
        return f"it has more than {SCRIPT_LIMIT_BYTES} bytes"
    if b"\0" in script:
        return "it holds a NUL: it is no text (a program is submitted by its path, as an argv)"
    if script.startswith(_BOM):
        return "it begins with a byte order mark, so the kernel sees no #! (save it without)"
    return _why_no_interpreter(script.partition(b"\n")[0])


def _why_no_interpreter(first: bytes) -> str | None:
    if not first.startswith(b"#!"):
        return "its first line does not name an interpreter, such as #!/bin/sh"
    interpreter = first[2:].strip(_BLANK)
    if not interpreter:
        return "its first line names no interpreter after #!"
    if len(first) > _FIRST_LINE_BYTES:
        return f"its first line has more than {_FIRST_LINE_BYTES} bytes, and the kernel reads no more"
    if not interpreter.startswith(b"/"):
        return "its interpreter is no absolute path: which one it is would depend on the work folder"
    return None
