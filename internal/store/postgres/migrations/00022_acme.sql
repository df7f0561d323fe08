-- The TLS certificate that nodes order themselves, with ACME. Older binaries go on without it.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (22, 2);

-- Private keys, sealed under the master key for this id: of the account at an authority, and of
-- a certificate together with its chain.
CREATE TABLE acme_secrets (
    id     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    sealed BYTEA            NOT NULL
);

-- A certificate by its authority and names, and the order for it. One node orders at a time:
-- the one named, until lease_until. version grows with each certificate.
CREATE TABLE acme_certificates (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version     BIGINT NOT NULL DEFAULT 0,
    expires_at  BIGINT NOT NULL DEFAULT 0,
    renew_at    BIGINT NOT NULL DEFAULT 0,
    node        TEXT   NOT NULL DEFAULT '',
    lease_until BIGINT NOT NULL DEFAULT 0,
    -- Failed orders since the last certificate, why the last one failed, and when to try again.
    failures    BIGINT NOT NULL DEFAULT 0,
    problem     TEXT   NOT NULL DEFAULT '',
    next_try_at BIGINT NOT NULL DEFAULT 0
);

-- What the authority looks for at a name while an order is under way. account is the id of the
-- secret whose key answers.
CREATE TABLE acme_challenges (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    account    TEXT   NOT NULL,
    token      TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);
