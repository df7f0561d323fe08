-- Passkeys as second factors, challenges that wait for an answer, slow hashes of recovery
-- codes, and what a person is told at the next sign-in. Recovery codes without a salt are
-- from before, and stay good.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (24, 2);

CREATE TABLE login_passkeys (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    login_id        INTEGER NOT NULL REFERENCES logins (id),
    -- The host that it was made at, and works at.
    site_id         TEXT    NOT NULL,
    credential_id   BLOB    NOT NULL UNIQUE,
    public_key      BLOB    NOT NULL,
    -- The authenticator's own count of its uses: one that went back is refused.
    sign_count      INTEGER NOT NULL,
    backup_eligible INTEGER NOT NULL CHECK (backup_eligible IN (0, 1)),
    transports      TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    last_used_at    INTEGER
) STRICT;
CREATE INDEX login_passkeys_of_login ON login_passkeys (login_id);

-- What a session has begun and has to answer, once and before it ends.
CREATE TABLE login_challenges (
    session_id  TEXT    NOT NULL REFERENCES login_sessions (id) ON DELETE CASCADE,
    kind        TEXT    NOT NULL CHECK (kind = 'totp' OR kind = 'add' OR kind = 'use'),
    ticket_hash BLOB    NOT NULL,
    state       BLOB    NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (session_id, kind)
) STRICT, WITHOUT ROWID;

ALTER TABLE login_recovery_codes ADD COLUMN salt TEXT;
-- Changes of second factors that the person has not taken notice of, in JSON.
ALTER TABLE logins ADD COLUMN factor_notice TEXT NOT NULL DEFAULT '';
