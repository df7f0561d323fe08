-- A migration as a next release could bring it: it only adds, so that the present
-- release goes on beside it. The tests build a binary that has it.

-- +goose Up
ALTER TABLE operations ADD COLUMN note TEXT;
ALTER TABLE subscribers ADD COLUMN language TEXT NOT NULL DEFAULT 'en';
ALTER TABLE wallets ADD COLUMN alerted_at BIGINT;
CREATE INDEX operations_by_note ON operations (note) WHERE note IS NOT NULL;
CREATE TABLE operation_labels (
    operation_id TEXT COLLATE "C" NOT NULL REFERENCES operations (id),
    label        TEXT NOT NULL,
    PRIMARY KEY (operation_id, label)
);
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (99, 1);
