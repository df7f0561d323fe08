-- Less is written for an operation, and nothing else is kept of it. Every binary
-- goes on as before, with or without what is taken away here.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (2, 1);

-- Nobody looks for subscribers by operator and expiry, and with the expiry in an
-- index, each renewal writes anew into all indexes of the subscriber. Commissions of
-- an operator are found through its operations.
DROP INDEX subscribers_of_operator;
DROP INDEX commissions_of_operator;

-- Whose these rows are follows from the operation that they belong to, which has the
-- operator's own key, or from the wallet that changes with them, which has it as
-- well; and the plan of a cycle is that of its operation. Each of these keys is one
-- more query, which also locks the row that it finds: of plans there are few, so that
-- all that is settled met at one row. The audit compares operators and plans.
ALTER TABLE wallet_entries DROP CONSTRAINT wallet_entries_operator_id_fkey;
ALTER TABLE ledger DROP CONSTRAINT ledger_operator_id_fkey;
ALTER TABLE commissions DROP CONSTRAINT commissions_operator_id_fkey;
ALTER TABLE cycles DROP CONSTRAINT cycles_plan_id_fkey;

-- Room on every page that is filled from now on, so that a subscriber's next version
-- finds a place beside the last one, and no index has to be told where it is.
ALTER TABLE subscribers SET (fillfactor = 90);
