-- The store's mark, a counter whose last value every node also keeps in a file outside
-- the store, and the restores that were found: a store whose mark is behind such a file
-- was put back from an older copy. Older binaries go on without them.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (25, 2);

CREATE TABLE store_mark (
    one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    store_id    TEXT    NOT NULL,
    -- The id of the store that this one was copied from by `coax store copy`; empty if none.
    previous_id TEXT    NOT NULL DEFAULT '',
    value       INTEGER NOT NULL,
    -- new: no node has marked it yet; copied: no node has marked the copy yet.
    state       TEXT    NOT NULL CHECK (state = 'new' OR state = 'copied' OR state = 'marked'),
    marked_at   INTEGER
) STRICT;
INSERT INTO store_mark (one, store_id, value, state) VALUES (1, lower(hex(randomblob(16))), 0, 'new');

CREATE TABLE store_restores (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    found_at   INTEGER NOT NULL,
    -- What happened before is in the store for certain; NULL: nothing is.
    since      INTEGER,
    how        TEXT    NOT NULL,
    -- When its staff action was written; NULL: the next node that starts writes it.
    logged_at  INTEGER,
    outcome    TEXT    NOT NULL DEFAULT '' CHECK (outcome = '' OR outcome = 'compared' OR outcome = 'accepted'),
    ended_at   INTEGER,
    ended_by   TEXT    NOT NULL DEFAULT '',
    end_reason TEXT    NOT NULL DEFAULT '',
    CHECK ((outcome = '') = (ended_at IS NULL))
) STRICT;
-- One is open at most.
CREATE UNIQUE INDEX store_restores_open ON store_restores (outcome) WHERE outcome = '';
