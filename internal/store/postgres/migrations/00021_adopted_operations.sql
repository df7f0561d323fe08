-- Operations that the provider had carried out and that this store had forgotten, as after
-- a restore from an older backup. Staff record them from the provider's list; carried_out_at
-- is when that says they were carried out, and NULL for all other operations. The index is
-- where a request's key is looked for besides the known ones, and nearly always empty.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (21, 2);

ALTER TABLE operations ADD COLUMN carried_out_at BIGINT;
CREATE UNIQUE INDEX operations_adopted ON operations (operator_id, idempotency_key) WHERE carried_out_at IS NOT NULL;
