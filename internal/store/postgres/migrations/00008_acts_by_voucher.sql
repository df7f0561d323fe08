-- A form does what it is for once: its voucher stands at the end of the reason of the
-- act, "(voucher " and twelve characters and ")", and is looked for there before
-- another act is written.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (8, 1);

CREATE INDEX staff_acts_by_voucher ON staff_acts (right(reason, 22)) WHERE left(right(reason, 22), 9) = '(voucher ';
