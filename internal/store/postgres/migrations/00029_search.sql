-- Indexes by which searches find payments, and what keeps retried rows from a second charge, as on SQLite.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (29, 1);

-- Rejected and withdrawn announcements are looked for, too.
CREATE INDEX payment_announcements_by_reference ON payment_announcements (reference_key);

-- Set for a row of a retry: it is refused if its subscriber was renewed after that moment.
ALTER TABLE bulk_rows ADD COLUMN not_renewed_since BIGINT;
