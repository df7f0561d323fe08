-- The same rules, said so that SQLite can check them without building anything:
-- for a list of more than two it makes a table of it, each time that a row is
-- written, which took longer than to write the row. Nothing that is stored
-- changes, so no table is copied: the rules' text is put in place of the old one.

-- +goose Up
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(replace(replace(replace(sql,
       'CHECK (kind IN (''activate'', ''renew'', ''advance_renew''))',
       'CHECK (kind = ''activate'' OR kind = ''renew'' OR kind = ''advance_renew'')'),
       'CHECK (status IN (''processing'', ''success'', ''failed'', ''needs_review''))',
       'CHECK (status = ''processing'' OR status = ''success'' OR status = ''failed'' OR status = ''needs_review'')'),
       'CHECK (addon_status IN (''waiting'', ''success'', ''failed'', ''unknown'', ''closed''))',
       'CHECK (addon_status = ''waiting'' OR addon_status = ''success'' OR addon_status = ''failed'' OR addon_status = ''unknown'' OR addon_status = ''closed'')'),
       'CHECK (reason IN (''PROVIDER_REJECTED'', ''PROVIDER_UNREACHABLE'', ''NOT_CONFIRMED'', ''REJECTED_BY_REVIEW''))',
       'CHECK (reason = ''PROVIDER_REJECTED'' OR reason = ''PROVIDER_UNREACHABLE'' OR reason = ''NOT_CONFIRMED'' OR reason = ''REJECTED_BY_REVIEW'')')
 WHERE type = 'table' AND name = 'operations';

UPDATE sqlite_schema SET sql = replace(sql,
       'CHECK (outcome IN (''confirmed'', ''rejected'', ''unknown''))',
       'CHECK (outcome = ''confirmed'' OR outcome = ''rejected'' OR outcome = ''unknown'')')
 WHERE type = 'table' AND name = 'provider_calls';

UPDATE sqlite_schema SET sql = replace(sql,
       'CHECK (kind IN (''topup'', ''adjust'', ''reserve'', ''refund''))',
       'CHECK (kind = ''topup'' OR kind = ''adjust'' OR kind = ''reserve'' OR kind = ''refund'')')
 WHERE type = 'table' AND name = 'wallet_entries';

PRAGMA writable_schema = RESET;

-- Whoever has the file open is told to read the rules again by any change of what
-- is in it.
CREATE TABLE rules_have_changed (at INTEGER) STRICT;
DROP TABLE rules_have_changed;

INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (2, 1);
