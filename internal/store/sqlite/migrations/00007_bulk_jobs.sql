-- Bulk renewals of an operator. A job is whoever's turn it is from due_at on, which
-- is the end of a lease or of a pause; epoch counts the hands that it went through.
-- A row's key is fixed with the row, before anything is charged under it.

-- +goose Up
CREATE TABLE bulk_jobs (
    operator_id  INTEGER NOT NULL REFERENCES operators (id),
    id           TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state = 'draft' OR state = 'running' OR state = 'finished'),
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,
    cancelled_at INTEGER,
    ended_at     INTEGER,
    pause_reason TEXT    NOT NULL DEFAULT '',
    epoch        INTEGER NOT NULL DEFAULT 0,
    node         TEXT    NOT NULL DEFAULT '',
    due_at       INTEGER,
    PRIMARY KEY (operator_id, id)
) STRICT;
CREATE UNIQUE INDEX bulk_jobs_one_running ON bulk_jobs (operator_id) WHERE state = 'running';
CREATE INDEX bulk_jobs_due ON bulk_jobs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX bulk_jobs_started ON bulk_jobs (operator_id, started_at) WHERE started_at IS NOT NULL;
CREATE INDEX bulk_jobs_drafts ON bulk_jobs (created_at) WHERE state = 'draft';

CREATE TABLE bulk_rows (
    operator_id     INTEGER NOT NULL,
    job_id          TEXT    NOT NULL,
    number          INTEGER NOT NULL,
    line            INTEGER NOT NULL,
    subscriber_id   TEXT    NOT NULL,
    mobile          TEXT    NOT NULL,
    customer_name   TEXT    NOT NULL,
    plan_id         TEXT    NOT NULL,
    kind            TEXT    NOT NULL CHECK (kind = 'renew' OR kind = 'advance_renew'),
    idempotency_key TEXT    NOT NULL,
    quoted_paise    INTEGER NOT NULL,
    expiry_quoted   INTEGER,
    state           TEXT    NOT NULL CHECK (state = 'queued' OR state = 'running' OR state = 'done' OR state = 'refused' OR state = 'in_review' OR state = 'cancelled'),
    code            TEXT    NOT NULL,
    message         TEXT    NOT NULL,
    epoch           INTEGER NOT NULL DEFAULT 0,
    operation_id    TEXT,
    amount_paise    INTEGER NOT NULL DEFAULT 0,
    expiry          INTEGER,
    begun_at        INTEGER,
    ended_at        INTEGER,
    PRIMARY KEY (operator_id, job_id, number),
    FOREIGN KEY (operator_id, job_id) REFERENCES bulk_jobs (operator_id, id),
    CHECK (state <> 'done' OR operation_id IS NOT NULL)
) STRICT;
CREATE INDEX bulk_rows_by_state ON bulk_rows (operator_id, job_id, state, number);

INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (7, 2);
