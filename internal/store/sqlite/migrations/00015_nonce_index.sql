-- One index over all used nonces instead of one for every 65,536 of them, so that
-- looking for a nonce costs one search however many are kept.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (15, 2);

-- The hash of a key and its nonce, and where its row is. A nonce gets here some time
-- after its row, together with many others.
CREATE TABLE nonce_index (
    mark     INTEGER PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT;

-- indexed_to: all rows up to that position are in the index.
-- Of the rows up to aged_to, those that seem to be used in the future, because the clock
-- was ahead, are taken to be used at aged_at.
CREATE TABLE nonce_index_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    indexed_to INTEGER NOT NULL,
    aged_to    INTEGER NOT NULL,
    aged_at    INTEGER NOT NULL
) STRICT;
INSERT INTO nonce_index_state (id, indexed_to, aged_to, aged_at) VALUES (1, 0, 0, 0);

-- The tables stay for an older release: without a run in them it reads all nonces into
-- memory when it starts.
DELETE FROM nonce_runs;
DELETE FROM nonce_run_parts;
