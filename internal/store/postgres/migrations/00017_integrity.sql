-- Message authentication codes (MACs) under the master key: on each staff action, and
-- on digests of wallet entries and ledger lines. Staff actions without a MAC are from
-- before staff_chain_start, whose MAC covers them. Older binaries go on with all but
-- staff actions: they move the end of the chain without mac_id, which a CHECK refuses.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (17, 1);

ALTER TABLE staff_acts
    ADD COLUMN mac BYTEA,
    ADD COLUMN mac_key BIGINT;

-- The MAC that the next staff action continues, and the action that it is of; NULL until
-- the chain is keyed. The constraint's name is what an administrator reads in the error
-- of an older binary.
ALTER TABLE staff_chain
    ADD COLUMN mac BYTEA,
    ADD COLUMN mac_id BIGINT,
    ADD CONSTRAINT staff_actions_need_the_newer_release CHECK (mac IS NULL OR mac_id = last_id);

CREATE TABLE staff_chain_start (
    one       BIGINT PRIMARY KEY CHECK (one = 1),
    last_id   BIGINT NOT NULL,
    last_hash BYTEA NOT NULL,
    mac       BYTEA NOT NULL,
    mac_key   BIGINT NOT NULL,
    made_at   BIGINT NOT NULL
);

CREATE TABLE ledger_digests (
    number      BIGINT PRIMARY KEY,
    operator_id BIGINT NOT NULL,
    day         TEXT COLLATE "C" NOT NULL,
    first_line  BIGINT NOT NULL,
    last_line   BIGINT NOT NULL,
    first_entry BIGINT NOT NULL,
    last_entry  BIGINT NOT NULL,
    ledger_hash BYTEA NOT NULL,
    wallet_hash BYTEA NOT NULL,
    mac         BYTEA NOT NULL,
    mac_key     BIGINT NOT NULL,
    made_at     BIGINT NOT NULL,
    UNIQUE (operator_id, day)
);
