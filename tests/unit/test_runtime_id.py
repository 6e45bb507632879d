"""The name of a step: strict, with one text each."""

from __future__ import annotations

import pytest

from spurproc.errors import InvalidArgument
from spurproc.proto.runtime_id import BATCH_STEP, EXTERN_STEP, INTERACTIVE_STEP, RuntimeId


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (RuntimeId(7, 1, 0), "7.1.0"),
        (RuntimeId(2**63 - 1, 2**32 - 1, 0xFFFFFFFB), f"{2**63 - 1}.{2**32 - 1}.{0xFFFFFFFB}"),
        (RuntimeId(1, 2, BATCH_STEP), "1.2.batch"),
        (RuntimeId(1, 2, EXTERN_STEP), "1.2.extern"),
        (RuntimeId(1, 2, INTERACTIVE_STEP), "1.2.interactive"),
    ],
)
def test_text_and_back(identity: RuntimeId, text: str) -> None:
    assert str(identity) == text
    assert RuntimeId.parse(text) == identity


@pytest.mark.parametrize(
    "text",
    [
        *("", "7", "7.1", "7.1.0.0", "7.1.", ".1.0", "7..0", "0.1.0", "7.0.0", "07.1.0", "7.01.0", "7.1.00", "+7.1.0", "7.1.-1"),
        *(
            "7.1.0\n",
            " 7.1.0",
            "7.1.Batch",
            "7.1.4294967294",
            "7.1.4294967295",
            "7.4294967296.0",
            f"{2**63}.1.0",
            "\u0667.1.0",
            "7.1.0/..",
        ),
    ],
)
def test_every_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        RuntimeId.parse(text)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ((0, 1, 0), "job_id"),
        ((1, 0, 0), "run_attempt"),
        ((1, 1, 2**32 - 1), "step_id"),
        ((True, 1, 0), "job_id"),
        ((1, 1.0, 0), "run_att"),
    ],
)
def test_a_part_out_of_range_is_named(parts: tuple[int, int, int], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        RuntimeId(*parts)
