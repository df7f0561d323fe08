-- What staff moved without a second person, for the rolling sums of approval.window:
-- one row for a top-up, an adjustment or a settlement by hand, in the transaction that
-- moves it. Rows are kept. And an index that counts the active subscribers of a plan.
-- Older binaries write no rows here: what they move does not count.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (19, 2);

-- act_id is the staff action; person is its actor without the way they came.
CREATE TABLE staff_amounts (
    act_id       INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL,
    person       TEXT    NOT NULL,
    operator_id  INTEGER NOT NULL,
    amount_paise INTEGER NOT NULL CHECK (amount_paise > 0)
) STRICT;
CREATE INDEX staff_amounts_by_person ON staff_amounts (person, at, amount_paise);
CREATE INDEX staff_amounts_by_operator ON staff_amounts (operator_id, at, amount_paise);

-- The staff actions of the last 31 days, as of the newest one. The approval of a
-- proposal follows the action that it approves.
INSERT INTO staff_amounts (act_id, at, person, operator_id, amount_paise)
SELECT id, at, person, operator_id, paise
  FROM (SELECT a.id, a.at, lower(substr(a.actor, instr(a.actor, ':') + 1)) AS person, a.operator_id,
               CASE a.action WHEN 'review settle' THEN coalesce((SELECT o.amount_paise FROM operations o WHERE o.id = substr(a.subject, 11)), 0)
                             ELSE CAST(round(abs(json_extract(a.after_state, '$.wallet_balance') - json_extract(a.before_state, '$.wallet_balance')) * 100) AS INTEGER)
               END AS paise
          FROM staff_acts a
         WHERE a.action IN ('wallet topup', 'wallet adjust', 'review settle')
           AND a.at > (SELECT max(at) FROM staff_acts) - 2678400000
           AND NOT EXISTS (SELECT 1 FROM staff_acts p
                            WHERE p.id = a.id + 1 AND p.action = 'proposal approve' AND p.actor = a.actor AND p.at = a.at))
 WHERE paise > 0;

CREATE INDEX cycles_by_plan ON cycles (plan_id, ends_at);
