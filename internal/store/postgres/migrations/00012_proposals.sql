-- Proposals that move no money: a change of a plan, and of who may approve. subject is
-- what such a proposal changes, change is what it wants, as JSON. Older binaries list
-- these proposals as settlements of 0.00 and refuse to approve them.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (12, 1);

ALTER TABLE proposals
    ADD COLUMN subject TEXT NOT NULL DEFAULT '',
    ADD COLUMN change TEXT NOT NULL DEFAULT '',
    DROP CONSTRAINT proposals_kind_check,
    DROP CONSTRAINT proposals_amount_paise_check,
    ADD CONSTRAINT proposals_kind_check CHECK (kind IN ('topup', 'adjust', 'settle', 'plan', 'login', 'role', 'password', 'totp')),
    ADD CONSTRAINT proposals_amount_paise_check CHECK ((kind IN ('topup', 'adjust', 'settle')) = (amount_paise <> 0)),
    ADD CONSTRAINT proposals_subject_check CHECK ((kind IN ('topup', 'adjust', 'settle')) = (subject = ''));
