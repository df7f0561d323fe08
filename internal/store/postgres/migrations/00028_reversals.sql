-- Reversals of successful operations: the provider undid the order, and the money went back.
-- Older binaries read on: the operation stays a success, and what it moved back stands in
-- the wallet, its entries and the ledger.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (28, 1);

-- An open reversal has next_at, when the provider is asked; a reversal of that reference is
-- carried out once, so that any node may ask at any time. asks counts how often it was, or may
-- have been, asked, since asked_at. unsupported: the provider has no such call. by_person: a
-- person settled it. One that was settled as not undone has next_at until the provider is known
-- never to carry it out, which is voided.
CREATE TABLE reversals (
    reference               TEXT COLLATE "C" PRIMARY KEY,
    operation_id            TEXT COLLATE "C" NOT NULL REFERENCES operations (id),
    operator_id             BIGINT NOT NULL,
    subscriber_id           TEXT COLLATE "C" NOT NULL,
    amount_paise            BIGINT NOT NULL CHECK (amount_paise > 0),
    commission_paise        BIGINT NOT NULL CHECK (commission_paise >= 0),
    status                  TEXT NOT NULL CHECK (status IN ('requested', 'asked', 'reversed', 'refused')),
    actor                   TEXT NOT NULL,
    reason                  TEXT NOT NULL,
    requested_at            BIGINT NOT NULL,
    asks                    BIGINT NOT NULL DEFAULT 0,
    asked_at                BIGINT,
    next_at                 BIGINT,
    completed_at            BIGINT,
    provider_transaction_id TEXT,
    message                 TEXT NOT NULL DEFAULT '',
    unsupported             BIGINT NOT NULL DEFAULT 0 CHECK (unsupported IN (0, 1)),
    by_person               BIGINT NOT NULL DEFAULT 0 CHECK (by_person IN (0, 1)),
    voided                  BIGINT NOT NULL DEFAULT 0 CHECK (voided IN (0, 1)),
    CHECK (next_at IS NOT NULL OR completed_at IS NOT NULL),
    CHECK (next_at IS NULL OR completed_at IS NULL OR status = 'refused' AND by_person = 1),
    CHECK ((status IN ('reversed', 'refused')) = (completed_at IS NOT NULL))
);
CREATE INDEX reversals_of_operation ON reversals (operation_id);
CREATE UNIQUE INDEX reversals_once ON reversals (operation_id) WHERE status <> 'refused';
CREATE UNIQUE INDEX reversals_one_open ON reversals (subscriber_id) WHERE completed_at IS NULL;
CREATE INDEX reversals_due ON reversals (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX reversals_completed ON reversals (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX reversals_of_operator ON reversals (operator_id, completed_at) WHERE status = 'reversed';

ALTER TABLE operations ADD COLUMN reversed_at BIGINT;
-- The operation that is being reversed: no other may begin.
ALTER TABLE subscribers ADD COLUMN reversing TEXT COLLATE "C";
-- The operation whose charge a credit takes back. A reversal refers to that operation, too.
ALTER TABLE ledger ADD COLUMN reversal_of TEXT COLLATE "C";

-- NOT VALID: the rows that are there keep the narrower rules that they were written under.
ALTER TABLE wallet_entries
    DROP CONSTRAINT IF EXISTS wallet_entries_kind_check,
    DROP CONSTRAINT IF EXISTS wallet_entries_check,
    DROP CONSTRAINT IF EXISTS wallet_entries_check2,
    ADD CONSTRAINT wallet_entries_kind_check CHECK (kind IN ('topup', 'adjust', 'reserve', 'refund', 'reversal')) NOT VALID,
    ADD CONSTRAINT wallet_entries_check CHECK ((kind IN ('reserve', 'refund', 'reversal')) = (operation_id IS NOT NULL)) NOT VALID,
    ADD CONSTRAINT wallet_entries_check2 CHECK ((kind IN ('topup', 'refund', 'reversal')) <= (amount_paise > 0)) NOT VALID;

-- More may have been taken back in a month than was earned in it.
ALTER TABLE commission_periods DROP CONSTRAINT IF EXISTS commission_periods_amount_paise_check;

-- A proposal to reverse names its transaction and an amount, as one to settle does.
-- +goose StatementBegin
DO $$
DECLARE
    rule record;
BEGIN
    FOR rule IN SELECT conname AS name, pg_get_constraintdef(oid) AS text FROM pg_constraint
                 WHERE conrelid = 'proposals'::regclass AND contype = 'c' AND pg_get_constraintdef(oid) LIKE '%''settle''%'
    LOOP
        EXECUTE format('ALTER TABLE proposals DROP CONSTRAINT %I, ADD CONSTRAINT %I %s', rule.name, rule.name,
            replace(replace(rule.text, '(kind = ''settle''::text)', '(kind = ANY (ARRAY[''settle''::text]))'),
                    '''settle''::text', '''settle''::text, ''reverse''::text'));
    END LOOP;
END
$$;
-- +goose StatementEnd
