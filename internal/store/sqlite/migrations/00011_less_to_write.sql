-- Every operation that succeeds wrote into this index, on a large store into a page
-- of its own, and nothing reads by it: an operator's commissions are found by its
-- operations or by its ledger.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (11, 2);

DROP INDEX commissions_of_operator;
