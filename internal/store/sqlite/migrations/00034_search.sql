-- Indexes by which searches find payments and receipts, and what keeps retried rows from a second charge.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (34, 2);

-- Rejected and withdrawn announcements are looked for, too.
CREATE INDEX payment_announcements_by_reference ON payment_announcements (reference_key);

-- One receipt of 64, so that few settlements write here: the lines of the others follow.
CREATE INDEX ledger_receipts ON ledger (operator_id, receipt) WHERE receipt % 64 = 1;

-- Set for a row of a retry: it is refused if its subscriber was renewed after that moment.
ALTER TABLE bulk_rows ADD COLUMN not_renewed_since INTEGER;
