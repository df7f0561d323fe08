-- Maintenance mode: it is on while there is a row. A reservation locks the table in
-- ROW SHARE mode and reads it; switching the mode on locks it in EXCLUSIVE mode, and so
-- waits for the reservations under way. Plain reads, such as a dump's, wait for neither.
-- A bulk job that was interrupted by it, or found open after a long stop, waits until a
-- person continues or stops it.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (11, 1);

CREATE TABLE maintenance (
    one    BIGINT PRIMARY KEY CHECK (one = 1),
    since  BIGINT NOT NULL,
    actor  TEXT   NOT NULL,
    reason TEXT   NOT NULL
);

ALTER TABLE bulk_jobs
    ADD COLUMN interrupted TEXT NOT NULL DEFAULT '' CHECK (interrupted = '' OR interrupted = 'maintenance' OR interrupted = 'downtime'),
    ADD COLUMN interrupted_at BIGINT,
    ADD COLUMN continued_by TEXT NOT NULL DEFAULT '',
    ADD COLUMN continued_at BIGINT;
