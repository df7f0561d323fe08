-- Message authentication codes (MACs) under the master key: on each staff action, and
-- on digests of wallet entries and ledger lines. Staff actions without a MAC are from
-- before staff_chain_start, whose MAC covers them. Older binaries go on with all but
-- staff actions: they write no MAC, and are refused by the trigger.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (17, 1);

ALTER TABLE staff_acts
    ADD COLUMN mac BYTEA,
    ADD COLUMN mac_key BIGINT;

-- The MAC that the next staff action continues; NULL until the chain is keyed.
ALTER TABLE staff_chain ADD COLUMN mac BYTEA;

CREATE TABLE staff_chain_start (
    one       BIGINT PRIMARY KEY CHECK (one = 1),
    last_id   BIGINT NOT NULL,
    last_hash BYTEA NOT NULL,
    mac       BYTEA NOT NULL,
    mac_key   BIGINT NOT NULL,
    made_at   BIGINT NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION staff_acts_need_mac() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM staff_chain_start) THEN
        RAISE EXCEPTION 'staff actions of this store need a MAC under the master key: install the newer release';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER staff_acts_need_mac BEFORE INSERT ON staff_acts FOR EACH ROW WHEN (NEW.mac IS NULL) EXECUTE FUNCTION staff_acts_need_mac();

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
