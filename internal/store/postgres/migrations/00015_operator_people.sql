-- An operator's own people: owners, the counter, and who only looks; whether they must
-- have a second factor; bulk renewals that wait because their operator was suspended;
-- and when customers' app passwords were reset, to bound how many are in a minute. Older
-- binaries let every login of an operator do what its owner does.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (15, 1);

ALTER TABLE logins
    DROP CONSTRAINT logins_check1,
    ADD CONSTRAINT logins_role_check CHECK ((realm = 'operator') = (role = 'owner' OR role = 'counter' OR role = 'readonly'));

ALTER TABLE bulk_jobs
    DROP CONSTRAINT bulk_jobs_interrupted_check,
    ADD CONSTRAINT bulk_jobs_interrupted_check
        CHECK (interrupted = '' OR interrupted = 'maintenance' OR interrupted = 'downtime' OR interrupted = 'suspension');

ALTER TABLE operators ADD COLUMN second_factor_required BIGINT NOT NULL DEFAULT 0 CHECK (second_factor_required IN (0, 1));

CREATE INDEX staff_acts_password_resets ON staff_acts (operator_id, at) WHERE action = 'password reset';

-- Running bulk renewals of operators that are suspended now wait like those that a
-- suspension interrupts from now on.
UPDATE bulk_jobs
   SET interrupted = 'suspension',
       interrupted_at = coalesce((SELECT max(a.at) FROM staff_acts a WHERE a.operator_id = bulk_jobs.operator_id AND a.action = 'lco set'), started_at, created_at)
 WHERE state = 'running' AND cancelled_at IS NULL AND interrupted = ''
   AND operator_id IN (SELECT id FROM operators WHERE status <> 'active');
