-- When an operator was deleted, and the status that undoing it gives back; and the
-- references of adjustments. Older
-- binaries write neither: what they delete can be undone without a time limit.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (10, 1);

ALTER TABLE operators ADD COLUMN deleted_at BIGINT;
ALTER TABLE operators ADD COLUMN deleted_status TEXT;

-- An operator that was deleted with money in its wallet gets no deleted_at: it can
-- be undeleted whenever its money is paid out.
UPDATE operators
   SET deleted_at = (SELECT max(a.at) FROM staff_acts a WHERE a.operator_id = operators.id AND a.action = 'lco delete')
 WHERE status = 'deleted' AND id IN (SELECT operator_id FROM wallets WHERE ledger_paise = 0);
UPDATE operators
   SET deleted_status = (SELECT before_state::json ->> 'status' FROM staff_acts a
                          WHERE a.operator_id = operators.id AND a.action = 'lco delete' ORDER BY a.id DESC LIMIT 1)
 WHERE status = 'deleted';

-- An adjustment that has a reference is booked once. seq is its wallet entry.
CREATE TABLE adjustment_references (
    operator_id BIGINT NOT NULL,
    reference   TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    PRIMARY KEY (operator_id, reference)
);
