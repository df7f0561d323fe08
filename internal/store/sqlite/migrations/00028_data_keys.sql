-- Master keys that can be retired. From the first `coax admin masterkey rotate` on, this store
-- has its own data keys, from which the keys for fingerprints, client keys and MACs are derived,
-- sealed under the master key that master_key_ring names. That rotation also raises
-- oldest_generation: older binaries derive those keys from the master keys themselves.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (28, 2);

CREATE TABLE data_keys (
    -- The first one makes the client keys of orders, the last one what is new.
    seq     INTEGER PRIMARY KEY,
    key_id  INTEGER NOT NULL UNIQUE,
    sealed  BLOB    NOT NULL,
    made_at INTEGER NOT NULL
) STRICT;

-- The master key that seals. No row: it is the primary key of the ring.
CREATE TABLE master_key_ring (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    primary_key INTEGER NOT NULL,
    rotated_at  INTEGER NOT NULL
) STRICT;

-- The nodes that run, and which master keys they hold.
CREATE TABLE nodes (
    name        TEXT    NOT NULL PRIMARY KEY,
    release     TEXT    NOT NULL,
    -- Each as id:proof, separated by spaces.
    keys        TEXT    NOT NULL,
    -- The key that the node seals with.
    sealing_key INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
