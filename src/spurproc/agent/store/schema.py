"""The tables of the agent's store."""

from __future__ import annotations

from spurproc.agent.store.file import Schema

__all__ = ["AGENT_SCHEMA"]

# The large columns stand last: SQLite reads a row from its beginning, and its further pages only when they are asked for.
_ATTEMPTS = """
CREATE TABLE attempts (
    job_id INTEGER NOT NULL CHECK (job_id >= 1),
    run_attempt INTEGER NOT NULL CHECK (run_attempt BETWEEN 1 AND 4294967295),
    state TEXT NOT NULL,
    held_because TEXT,
    accepted_at REAL NOT NULL,
    uid INTEGER NOT NULL,
    cancel BLOB,
    end BLOB,
    started_at REAL,
    node_fault TEXT,
    launched BLOB,
    epilog TEXT,
    release TEXT,
    report TEXT,
    spool TEXT,
    report_refusals INTEGER NOT NULL DEFAULT 0,
    report_refused_because TEXT,
    allocation BLOB NOT NULL,
    spec BLOB NOT NULL,
    PRIMARY KEY (job_id, run_attempt)
);
CREATE TABLE drains (
    kind TEXT NOT NULL,
    cause TEXT NOT NULL,
    why TEXT NOT NULL,
    since REAL NOT NULL,
    PRIMARY KEY (kind, cause)
) WITHOUT ROWID;
CREATE TABLE node_values (
    name TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL,
    since REAL NOT NULL
) WITHOUT ROWID;
"""

# `number` grows, so that the oldest are known without a clock.
_FINISHED = """
CREATE TABLE finished (
    number INTEGER NOT NULL PRIMARY KEY,
    job_id INTEGER NOT NULL UNIQUE CHECK (job_id >= 1),
    run_attempt INTEGER NOT NULL CHECK (run_attempt BETWEEN 1 AND 4294967295),
    report BLOB NOT NULL,
    spec_digest BLOB
);
"""

AGENT_SCHEMA = Schema(application_id=0x7370_6167, scripts=(_ATTEMPTS, _FINISHED))
