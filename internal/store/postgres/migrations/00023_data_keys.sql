-- Master keys that can be retired. From the first `coax admin masterkey rotate` on, this store
-- has its own data keys, from which the keys for fingerprints, client keys and MACs are derived,
-- sealed under the master key that master_key_ring names. That rotation also raises
-- oldest_generation: older binaries derive those keys from the master keys themselves.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (23, 2);

CREATE TABLE data_keys (
    -- The first one makes the client keys of orders, the last one what is new.
    seq     BIGINT PRIMARY KEY,
    key_id  BIGINT NOT NULL UNIQUE,
    sealed  BYTEA   NOT NULL,
    made_at BIGINT NOT NULL
);

-- The master key that seals. No row: it is the primary key of the ring.
CREATE TABLE master_key_ring (
    one         SMALLINT PRIMARY KEY CHECK (one = 1),
    primary_key BIGINT NOT NULL,
    rotated_at  BIGINT NOT NULL
);

-- The nodes that run, and which master keys they hold.
CREATE TABLE nodes (
    name        TEXT    NOT NULL PRIMARY KEY,
    release     TEXT    NOT NULL,
    -- Each as id:proof, separated by spaces.
    keys        TEXT    NOT NULL,
    -- The key that the node seals with.
    sealing_key BIGINT NOT NULL,
    seen_at     BIGINT NOT NULL
);
