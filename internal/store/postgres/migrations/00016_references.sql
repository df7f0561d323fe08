-- A payment's reference is credited once, whichever operator it is for and however it
-- is spelled: normalised is what references are compared by. SQL cannot work it out;
-- a node adds the rows of older entries when it opens the store (see references.go).
-- They have filled = 1. Where several older entries share a reference, the oldest has
-- copy 0 and the others follow; what is credited from now on is always copy 0.
-- Older binaries write entries without a row here, which the next start adds.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (16, 1);

CREATE TABLE credited_references (
    way         TEXT COLLATE "C" NOT NULL CHECK (way IN ('topup', 'adjust')),
    normalised  TEXT COLLATE "C" NOT NULL,
    copy        INTEGER NOT NULL CHECK (copy >= 0),
    operator_id BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    filled      INTEGER NOT NULL CHECK (filled IN (0, 1)),
    PRIMARY KEY (way, normalised, copy),
    CHECK (filled = 1 OR (copy = 0 AND normalised <> ''))
);
-- An entry of a wallet has one reference.
CREATE UNIQUE INDEX credited_references_entry ON credited_references (operator_id, seq);

-- A reference waits for approval once, too. NULL for what is no top-up, and for
-- proposals that older binaries made.
ALTER TABLE proposals ADD COLUMN reference_key TEXT COLLATE "C";
CREATE UNIQUE INDEX proposals_one_reference ON proposals (reference_key) WHERE status = 'open' AND reference_key IS NOT NULL;
