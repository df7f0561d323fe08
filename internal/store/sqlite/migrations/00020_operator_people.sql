-- An operator's own people: owners, the counter, and who only looks; whether they must
-- have a second factor; bulk renewals that wait because their operator was suspended;
-- and when customers' app passwords were reset, to bound how many are in a minute. Older
-- binaries let every login of an operator do what its owner does.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (20, 2);

-- The rules' text is replaced, as in migration 2: logins and bulk_jobs are referred to by
-- foreign keys, and nothing that is stored changes.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(sql,
       'CHECK ((realm = ''operator'') = (role = ''owner''))',
       'CHECK ((realm = ''operator'') = (role = ''owner'' OR role = ''counter'' OR role = ''readonly''))')
 WHERE type = 'table' AND name = 'logins';

UPDATE sqlite_schema SET sql = replace(sql,
       'CHECK (interrupted = '''' OR interrupted = ''maintenance'' OR interrupted = ''downtime'')',
       'CHECK (interrupted = '''' OR interrupted = ''maintenance'' OR interrupted = ''downtime'' OR interrupted = ''suspension'')')
 WHERE type = 'table' AND name = 'bulk_jobs';

PRAGMA writable_schema = RESET;

-- It also tells whoever has the file open to read the rules again.
ALTER TABLE operators ADD COLUMN second_factor_required INTEGER NOT NULL DEFAULT 0 CHECK (second_factor_required IN (0, 1));

CREATE INDEX staff_acts_password_resets ON staff_acts (operator_id, at) WHERE action = 'password reset';

-- Running bulk renewals of operators that are suspended now wait like those that a
-- suspension interrupts from now on.
UPDATE bulk_jobs
   SET interrupted = 'suspension',
       interrupted_at = coalesce((SELECT max(a.at) FROM staff_acts a WHERE a.operator_id = bulk_jobs.operator_id AND a.action = 'lco set'), started_at, created_at)
 WHERE state = 'running' AND cancelled_at IS NULL AND interrupted = ''
   AND operator_id IN (SELECT id FROM operators WHERE status <> 'active');
