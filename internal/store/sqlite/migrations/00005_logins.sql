-- The people who use the pages, and where they are signed in. Nothing here has to do
-- with API keys: neither opens what the other does.

-- +goose Up
CREATE TABLE logins (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    realm                TEXT    NOT NULL CHECK (realm = 'operator' OR realm = 'staff'),
    operator_id          INTEGER REFERENCES operators (id),
    username             TEXT    NOT NULL UNIQUE,
    name                 TEXT    NOT NULL,
    role                 TEXT    NOT NULL,
    language             TEXT    NOT NULL,
    password_hash        TEXT    NOT NULL,
    password_changed_at  INTEGER NOT NULL,
    must_change_password INTEGER NOT NULL CHECK (must_change_password IN (0, 1)),
    disabled             INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
    -- The second factor's secret and the one that is being set up, sealed.
    totp                 BLOB,
    totp_pending         BLOB,
    -- The last step whose code was used: no code is good twice.
    totp_step            INTEGER NOT NULL DEFAULT 0,
    -- Grows with whatever changes who may sign in, and how.
    version              INTEGER NOT NULL DEFAULT 1,
    created_at           INTEGER NOT NULL,
    last_sign_in         INTEGER,
    CHECK ((realm = 'operator') = (operator_id IS NOT NULL)),
    CHECK ((realm = 'operator') = (role = 'owner'))
) STRICT;
CREATE INDEX logins_of_operator ON logins (operator_id);

-- What is kept of the codes for a telephone that was lost, each good once.
CREATE TABLE login_recovery_codes (
    login_id  INTEGER NOT NULL REFERENCES logins (id),
    code_hash BLOB    NOT NULL,
    used_at   INTEGER,
    PRIMARY KEY (login_id, code_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE login_sessions (
    id            TEXT    NOT NULL PRIMARY KEY,
    token_hash    BLOB    NOT NULL UNIQUE,
    login_id      INTEGER NOT NULL REFERENCES logins (id),
    created_at    INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,
    stepped_up_at INTEGER,
    code_given    INTEGER NOT NULL CHECK (code_given IN (0, 1)),
    address       TEXT    NOT NULL,
    agent         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX login_sessions_of_login ON login_sessions (login_id, seen_at);
CREATE INDEX login_sessions_by_use ON login_sessions (seen_at);

INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (5, 2);
