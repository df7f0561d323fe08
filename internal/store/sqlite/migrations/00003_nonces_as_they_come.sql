-- Used nonces in the order in which they came. A nonce is random, so that in the
-- order of their own each one changes a page of its own, which a commit writes to
-- the log and a checkpoint from there to the file. As they come, many share one.

-- +goose Up
ALTER TABLE nonces RENAME TO nonces_by_key;
CREATE TABLE nonces (
    position      INTEGER PRIMARY KEY,
    credential_id INTEGER NOT NULL,
    nonce         TEXT    NOT NULL,
    request_id    TEXT    NOT NULL,
    used_at       INTEGER NOT NULL
) STRICT;
INSERT INTO nonces (credential_id, nonce, request_id, used_at)
SELECT credential_id, nonce, request_id, used_at FROM nonces_by_key ORDER BY used_at;
DROP TABLE nonces_by_key;

-- Where to find them again. A node knows the newest ones by heart; the others are
-- indexed in runs, each written at once and never changed. The filter says of most
-- nonces that a run has not got them. A part has the fingerprints of a run that
-- begin with one byte, each with the place of its row.
CREATE TABLE nonce_runs (
    run            INTEGER PRIMARY KEY,
    first_position INTEGER NOT NULL,
    last_position  INTEGER NOT NULL,
    filter         BLOB    NOT NULL
) STRICT;
CREATE TABLE nonce_run_parts (
    id      INTEGER PRIMARY KEY, -- 256 times the run, plus the byte
    entries BLOB    NOT NULL
) STRICT;

-- An older binary would look for a nonce by its key.
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (3, 2);
