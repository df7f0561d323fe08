package audit_test

var staffDamage = []damage{
	{
		name: "a staff action without its row", want: []string{"A9"}, subject: "lco 2, wallet entry 1",
		sql: `DELETE FROM staff_acts WHERE operator_id = 2 AND subject LIKE '%reference NEFT-2'`,
	}, {
		name: "a rewritten staff action", want: []string{"A9"}, subject: "staff action 7",
		sql: `UPDATE staff_acts SET actor = 'cli:nobody' WHERE id = 7`,
	}, {
		name: "a removed staff action", want: []string{"A9", "A3"}, subject: "whitelist of lco 1",
		sql: `DELETE FROM staff_acts WHERE id = (SELECT id FROM staff_acts WHERE subject = 'whitelist of lco 1' ORDER BY id LIMIT 1 OFFSET 1)`,
	}, {
		name: "the last staff action removed", want: []string{"A9"}, subject: "lco 2",
		sql: `DELETE FROM staff_acts WHERE subject = 'subscribers of lco 2'`,
	}, {
		name: "a top-up that was said and not done", want: []string{"A9"}, subject: "lco 4",
		sql: `INSERT INTO staff_acts SELECT 999, 4, actor, action, 'wallet of lco 4, reference X', before_state, after_state, reason, at, hash, origin, NULL, NULL
		        FROM staff_acts WHERE action = 'wallet topup' LIMIT 1`,
	}, {
		name: "an adjustment without its staff action", want: []string{"A9"}, subject: "lco 2",
		sql: `DELETE FROM staff_acts WHERE action = 'wallet adjust' AND operator_id = 2`,
	}, {
		name: "a top-up of another amount than its staff action's", want: []string{"A9", "M3", "L3", "L4"}, subject: "lco 3, wallet entry 1",
		sql: `UPDATE wallet_entries SET amount_paise = 2000, balance_after = 2000 WHERE operator_id = 3;
		      UPDATE wallets SET balance_paise = 2000 WHERE operator_id = 3`,
	}, {
		name: "an operator without its staff action", want: []string{"A9"}, subject: "lco 77",
		sql: `INSERT INTO operators (id, name, status, api, rate_limit, commission_bps, low_balance_paise, version, created_at) VALUES (77, 'x', 'active', 'enabled', 60, 0, 0, 1, 0);
		      INSERT INTO wallets (operator_id, balance_paise, ledger_paise, entries, ledger_lines) VALUES (77, 0, 0, 0, 0)`,
	}, {
		name: "an operator made active again", want: []string{"A9"}, subject: "lco 5",
		sql: `UPDATE operators SET status = 'active' WHERE id = 5`,
	}, {
		name: "a changed second factor requirement", want: []string{"A9"}, subject: "lco 1",
		sql: `UPDATE operators SET second_factor_required = 1 WHERE id = 1`,
	}, {
		name: "a changed commission rate", want: []string{"A9"}, subject: "lco 1",
		sql: `UPDATE operators SET commission_bps = 1 WHERE id = 1`,
	}, {
		name: "an operator without a wallet", want: []string{"O2"}, subject: "lco 4",
		sql: `DELETE FROM wallets WHERE operator_id = 4`,
	}, {
		name: "a wallet without an operator", want: []string{"O2", "A9"}, subject: "lco 4",
		sql: `DELETE FROM operators WHERE id = 4`,
	}, {
		name: "a key without an operator", want: []string{"O2"}, subject: "key 1",
		sql: `UPDATE credentials SET operator_id = 99 WHERE id = 1`,
	}, {
		name: "a key without its staff action", want: []string{"A9"}, subject: "key 77",
		sql: `INSERT INTO credentials (id, operator_id, key_hash, hint, sealed_secret, permissions, created_at)
		      VALUES (77, 1, zeroblob(32), 'x', x'00', '', 0)`,
	}, {
		name: "a key that went", want: []string{"A9", "A1"}, subject: "key 3",
		sql: `DELETE FROM credentials WHERE id = 3`,
	}, {
		name: "a key that came back", want: []string{"A9"}, subject: "key 2",
		sql: `UPDATE credentials SET revoked_at = NULL WHERE id = 2`,
	}, {
		name: "a changed permission", want: []string{"A9"}, subject: "key 2",
		sql: `UPDATE credentials SET permissions = 'Activate,Renew' WHERE id = 2`,
	}, {
		name: "a changed key expiry", want: []string{"A9"}, subject: "key 1",
		sql: `UPDATE credentials SET expires_at = expires_at + 86400000 WHERE id = 1`,
	}, {
		name: "an added address", want: []string{"A9"}, subject: "whitelist of lco 1",
		sql: `INSERT INTO whitelist VALUES (1, '192.0.2.9/32', 0)`,
	}, {
		name: "an address on an empty whitelist", want: []string{"A9"}, subject: "whitelist of lco 4",
		sql: `INSERT INTO whitelist VALUES (4, '192.0.2.9/32', 0)`,
	}, {
		name: "a changed price", want: []string{"A9", "M6"}, subject: "plan FAMILY-3",
		sql: `UPDATE plans SET price_paise = 1 WHERE id = 'FAMILY-3';
		      UPDATE plan_history SET price_paise = 1 WHERE plan_id = 'FAMILY-3'`,
	}, {
		name: "a changed description", want: []string{"A9"}, subject: "plan FAMILY-3",
		sql: `UPDATE plans SET description = 'free' WHERE id = 'FAMILY-3'`,
	}, {
		name: "an imported subscriber without its staff action", want: []string{"A9"}, subject: "lco 1",
		sql: `INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, expires_at, activated_at, created_at)
		      VALUES ('400000', 1, '9000000001', 'x', 'x', 1900000000000, 5, 5);
		      INSERT INTO cycles VALUES ('400000', 1, NULL, 'BASIC-1', 5, 1900000000000, 5)`,
	},
}
