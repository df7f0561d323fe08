-- Receipts. Every purchase that succeeds gets a receipt number, consecutive for its operator and
-- financial year, with its ledger line. Older binaries settle without one; a node of this release
-- then numbers those lines.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (30, 2);

-- What a receipt says about the operator besides its name.
ALTER TABLE operators ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE operators ADD COLUMN gstin   TEXT NOT NULL DEFAULT '';

-- receipts is the last number given in the financial year receipt_year, named by the year in which
-- it begins. receipts_past has that of other years as JSON, such as {"2026":17}: at midnight on the
-- first of April two years are in use. They are in a row that a settlement writes anyway. The ledger up
-- to the line receipts_from is older than receipt numbers; from there to the line receipt_lines every
-- purchase has one. ledger_lines is ahead of receipt_lines only where an older binary has written.
ALTER TABLE wallets ADD COLUMN receipt_year  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE wallets ADD COLUMN receipts      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE wallets ADD COLUMN receipts_past TEXT NOT NULL DEFAULT '{}';
ALTER TABLE wallets ADD COLUMN receipt_lines INTEGER NOT NULL DEFAULT 0;
ALTER TABLE wallets ADD COLUMN receipts_from INTEGER NOT NULL DEFAULT 0;
UPDATE wallets SET receipt_lines = ledger_lines, receipts_from = ledger_lines;

-- The number in the financial year of created_at; NULL for what is no purchase.
ALTER TABLE ledger ADD COLUMN receipt INTEGER;

-- Receipts that were printed: what is printed later is a duplicate.
CREATE TABLE receipt_prints (
    operation_id TEXT NOT NULL PRIMARY KEY,
    operator_id  INTEGER NOT NULL,
    printed_at   INTEGER NOT NULL,
    printed_by   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
