-- What was removed because it was older than a setting of retention.*: one row for each
-- transaction that removed something, with counts and sums, so that the audit can tell what
-- was removed by the service from what was deleted by hand. Rows are kept for good. Older
-- binaries remove nothing.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (29, 2);

-- last_id: of provider_calls and operation_events, this row covers the operations after the
-- row before, in the order of ids, up to this one; of bulk_jobs it is the operator's id, "/"
-- and the job's. Of those operations, the ones that lost their rows are counted, summed up by
-- outcome, and hashed in the order of their ids. before_at: they were ordered before it.
CREATE TABLE retention_closings (
    number         INTEGER PRIMARY KEY,
    what           TEXT    NOT NULL CHECK (what = 'provider_calls' OR what = 'operation_events' OR what = 'bulk_jobs'),
    last_id        TEXT    NOT NULL,
    before_at      INTEGER NOT NULL,
    operations     INTEGER NOT NULL CHECK (operations >= 0),
    removed        INTEGER NOT NULL CHECK (removed >= 0),
    charged_paise  INTEGER NOT NULL CHECK (charged_paise >= 0),
    refunded_paise INTEGER NOT NULL CHECK (refunded_paise >= 0),
    ids_hash       BLOB    NOT NULL,
    mac            BLOB    NOT NULL,
    mac_key        INTEGER NOT NULL,
    made_at        INTEGER NOT NULL,
    UNIQUE (what, last_id)
) STRICT;

CREATE INDEX bulk_jobs_ended ON bulk_jobs (ended_at) WHERE state = 'finished';
