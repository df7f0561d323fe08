-- Maintenance mode: it is on while there is a row. A reservation reads the table in its
-- own transaction. A bulk job that was interrupted by it, or found open after a long
-- stop, waits until a person continues or stops it.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (16, 2);

CREATE TABLE maintenance (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    since  INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    reason TEXT    NOT NULL
) STRICT;

ALTER TABLE bulk_jobs ADD COLUMN interrupted TEXT NOT NULL DEFAULT '' CHECK (interrupted = '' OR interrupted = 'maintenance' OR interrupted = 'downtime');
ALTER TABLE bulk_jobs ADD COLUMN interrupted_at INTEGER;
ALTER TABLE bulk_jobs ADD COLUMN continued_by TEXT NOT NULL DEFAULT '';
ALTER TABLE bulk_jobs ADD COLUMN continued_at INTEGER;
