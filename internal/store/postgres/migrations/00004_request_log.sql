-- The calls of the API, for operators to look at. Nothing is decided by it, and so it
-- points to nothing: every rule would be paid for with each call.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (4, 1);

-- A row is some calls of one operator, packed: most calls share one with others.
CREATE TABLE request_log (
    id          bigint  PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    operator_id bigint  NOT NULL,
    from_at     bigint  NOT NULL,
    until_at    bigint  NOT NULL,
    refused     boolean NOT NULL,
    packed      bytea   NOT NULL
);
-- What is packed does not shrink any further.
ALTER TABLE request_log ALTER COLUMN packed SET STORAGE EXTERNAL;
CREATE INDEX request_log_of_operator ON request_log (operator_id, until_at, id);
CREATE INDEX request_log_refusals ON request_log (operator_id, until_at, id) WHERE refused;

-- When a key last signed a call, to the minute.
CREATE TABLE key_uses (
    operator_id   bigint NOT NULL,
    credential_id bigint NOT NULL,
    last_at       bigint NOT NULL,
    PRIMARY KEY (operator_id, credential_id)
);
