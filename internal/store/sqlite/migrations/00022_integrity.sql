-- Message authentication codes (MACs) under the master key: on each staff action, and
-- on digests of wallet entries and ledger lines. Staff actions without a MAC are from
-- before staff_chain_start, whose MAC covers them. Older binaries go on with all but
-- staff actions: they write no MAC, and are refused by the trigger.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (22, 2);

ALTER TABLE staff_acts ADD COLUMN mac BLOB;
ALTER TABLE staff_acts ADD COLUMN mac_key INTEGER;

CREATE TABLE staff_chain_start (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    last_id   INTEGER NOT NULL,
    last_hash BLOB    NOT NULL,
    mac       BLOB    NOT NULL,
    mac_key   INTEGER NOT NULL,
    made_at   INTEGER NOT NULL
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER staff_acts_need_mac BEFORE INSERT ON staff_acts
WHEN NEW.mac IS NULL AND EXISTS (SELECT 1 FROM staff_chain_start) BEGIN
    SELECT RAISE(ABORT, 'staff actions of this store need a MAC under the master key: install the newer release');
END;
-- +goose StatementEnd

CREATE TABLE ledger_digests (
    number      INTEGER PRIMARY KEY,
    operator_id INTEGER NOT NULL,
    day         TEXT    NOT NULL,
    first_line  INTEGER NOT NULL,
    last_line   INTEGER NOT NULL,
    first_entry INTEGER NOT NULL,
    last_entry  INTEGER NOT NULL,
    ledger_hash BLOB    NOT NULL,
    wallet_hash BLOB    NOT NULL,
    mac         BLOB    NOT NULL,
    mac_key     INTEGER NOT NULL,
    made_at     INTEGER NOT NULL,
    UNIQUE (operator_id, day)
) STRICT;
