-- The counters of a minute beside each other. In the order of operators each count
-- changed a page of its own; a minute's counters of a thousand operators are three.

-- +goose Up
ALTER TABLE rate_counters RENAME TO rate_counters_by_operator;
CREATE TABLE rate_counters (
    minute      INTEGER NOT NULL,
    operator_id INTEGER NOT NULL,
    used        INTEGER NOT NULL,
    PRIMARY KEY (minute, operator_id)
) STRICT, WITHOUT ROWID;
INSERT INTO rate_counters (minute, operator_id, used)
SELECT minute, operator_id, used FROM rate_counters_by_operator ORDER BY minute, operator_id;
DROP TABLE rate_counters_by_operator;

INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (4, 2);
