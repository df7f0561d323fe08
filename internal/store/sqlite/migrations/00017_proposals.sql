-- Proposals that move no money: a change of a plan, and of who may approve. subject is
-- what such a proposal changes, change is what it wants, as JSON. Older binaries list
-- these proposals as settlements of 0.00 and refuse to approve them.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (17, 2);

CREATE TABLE proposals_new (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    kind           TEXT    NOT NULL CHECK (kind IN ('topup', 'adjust', 'settle', 'plan', 'login', 'role', 'password', 'totp')),
    operator_id    INTEGER NOT NULL,
    amount_paise   INTEGER NOT NULL,
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
    subject        TEXT    NOT NULL DEFAULT '',
    change         TEXT    NOT NULL DEFAULT '',
    CHECK ((kind IN ('topup', 'adjust', 'settle')) = (amount_paise <> 0)),
    CHECK ((kind IN ('topup', 'adjust', 'settle')) = (subject = '')),
    CHECK ((kind = 'topup') = (reference <> '')),
    CHECK ((kind = 'settle') = (transaction_id <> '')),
    CHECK ((status = 'open') = (decided_at IS NULL)),
    CHECK ((status IN ('open', 'lapsed')) = (checker IS NULL)),
    CHECK (status NOT IN ('approved', 'declined') OR checker <> maker),
    CHECK (status <> 'withdrawn' OR checker = maker)
) STRICT;
INSERT INTO proposals_new (id, kind, operator_id, amount_paise, reference, transaction_id, confirm, reason, matter, maker, made_at,
                           status, checker, decided_at, answer)
SELECT id, kind, operator_id, amount_paise, reference, transaction_id, confirm, reason, matter, maker, made_at,
       status, checker, decided_at, answer
  FROM proposals;
-- An id is never used twice, also where the latest proposals were taken out.
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'proposals')
 WHERE name = 'proposals_new' AND EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'proposals');
DROP TABLE proposals;
ALTER TABLE proposals_new RENAME TO proposals;
-- One matter of an operator waits for a decision once; what concerns no operator has
-- operator_id 0.
CREATE UNIQUE INDEX proposals_one_open ON proposals (operator_id, matter) WHERE status = 'open';
