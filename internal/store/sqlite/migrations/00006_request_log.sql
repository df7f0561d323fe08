-- The calls of the API, for operators to look at. Nothing is decided by it, and so it
-- points to nothing: every rule would be paid for with each call.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (6, 2);

-- A row is some calls of one operator, packed: most calls share one with others. The
-- rows stand in the order in which they were written, so that adding some touches the
-- end of the table, and removing the oldest its beginning.
CREATE TABLE request_log (
    id          INTEGER PRIMARY KEY,
    operator_id INTEGER NOT NULL,
    from_at     INTEGER NOT NULL,
    until_at    INTEGER NOT NULL,
    refused     INTEGER NOT NULL,
    packed      BLOB    NOT NULL
) STRICT;
CREATE INDEX request_log_of_operator ON request_log (operator_id, until_at);
CREATE INDEX request_log_refusals ON request_log (operator_id, until_at) WHERE refused = 1;

-- When a key last signed a call, to the minute.
CREATE TABLE key_uses (
    operator_id   INTEGER NOT NULL,
    credential_id INTEGER NOT NULL,
    last_at       INTEGER NOT NULL,
    PRIMARY KEY (operator_id, credential_id)
) STRICT, WITHOUT ROWID;
