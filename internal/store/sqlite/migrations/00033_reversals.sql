-- Reversals of successful operations: the provider undid the order, and the money went back.
-- Older binaries read on: the operation stays a success, and what it moved back stands in
-- the wallet, its entries and the ledger.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (33, 2);

-- An open reversal has next_at, when the provider is asked; a reversal of that reference is
-- carried out once, so that any node may ask at any time. asks counts how often it was, or may
-- have been, asked, since asked_at. unsupported: the provider has no such call. by_person: a
-- person settled it. One that was settled as not undone has next_at until the provider is known
-- never to carry it out, which is voided.
CREATE TABLE reversals (
    reference               TEXT    PRIMARY KEY,
    operation_id            TEXT    NOT NULL REFERENCES operations (id),
    operator_id             INTEGER NOT NULL,
    subscriber_id           TEXT    NOT NULL,
    amount_paise            INTEGER NOT NULL CHECK (amount_paise > 0),
    commission_paise        INTEGER NOT NULL CHECK (commission_paise >= 0),
    status                  TEXT    NOT NULL CHECK (status = 'requested' OR status = 'asked' OR status = 'reversed' OR status = 'refused'),
    actor                   TEXT    NOT NULL,
    reason                  TEXT    NOT NULL,
    requested_at            INTEGER NOT NULL,
    asks                    INTEGER NOT NULL DEFAULT 0,
    asked_at                INTEGER,
    next_at                 INTEGER,
    completed_at            INTEGER,
    provider_transaction_id TEXT,
    message                 TEXT    NOT NULL DEFAULT '',
    unsupported             INTEGER NOT NULL DEFAULT 0 CHECK (unsupported IN (0, 1)),
    by_person               INTEGER NOT NULL DEFAULT 0 CHECK (by_person IN (0, 1)),
    voided                  INTEGER NOT NULL DEFAULT 0 CHECK (voided IN (0, 1)),
    CHECK (next_at IS NOT NULL OR completed_at IS NOT NULL),
    CHECK (next_at IS NULL OR completed_at IS NULL OR status = 'refused' AND by_person = 1),
    CHECK ((status = 'reversed' OR status = 'refused') = (completed_at IS NOT NULL))
) STRICT;
CREATE INDEX reversals_of_operation ON reversals (operation_id);
CREATE UNIQUE INDEX reversals_once ON reversals (operation_id) WHERE status <> 'refused';
CREATE UNIQUE INDEX reversals_one_open ON reversals (subscriber_id) WHERE completed_at IS NULL;
CREATE INDEX reversals_due ON reversals (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX reversals_completed ON reversals (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX reversals_of_operator ON reversals (operator_id, completed_at) WHERE status = 'reversed';

ALTER TABLE operations ADD COLUMN reversed_at INTEGER;
-- The operation that is being reversed: no other may begin.
ALTER TABLE subscribers ADD COLUMN reversing TEXT;
-- The operation whose charge a credit takes back.
ALTER TABLE ledger ADD COLUMN reversal_of TEXT REFERENCES operations (id);
CREATE UNIQUE INDEX ledger_reversals ON ledger (reversal_of) WHERE reversal_of IS NOT NULL;

-- Only the rules' text changes, so no table is copied: see migration 2.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(replace(replace(sql,
       'kind = ''reserve'' OR kind = ''refund'')', 'kind = ''reserve'' OR kind = ''refund'' OR kind = ''reversal'')'),
       'CHECK ((kind IN (''reserve'', ''refund'')) = (operation_id IS NOT NULL))',
       'CHECK ((kind = ''reserve'' OR kind = ''refund'' OR kind = ''reversal'') = (operation_id IS NOT NULL))'),
       'CHECK ((kind IN (''topup'', ''refund'')) <= (amount_paise > 0))',
       'CHECK ((kind = ''topup'' OR kind = ''refund'' OR kind = ''reversal'') <= (amount_paise > 0))')
 WHERE type = 'table' AND name = 'wallet_entries';

UPDATE sqlite_schema SET sql = replace(replace(sql,
       '''adjust'', ''settle''', '''adjust'', ''settle'', ''reverse'''),
       '(kind = ''settle'')', '(kind = ''settle'' OR kind = ''reverse'')')
 WHERE type = 'table' AND name = 'proposals';

-- More may have been taken back in a month than was earned in it.
UPDATE sqlite_schema SET sql = replace(sql, ' CHECK (amount_paise >= 0)', '')
 WHERE type = 'table' AND name = 'commission_periods';

PRAGMA writable_schema = RESET;

CREATE TABLE schema_reload (at INTEGER) STRICT;
DROP TABLE schema_reload;
