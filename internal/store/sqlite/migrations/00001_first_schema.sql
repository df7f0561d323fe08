-- The whole first schema. Money is whole paise, time is Unix milliseconds, and
-- every rule that must survive a race stands here as a constraint: a unique
-- index, a CHECK, or a column that a guarded UPDATE compares.

-- +goose Up

-- Each migration says which binaries may still run on the schema it leaves
-- behind. A binary of a lower generation than the highest one named here
-- refuses to start.
CREATE TABLE schema_tolerance (
    migration         INTEGER PRIMARY KEY,
    oldest_generation INTEGER NOT NULL
) STRICT;
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (1, 1);

-- One proof per master key that ever sealed something here. It tells a wrong
-- master key at start, and reveals nothing of the key.
CREATE TABLE master_keys (
    key_id     INTEGER PRIMARY KEY,
    proof      BLOB    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Operators and who may call for them ---------------------------------------

-- version grows with every change that decides whether a request is let in,
-- a change of the whitelist included.
CREATE TABLE operators (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    name              TEXT    NOT NULL,
    status            TEXT    NOT NULL CHECK (status IN ('active', 'inactive', 'deleted')),
    api               TEXT    NOT NULL CHECK (api IN ('enabled', 'disabled', 'blocked')),
    rate_limit        INTEGER NOT NULL CHECK (rate_limit >= 1),
    commission_bps    INTEGER NOT NULL CHECK (commission_bps BETWEEN 0 AND 10000),
    low_balance_paise INTEGER NOT NULL CHECK (low_balance_paise >= 0),
    version           INTEGER NOT NULL DEFAULT 1,
    created_at        INTEGER NOT NULL
) STRICT;

CREATE TABLE whitelist (
    operator_id INTEGER NOT NULL REFERENCES operators (id),
    entry       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (operator_id, entry)
) STRICT, WITHOUT ROWID;

CREATE TABLE credentials (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    operator_id   INTEGER NOT NULL REFERENCES operators (id),
    key_hash      BLOB    NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    hint          TEXT    NOT NULL,
    sealed_secret BLOB    NOT NULL,
    permissions   TEXT    NOT NULL,
    revoked_at    INTEGER,
    expires_at    INTEGER,
    replaced_by   INTEGER REFERENCES credentials (id),
    version       INTEGER NOT NULL DEFAULT 1,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX credentials_of_operator ON credentials (operator_id);

-- A nonce remembers which request used it, so that the same request may ask
-- twice and any other is a replay.
CREATE TABLE nonces (
    credential_id INTEGER NOT NULL,
    nonce         TEXT    NOT NULL,
    request_id    TEXT    NOT NULL,
    used_at       INTEGER NOT NULL,
    PRIMARY KEY (credential_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX nonces_by_age ON nonces (used_at);

CREATE TABLE rate_counters (
    operator_id INTEGER NOT NULL,
    minute      INTEGER NOT NULL,
    used        INTEGER NOT NULL,
    PRIMARY KEY (operator_id, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX rate_counters_by_age ON rate_counters (minute);

-- The catalogue -------------------------------------------------------------

-- What the provider sold when its catalogue was last compared.
CREATE TABLE provider_components (
    code     TEXT    PRIMARY KEY,
    name     TEXT    NOT NULL,
    role     TEXT    NOT NULL CHECK (role IN ('main', 'addon')),
    sellable INTEGER NOT NULL CHECK (sellable IN (0, 1)),
    seen_at  INTEGER NOT NULL
) STRICT;

-- One row per provider: the last good comparison, and the last attempt.
CREATE TABLE catalogue_comparisons (
    provider     TEXT    PRIMARY KEY,
    verified_at  INTEGER,
    attempted_at INTEGER NOT NULL,
    problem      TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE plans (
    id          TEXT    PRIMARY KEY,
    name        TEXT    NOT NULL,
    description TEXT    NOT NULL,
    price_paise INTEGER NOT NULL CHECK (price_paise >= 1),
    months      INTEGER NOT NULL CHECK (months >= 1),
    type        TEXT    NOT NULL CHECK (type IN ('standard', 'combo')),
    main        TEXT    NOT NULL REFERENCES provider_components (code),
    addon       TEXT    REFERENCES provider_components (code),
    retired     INTEGER NOT NULL DEFAULT 0 CHECK (retired IN (0, 1)),
    version     INTEGER NOT NULL DEFAULT 1,
    updated_at  INTEGER NOT NULL,
    CHECK ((type = 'combo') = (addon IS NOT NULL))
) STRICT;

-- Every price a plan ever had, so that each charge can be proved.
CREATE TABLE plan_history (
    plan_id     TEXT    NOT NULL REFERENCES plans (id),
    version     INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    price_paise INTEGER NOT NULL,
    months      INTEGER NOT NULL,
    type        TEXT    NOT NULL,
    main        TEXT    NOT NULL,
    addon       TEXT,
    retired     INTEGER NOT NULL,
    since       INTEGER NOT NULL,
    PRIMARY KEY (plan_id, version)
) STRICT, WITHOUT ROWID;

-- Subscribers ---------------------------------------------------------------

-- A row is written when an activation is reserved, with expires_at NULL until
-- the activation is confirmed, and taken away if it fails: the number and the
-- id are claimed by the same unique rules either way.
CREATE TABLE subscribers (
    id                        TEXT    PRIMARY KEY,
    operator_id               INTEGER NOT NULL REFERENCES operators (id),
    mobile                    TEXT    NOT NULL UNIQUE,
    name                      TEXT    NOT NULL,
    email                     TEXT    NOT NULL DEFAULT '',
    address                   TEXT    NOT NULL DEFAULT '',
    connection_type           TEXT    NOT NULL,
    expires_at                INTEGER,
    activated_at              INTEGER,
    renewed_at                INTEGER,
    last_provider_transaction TEXT,
    version                   INTEGER NOT NULL DEFAULT 1,
    created_at                INTEGER NOT NULL
) STRICT;
CREATE INDEX subscribers_of_operator ON subscribers (operator_id, expires_at);

-- The paid stretches of a subscription, in the order they were bought. An
-- imported subscriber's first cycle has no operation behind it.
CREATE TABLE cycles (
    subscriber_id TEXT    NOT NULL REFERENCES subscribers (id),
    seq           INTEGER NOT NULL,
    operation_id  TEXT    UNIQUE REFERENCES operations (id),
    plan_id       TEXT    NOT NULL REFERENCES plans (id),
    starts_at     INTEGER NOT NULL,
    ends_at       INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (subscriber_id, seq)
) STRICT, WITHOUT ROWID;

-- Operations ----------------------------------------------------------------

-- epoch counts who holds the operation: whoever settles names the epoch it
-- holds, and a holder that slept through its lease finds another one there.
-- What the operation will mean (expiry, start date, commission) is fixed when
-- the money is reserved; a settlement hours later only applies it.
CREATE TABLE operations (
    id                      TEXT    PRIMARY KEY,
    operator_id             INTEGER NOT NULL REFERENCES operators (id),
    idempotency_key         TEXT    NOT NULL,
    fingerprint             BLOB    NOT NULL,
    fingerprint_key_id      INTEGER NOT NULL,
    kind                    TEXT    NOT NULL CHECK (kind IN ('activate', 'renew', 'advance_renew')),
    channel                 TEXT    NOT NULL CHECK (channel IN ('api', 'web')),
    actor                   TEXT    NOT NULL,
    subscriber_id           TEXT    NOT NULL,
    customer_name           TEXT    NOT NULL,
    mobile                  TEXT    NOT NULL,
    plan_id                 TEXT    NOT NULL,
    plan_version            INTEGER NOT NULL,
    plan_name               TEXT    NOT NULL,
    plan_months             INTEGER NOT NULL,
    main                    TEXT    NOT NULL,
    addon                   TEXT,
    amount_paise            INTEGER NOT NULL CHECK (amount_paise >= 1),
    commission_bps          INTEGER NOT NULL CHECK (commission_bps BETWEEN 0 AND 10000),
    wallet_before_paise     INTEGER NOT NULL,
    expiry_previous         INTEGER,
    expiry_planned          INTEGER NOT NULL,
    cycle_starts_at         INTEGER NOT NULL,
    status                  TEXT    NOT NULL CHECK (status IN ('processing', 'success', 'failed', 'needs_review')),
    epoch                   INTEGER NOT NULL,
    node                    TEXT    NOT NULL,
    lease_until             INTEGER,
    review_since            INTEGER,
    checks                  INTEGER NOT NULL DEFAULT 0,
    next_check_at           INTEGER,
    needs_person            INTEGER NOT NULL DEFAULT 0 CHECK (needs_person IN (0, 1)),
    addon_status            TEXT    CHECK (addon_status IN ('waiting', 'success', 'failed', 'unknown', 'closed')),
    addon_attempt           INTEGER NOT NULL DEFAULT 0,
    addon_next_at           INTEGER,
    provider                TEXT    NOT NULL,
    provider_transaction_id TEXT,
    reason                  TEXT    CHECK (reason IN ('PROVIDER_REJECTED', 'PROVIDER_UNREACHABLE', 'NOT_CONFIRMED', 'REJECTED_BY_REVIEW')),
    provider_message        TEXT    NOT NULL DEFAULT '',
    created_at              INTEGER NOT NULL,
    completed_at            INTEGER,
    UNIQUE (operator_id, idempotency_key),
    CHECK ((status IN ('success', 'failed')) = (completed_at IS NOT NULL)),
    CHECK ((status = 'failed') = (reason IS NOT NULL)),
    CHECK ((addon IS NULL) = (addon_status IS NULL))
) STRICT;
-- At most one open operation a subscriber. An activation claims its mobile by
-- the subscriber's row.
CREATE UNIQUE INDEX operations_one_open ON operations (subscriber_id) WHERE status IN ('processing', 'needs_review');
CREATE INDEX operations_open_by_lease ON operations (lease_until) WHERE status = 'processing';
CREATE INDEX operations_open_by_check ON operations (next_check_at) WHERE status = 'needs_review';
CREATE INDEX operations_late_checks ON operations (next_check_at) WHERE status = 'failed' AND next_check_at IS NOT NULL;
CREATE INDEX operations_addon_due ON operations (addon_next_at) WHERE addon_next_at IS NOT NULL;
CREATE INDEX operations_of_subscriber ON operations (subscriber_id, plan_id, completed_at);
CREATE INDEX operations_of_operator ON operations (operator_id, created_at, id);
CREATE INDEX operations_by_age ON operations (created_at, id);

CREATE TABLE operation_events (
    operation_id TEXT    NOT NULL REFERENCES operations (id),
    seq          INTEGER NOT NULL,
    from_status  TEXT,
    to_status    TEXT    NOT NULL,
    epoch        INTEGER NOT NULL,
    node         TEXT    NOT NULL,
    actor        TEXT    NOT NULL DEFAULT '',
    reason       TEXT    NOT NULL DEFAULT '',
    at           INTEGER NOT NULL,
    PRIMARY KEY (operation_id, seq)
) STRICT, WITHOUT ROWID;

-- What the provider was asked and what it said, as evidence.
CREATE TABLE provider_calls (
    id                      INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_id            TEXT    NOT NULL REFERENCES operations (id),
    reference               TEXT    NOT NULL,
    kind                    TEXT    NOT NULL,
    component               TEXT    NOT NULL DEFAULT '',
    outcome                 TEXT    NOT NULL CHECK (outcome IN ('confirmed', 'rejected', 'unknown')),
    provider_transaction_id TEXT,
    detail                  TEXT    NOT NULL DEFAULT '',
    node                    TEXT    NOT NULL,
    asked_at                INTEGER NOT NULL,
    answered_at             INTEGER
) STRICT;
CREATE INDEX provider_calls_of_operation ON provider_calls (operation_id);

-- What only a person can decide.
CREATE TABLE exceptions (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_id TEXT    NOT NULL REFERENCES operations (id),
    kind         TEXT    NOT NULL,
    detail       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    closed_at    INTEGER,
    closed_by    TEXT,
    close_reason TEXT,
    UNIQUE (operation_id, kind)
) STRICT;

-- Money ---------------------------------------------------------------------

-- balance_paise can be spent; ledger_paise is the ledger's running sum. The
-- difference is held by open operations.
CREATE TABLE wallets (
    operator_id   INTEGER PRIMARY KEY REFERENCES operators (id),
    balance_paise INTEGER NOT NULL CHECK (balance_paise >= 0),
    ledger_paise  INTEGER NOT NULL CHECK (ledger_paise >= balance_paise),
    entries       INTEGER NOT NULL,
    ledger_lines  INTEGER NOT NULL
) STRICT;

-- Every movement of a balance, without a gap. An operation moves it at most
-- twice: reserved, and perhaps refunded.
CREATE TABLE wallet_entries (
    operator_id   INTEGER NOT NULL REFERENCES operators (id),
    seq           INTEGER NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind IN ('topup', 'adjust', 'reserve', 'refund')),
    amount_paise  INTEGER NOT NULL,
    balance_after INTEGER NOT NULL CHECK (balance_after >= 0),
    operation_id  TEXT    REFERENCES operations (id),
    reference     TEXT,
    actor         TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (operator_id, seq),
    CHECK ((kind IN ('reserve', 'refund')) = (operation_id IS NOT NULL)),
    CHECK ((kind = 'topup') = (reference IS NOT NULL)),
    CHECK ((kind IN ('topup', 'refund')) <= (amount_paise > 0)),
    CHECK ((kind = 'reserve') <= (amount_paise < 0))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX wallet_entries_once ON wallet_entries (operation_id, kind) WHERE operation_id IS NOT NULL;
CREATE UNIQUE INDEX wallet_entries_reference ON wallet_entries (operator_id, reference) WHERE reference IS NOT NULL;

CREATE TABLE ledger (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    operator_id   INTEGER NOT NULL REFERENCES operators (id),
    line          INTEGER NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind IN ('credit', 'debit')),
    amount_paise  INTEGER NOT NULL CHECK (amount_paise > 0),
    balance_after INTEGER NOT NULL,
    description   TEXT    NOT NULL,
    operation_id  TEXT    UNIQUE REFERENCES operations (id),
    created_at    INTEGER NOT NULL,
    UNIQUE (operator_id, line)
) STRICT;

CREATE TABLE commissions (
    operation_id TEXT    PRIMARY KEY REFERENCES operations (id),
    operator_id  INTEGER NOT NULL REFERENCES operators (id),
    amount_paise INTEGER NOT NULL CHECK (amount_paise >= 0),
    rate_bps     INTEGER NOT NULL CHECK (rate_bps BETWEEN 0 AND 10000),
    created_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX commissions_of_operator ON commissions (operator_id);

-- Acts of staff, each chained to the one before by its hash.
CREATE TABLE staff_acts (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    operator_id  INTEGER NOT NULL DEFAULT 0,
    actor        TEXT    NOT NULL,
    action       TEXT    NOT NULL,
    subject      TEXT    NOT NULL,
    before_state TEXT    NOT NULL,
    after_state  TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    hash         BLOB    NOT NULL
) STRICT;
CREATE INDEX staff_acts_of_operator ON staff_acts (operator_id);
