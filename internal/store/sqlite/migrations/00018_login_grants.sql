-- Who, in the console, gave a staff login its access: who created it, reset its password
-- or second factor, or raised its role. They cannot approve each other's proposals. What
-- the command line did leaves no row.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (18, 2);

CREATE TABLE login_grants (
    login_id     INTEGER NOT NULL,
    what         TEXT    NOT NULL CHECK (what IN ('created', 'password', 'totp', 'role')),
    actor        TEXT    NOT NULL,
    -- Nobody else agreed to it. Otherwise there are two rows.
    alone        INTEGER NOT NULL CHECK (alone IN (0, 1)),
    -- The actor was shown the login's temporary password, and it was not reset since.
    saw_password INTEGER NOT NULL CHECK (saw_password IN (0, 1)),
    at           INTEGER NOT NULL,
    PRIMARY KEY (login_id, what, actor)
) STRICT, WITHOUT ROWID;
-- The open proposals of a login that is disabled lapse.
CREATE INDEX proposals_open_by_maker ON proposals (maker) WHERE status = 'open';
