"""The tables of the built-in controller."""

from __future__ import annotations

from spurproc.agent.store.file import Schema

__all__ = ["CONTROLLER_SCHEMA"]

# `place` is the order of the queue. An attempt has a row from its dispatch on, or from its end where it was never dispatched.
_QUEUE = """
CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    next INTEGER NOT NULL CHECK (next >= 1)
) WITHOUT ROWID;
INSERT INTO counters VALUES ('job', 1), ('place', 1), ('generation', 1), ('report', 1);
CREATE TABLE jobs (
    job_id INTEGER NOT NULL PRIMARY KEY CHECK (job_id >= 1),
    run_attempt INTEGER NOT NULL CHECK (run_attempt BETWEEN 1 AND 4294967295),
    state TEXT NOT NULL CHECK (state IN ('queued', 'dispatched', 'ended', 'held')),
    held_because TEXT,
    place INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    user TEXT NOT NULL,
    name TEXT NOT NULL,
    submitted_by INTEGER NOT NULL,
    submitted_at REAL NOT NULL,
    submission_key TEXT,
    digest BLOB NOT NULL,
    requeue_wanted INTEGER NOT NULL DEFAULT 0,
    requeue_on_fault INTEGER NOT NULL,
    request BLOB NOT NULL,
    spec BLOB NOT NULL
);
CREATE UNIQUE INDEX jobs_by_key ON jobs (submitted_by, submission_key) WHERE submission_key IS NOT NULL;
CREATE INDEX jobs_queued ON jobs (place) WHERE state = 'queued';
CREATE INDEX jobs_dispatched ON jobs (job_id) WHERE state = 'dispatched';
CREATE INDEX jobs_by_uid ON jobs (uid, job_id);
CREATE TABLE attempts (
    job_id INTEGER NOT NULL REFERENCES jobs,
    run_attempt INTEGER NOT NULL CHECK (run_attempt BETWEEN 1 AND 4294967295),
    dispatched_at REAL,
    cancel BLOB,
    report BLOB,
    reported_at REAL,
    other_report BLOB,
    PRIMARY KEY (job_id, run_attempt)
) WITHOUT ROWID;
"""

CONTROLLER_SCHEMA = Schema(application_id=0x7370_6374, scripts=(_QUEUE,))
