-- What a second person has to agree to, months whose commission is settled for
-- good, and where staff acted from. Older binaries write and read on as before:
-- their acts have no origin.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (8, 1);

ALTER TABLE staff_acts ADD COLUMN origin TEXT NOT NULL DEFAULT '';

-- checker is who decided it: for a withdrawal its maker, otherwise never. Nobody
-- decides what lapses.
CREATE TABLE proposals (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    kind           TEXT    NOT NULL CHECK (kind IN ('topup', 'adjust', 'settle')),
    operator_id    INTEGER NOT NULL,
    amount_paise   INTEGER NOT NULL CHECK (amount_paise <> 0),
    reference      TEXT    NOT NULL DEFAULT '',
    transaction_id TEXT    NOT NULL DEFAULT '',
    confirm        INTEGER NOT NULL DEFAULT 0 CHECK (confirm IN (0, 1)),
    reason         TEXT    NOT NULL DEFAULT '',
    matter         TEXT    NOT NULL,
    maker          TEXT    NOT NULL,
    made_at        INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('open', 'approved', 'declined', 'withdrawn', 'lapsed')),
    checker        TEXT,
    decided_at     INTEGER,
    answer         TEXT    NOT NULL DEFAULT '',
    CHECK ((kind = 'topup') = (reference <> '')),
    CHECK ((kind = 'settle') = (transaction_id <> '')),
    CHECK ((status = 'open') = (decided_at IS NULL)),
    CHECK ((status IN ('open', 'lapsed')) = (checker IS NULL)),
    CHECK (status NOT IN ('approved', 'declined') OR checker <> maker),
    CHECK (status <> 'withdrawn' OR checker = maker)
) STRICT;
-- One matter of an operator waits for a decision once.
CREATE UNIQUE INDEX proposals_one_open ON proposals (operator_id, matter) WHERE status = 'open';

-- month is that of Indian time, as 2027-03.
CREATE TABLE commission_periods (
    operator_id  INTEGER NOT NULL,
    month        TEXT    NOT NULL,
    operations   INTEGER NOT NULL CHECK (operations >= 0),
    amount_paise INTEGER NOT NULL CHECK (amount_paise >= 0),
    closed_by    TEXT    NOT NULL,
    closed_at    INTEGER NOT NULL,
    PRIMARY KEY (operator_id, month)
) STRICT, WITHOUT ROWID;
