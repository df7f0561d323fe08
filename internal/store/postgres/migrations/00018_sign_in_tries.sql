-- Counters of failed tries to sign in, which hold on all nodes, and a number that ends
-- the known browsers of a login when it grows.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (18, 1);

-- A counter's key is a MAC of what it counts: a name that is nobody's may be a password
-- that was typed into the wrong field. Its window begins with its first try.
CREATE TABLE login_tries (
    key   BYTEA  NOT NULL PRIMARY KEY,
    since BIGINT NOT NULL,
    tries BIGINT NOT NULL
);
CREATE INDEX login_tries_by_age ON login_tries (since);

ALTER TABLE logins ADD COLUMN browser_epoch BIGINT NOT NULL DEFAULT 0;
