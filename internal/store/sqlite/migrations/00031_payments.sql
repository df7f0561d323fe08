-- Payments that operators announce, and the credits of uploaded bank statements that they are
-- compared with. Nothing here moves money: a top-up closes the announcement of its reference.
-- Older binaries credit wallets without closing one.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (31, 2);

-- code is our reference, which the UPI QR code has. reference is the operator's, as typed, and
-- reference_key its normalised form. A matched announcement is that of a bank line:
-- bank_reference and bank_key are the line's.
CREATE TABLE payment_announcements (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    operator_id    INTEGER NOT NULL REFERENCES operators (id),
    code           TEXT    NOT NULL UNIQUE,
    amount_paise   INTEGER NOT NULL CHECK (amount_paise > 0),
    method         TEXT    NOT NULL CHECK (method IN ('upi', 'imps', 'neft', 'rtgs', 'other')),
    reference      TEXT    NOT NULL,
    reference_key  TEXT    NOT NULL CHECK (reference_key <> ''),
    bank_reference TEXT,
    bank_key       TEXT,
    paid_on        TEXT    NOT NULL,
    note           TEXT    NOT NULL,
    actor          TEXT    NOT NULL,
    announced_at   INTEGER NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('announced', 'matched', 'credited', 'rejected', 'withdrawn')),
    decided_by     TEXT,
    decided_at     INTEGER,
    answer         TEXT    NOT NULL DEFAULT '',
    credited_seq   INTEGER,
    credited_paise INTEGER,
    CHECK ((state IN ('announced', 'matched')) = (decided_at IS NULL)),
    CHECK ((decided_by IS NULL) = (decided_at IS NULL)),
    CHECK (state <> 'matched' OR bank_key IS NOT NULL),
    CHECK ((bank_key IS NULL) = (bank_reference IS NULL)),
    CHECK ((state = 'credited') = (credited_seq IS NOT NULL)),
    CHECK ((credited_seq IS NULL) = (credited_paise IS NULL)),
    CHECK (state <> 'rejected' OR answer <> '')
) STRICT;
CREATE UNIQUE INDEX payment_announcements_one_reference ON payment_announcements (reference_key) WHERE state <> 'rejected' AND state <> 'withdrawn';
CREATE INDEX payment_announcements_by_bank_key ON payment_announcements (bank_key) WHERE bank_key IS NOT NULL;
CREATE UNIQUE INDEX payment_announcements_one_credit ON payment_announcements (operator_id, credited_seq) WHERE credited_seq IS NOT NULL;
CREATE INDEX payment_announcements_of_operator ON payment_announcements (operator_id, id);
CREATE INDEX payment_announcements_open ON payment_announcements (id) WHERE decided_at IS NULL;
CREATE INDEX payment_announcements_open_of_operator ON payment_announcements (operator_id) WHERE decided_at IS NULL;

-- known, debits and skipped count the lines that were left out: uploaded before, money that
-- went out, and lines that are no transaction. columns are the columns that were read, as JSON.
CREATE TABLE bank_statements (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    file_name   TEXT    NOT NULL,
    actor       TEXT    NOT NULL,
    uploaded_at INTEGER NOT NULL,
    credits     INTEGER NOT NULL,
    known       INTEGER NOT NULL,
    debits      INTEGER NOT NULL,
    skipped     INTEGER NOT NULL,
    columns     TEXT    NOT NULL
) STRICT;

-- A credit of a statement, once however often it is uploaded: line_key is a hash of the line.
-- reference is what a top-up by hand of this line is called.
CREATE TABLE bank_lines (
    statement_id    INTEGER NOT NULL REFERENCES bank_statements (id),
    number          INTEGER NOT NULL,
    paid_on         TEXT    NOT NULL,
    amount_paise    INTEGER NOT NULL CHECK (amount_paise > 0),
    narration       TEXT    NOT NULL,
    reference       TEXT    NOT NULL,
    reference_key   TEXT    NOT NULL,
    line_key        TEXT    NOT NULL UNIQUE,
    announcement_id INTEGER REFERENCES payment_announcements (id),
    PRIMARY KEY (statement_id, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX bank_lines_of_announcement ON bank_lines (announcement_id) WHERE announcement_id IS NOT NULL;
CREATE INDEX bank_lines_old ON bank_lines (paid_on) WHERE announcement_id IS NULL;

-- The columns that staff chose for a header line, for the next statement with the same one.
CREATE TABLE bank_columns (
    header   TEXT    NOT NULL PRIMARY KEY,
    columns  TEXT    NOT NULL,
    actor    TEXT    NOT NULL,
    saved_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A payment can have two references, the operator's and that of the bank's line. Its credit is
-- kept under both, so that it can be repeated under neither: alias is 1 for the one that is not
-- the wallet entry's.
ALTER TABLE credited_references ADD COLUMN alias INTEGER NOT NULL DEFAULT 0 CHECK (alias IN (0, 1));
DROP INDEX credited_references_entry;
CREATE UNIQUE INDEX credited_references_entry ON credited_references (operator_id, seq, alias);
