"""Jobs and attempts as they are shown: what the controller has on record, and what the agent knows of just now."""

from __future__ import annotations

from spurproc.agent.controller.local.records import AttemptRecord, JobRecord, JobState
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.service.desk import AttemptNow, Places
from spurproc.agent.service.shown import AttemptView, JobView, ProgramView

__all__ = ["attempt_view", "job_view", "program_view"]


def job_view(job: JobRecord, now: AttemptNow | None, last: AttemptRecord | None = None) -> JobView:
    """A job, whose attempt does `now` what the agent says; `last`: its last attempt, to show how that ended."""
    phase = now.phase if now is not None and job.state is JobState.DISPATCHED else None
    held_because = job.held_because or (now.held_because if now is not None else None)
    return JobView(
        attempt=job.attempt,
        state=job.state.value,
        phase=phase,
        held_because=held_because,
        name=job.name,
        uid=job.uid,
        user=job.user,
        submitted_by=job.submitted_by,
        submitted_at=job.submitted_at,
        requeue_wanted=job.requeue_wanted,
        resources=job.request,
        end=None if last is None or last.report is None else last.report.end,
        cancelled=last is not None and _was_cancelled(last),
        damaged="; ".join(filter(None, (job.damaged, None if last is None else _damage(last)))) or None,
    )


def attempt_view(record: AttemptRecord, now: AttemptNow | None, places: Places | None) -> AttemptView:
    """One attempt. `places` is None where the job cannot be read."""
    report, cancel = record.report, record.cancel
    return AttemptView(
        attempt=record.attempt,
        dispatched_at=record.dispatched_at,
        started_at=_started_at(record, now),
        ended_at=None if report is None else report.ended_at,
        end=None if report is None else report.end,
        cancelled=_was_cancelled(record),
        cancelled_by=None if cancel is None else cancel.uid,
        cancelled_because=(cancel.why or None) if cancel is not None else None,
        node_fault=None if report is None else report.node_fault,
        allocation=None if now is None else now.allocation,
        work_dir=None if places is None else places.work_dir,
        stdout=None if places is None else places.stdout,
        stderr=None if places is None else places.stderr,
        not_enforced=_not_enforced(record, now),
        damaged=_damage(record),
    )


def _damage(record: AttemptRecord) -> str | None:
    return "; ".join(record.damage.values()) or None


def _not_enforced(record: AttemptRecord, now: AttemptNow | None) -> tuple[str, ...]:
    if record.report is not None:
        return record.report.not_enforced
    return () if now is None else now.not_enforced


def _was_cancelled(record: AttemptRecord) -> bool:
    return record.cancelled or (record.report is not None and record.report.cancelled)


def _started_at(record: AttemptRecord, now: AttemptNow | None) -> float | None:
    if record.report is not None and record.report.started_at is not None:
        return record.report.started_at
    return None if now is None else now.started_at


def program_view(spec: JobSpec) -> ProgramView:
    """What it runs. Neither the text of its script nor its environment, which may be long, and hold secrets."""
    return ProgramView(
        argv=spec.argv,
        script_bytes=None if spec.script is None else len(spec.script),
        work_dir=spec.work_dir,
        gid=spec.gid,
        groups=spec.groups,
        time_limit_s=spec.time_limit_s,
        requeue=spec.requeue.value,
    )
