"""The name of an attempt: one text for each, and no number that no job has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.errors import InvalidArgument
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import BATCH_STEP, RuntimeId

ATTEMPTS = st.builds(AttemptId, st.integers(1, 2**63 - 1), st.integers(1, 2**32 - 1))


@given(ATTEMPTS)
def test_each_has_one_text(attempt: AttemptId) -> None:
    assert AttemptId.parse(str(attempt)) == attempt
    assert AttemptId.of(attempt.step(BATCH_STEP)) == attempt
    assert str(attempt.step(BATCH_STEP)) == f"{attempt}.batch"


@given(ATTEMPTS, ATTEMPTS)
def test_the_later_of_one_job_is_larger(one: AttemptId, other: AttemptId) -> None:
    assert (one < other) == ((one.job_id, one.run_attempt) < (other.job_id, other.run_attempt))


@pytest.mark.parametrize(
    "text", ["", "7", "7.", "07.1", "7.01", "0.1", "7.0", "7.1.0", " 7.1", "7.1\n", "\u0667.1", "7.4294967296", "7.-1"]
)
def test_no_other_text_is_read(text: str) -> None:
    with pytest.raises(InvalidArgument):
        AttemptId.parse(text)


@pytest.mark.parametrize(("job_id", "run_attempt"), [(0, 1), (1, 0), (True, 1), (2**63, 1), (1, 2**32)])
def test_no_number_that_no_job_has(job_id: int, run_attempt: int) -> None:
    with pytest.raises(InvalidArgument):
        AttemptId(job_id, run_attempt)
    assert RuntimeId(1, 1, 0) == AttemptId(1, 1).step(0)
