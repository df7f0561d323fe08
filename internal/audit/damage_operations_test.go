package audit_test

var operationDamage = []damage{
	{
		name: "a key of two operations", want: []string{"M5"}, subject: "lco 1", loosen: []string{"operations"},
		sql: `UPDATE operations SET idempotency_key = 'renew-1' WHERE id = '{renew-2}'`,
	}, {
		name: "an operation twice", want: []string{"M5"}, subject: "operation {activate-3}", loosen: []string{"operations"},
		sql: `INSERT INTO operations SELECT * FROM operations WHERE id = '{activate-3}'`,
	}, {
		name: "an illegal transition", want: []string{"S1"}, subject: "operation {renew-3}",
		sql: `INSERT INTO operation_events SELECT operation_id, 3, 'failed', 'success', epoch, node, actor, reason, at
		        FROM operation_events WHERE operation_id = '{renew-3}' AND seq = 2`,
	}, {
		name: "a way back", want: []string{"S1"}, subject: "operation {activate-8}",
		sql: `UPDATE operation_events SET from_status = 'processing' WHERE operation_id = '{activate-8}' AND seq = 3`,
	}, {
		name: "a lost event", want: []string{"S1"}, subject: "operation {renew-1}",
		sql: `DELETE FROM operation_events WHERE operation_id = '{renew-1}' AND seq = 1;
		      UPDATE operation_events SET at = (SELECT created_at FROM operations WHERE id = '{renew-1}') WHERE operation_id = '{renew-1}';
		      UPDATE operations SET completed_at = created_at WHERE id = '{renew-1}';
		      UPDATE ledger SET created_at = (SELECT created_at FROM operations WHERE id = '{renew-1}') WHERE operation_id = '{renew-1}';
		      UPDATE commissions SET created_at = (SELECT created_at FROM operations WHERE id = '{renew-1}') WHERE operation_id = '{renew-1}';
		      UPDATE cycles SET created_at = (SELECT created_at FROM operations WHERE id = '{renew-1}') WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a gap in the events", want: []string{"S1"}, subject: "operation {renew-1}",
		sql: `UPDATE operation_events SET seq = 5 WHERE operation_id = '{renew-1}' AND seq = 2`,
	}, {
		name: "a status its history does not know", want: []string{"S1", "M4", "L3", "S5", "S6"}, subject: "operation {bulk-0}",
		sql: `UPDATE operations SET status = 'processing', completed_at = NULL, lease_until = created_at + 100000000 WHERE id = '{bulk-0}'`,
	}, {
		name: "an unknown status", want: []string{"S1", "M1", "L3", "S5"}, subject: "operation {open-1}",
		sql: `UPDATE operations SET status = 'paused' WHERE id = '{open-1}'`,
	}, {
		name: "an epoch that went back", want: []string{"S1"}, subject: "operation {renew-1}",
		sql: `UPDATE operations SET epoch = 0 WHERE id = '{renew-1}'`,
	}, {
		name: "a failure without a reason", want: []string{"S1"}, subject: "operation {renew-3}",
		sql: `UPDATE operations SET reason = NULL WHERE id = '{renew-3}'`,
	}, {
		name: "an add-on without a status", want: []string{"S1"}, subject: "operation {activate-10}",
		sql: `UPDATE operations SET addon_status = NULL WHERE id = '{activate-10}'`,
	}, {
		name: "two open operations of a customer", want: []string{"S2", "M4", "S1", "M1", "L3"}, subject: "subscriber 100007", loosen: []string{"operations"},
		sql: `INSERT INTO operations SELECT * FROM operations WHERE id = '{open-2}';
		      UPDATE operations SET id = 'CX-SECOND', idempotency_key = 'second' WHERE rowid = (SELECT max(rowid) FROM operations)`,
	}, {
		name: "two operations of a customer at once, long ago", want: []string{"S2", "T1", "I5"}, subject: "subscriber 100001",
		sql: `UPDATE operations SET completed_at = completed_at + 400000 WHERE id = '{renew-1}'`,
	}, {
		name: "a number activated twice at once", want: []string{"S2", "S5"}, subject: "operation {open-3}",
		sql: `UPDATE operations SET mobile = (SELECT mobile FROM operations WHERE id = '{open-1}') WHERE id = '{open-3}'`,
	}, {
		name: "an operation with an expired lease", want: []string{"S4"}, subject: "operation {open-4}",
		sql: `UPDATE operations SET lease_until = lease_until - 86400000 WHERE id = '{open-4}'`,
	}, {
		name: "an operation without a lease", want: []string{"S4", "T1", "M6", "S6"}, subject: "operation {open-3}",
		sql: `UPDATE operations SET lease_until = NULL, created_at = created_at - 5184000000 WHERE id = '{open-3}'`,
	}, {
		name: "a review without a next check", want: []string{"S4"}, subject: "operation {open-1}",
		sql: `UPDATE operations SET next_check_at = NULL WHERE id = '{open-1}'`,
	}, {
		name: "a review put off for a month", want: []string{"S4"}, subject: "operation {open-1}",
		sql: `UPDATE operations SET next_check_at = next_check_at + 2592000000 WHERE id = '{open-1}'`,
	}, {
		name: "completed before it began", want: []string{"T1"}, subject: "operation {renew-1}",
		sql: `UPDATE operations SET completed_at = created_at - 60000 WHERE id = '{renew-1}';
		      UPDATE operation_events SET at = (SELECT completed_at FROM operations WHERE id = '{renew-1}') WHERE operation_id = '{renew-1}' AND seq = 2;
		      UPDATE ledger SET created_at = (SELECT completed_at FROM operations WHERE id = '{renew-1}') WHERE operation_id = '{renew-1}';
		      UPDATE commissions SET created_at = (SELECT completed_at FROM operations WHERE id = '{renew-1}') WHERE operation_id = '{renew-1}';
		      UPDATE cycles SET created_at = (SELECT completed_at FROM operations WHERE id = '{renew-1}') WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a ledger line of another day", want: []string{"T1"}, subject: "operation {renew-1}",
		sql: `UPDATE ledger SET created_at = created_at + 86400000 WHERE operation_id = '{renew-1}'`,
	}, {
		name: "an orphan hold", want: []string{"O1", "M1", "L3"}, subject: "operation {open-2}",
		sql: `DELETE FROM operations WHERE id = '{open-2}'`,
	}, {
		name: "an operation without an operator", want: []string{"O2", "M4", "M1", "S5", "C1"}, subject: "operation {renew-1}",
		sql: `UPDATE operations SET operator_id = 99 WHERE id = '{renew-1}'`,
	}, {
		name: "an operation erased", want: []string{"O1", "M1", "S5", "S6"}, subject: "operation {renew-7}",
		sql: `DELETE FROM operations WHERE id = '{renew-7}'`,
	}, {
		name: "a commission of a missing operation", want: []string{"O1"}, subject: "operation CX-NONE",
		sql: `INSERT INTO commissions VALUES ('CX-NONE', 1, 100, 250, 0)`,
	}, {
		name: "a provider call of a missing operation", want: []string{"O1"}, subject: "operation CX-NONE",
		sql: `INSERT INTO provider_calls (operation_id, reference, kind, outcome, node, asked_at) VALUES ('CX-NONE', 'CX-NONE', 'renew', 'confirmed', 'n', 0);
		      INSERT INTO exceptions (operation_id, kind, detail, created_at) VALUES ('CX-NONE', 'LATE_SUCCESS', '', 0)`,
	}, {
		name: "a plan that is not its newest version", want: []string{"P1"}, subject: "plan BASIC-1",
		sql: `UPDATE plans SET price_paise = 1 WHERE id = 'BASIC-1'`,
	}, {
		name: "a plan without a history", want: []string{"P1", "A9"}, subject: "plan OLD-1",
		sql: `DELETE FROM plan_history WHERE plan_id = 'OLD-1'`,
	}, {
		name: "a history without its plan", want: []string{"P1"}, subject: "plan OLD-1",
		sql: `DELETE FROM plans WHERE id = 'OLD-1'`,
	}, {
		name: "a version left out", want: []string{"P1", "A9"}, subject: "plan OLD-1",
		sql: `DELETE FROM plan_history WHERE plan_id = 'OLD-1' AND version = 1`,
	}, {
		name: "versions that run backwards", want: []string{"P1"}, subject: "plan OLD-1",
		sql: `UPDATE plan_history SET since = since + 86400000 WHERE plan_id = 'OLD-1' AND version = 1`,
	},
}

var subscriberDamage = []damage{
	{
		name: "a mobile twice", want: []string{"S3", "S5"}, subject: "subscriber 300001", loosen: []string{"subscribers"},
		sql: `UPDATE subscribers SET mobile = (SELECT mobile FROM subscribers WHERE id = '300000') WHERE id = '300001'`,
	}, {
		name: "a subscriber id twice", want: []string{"S3"}, subject: "subscriber 100001", loosen: []string{"subscribers"},
		sql: `INSERT INTO subscribers SELECT * FROM subscribers WHERE id = '100001';
		      UPDATE subscribers SET mobile = '9999999999' WHERE rowid = (SELECT max(rowid) FROM subscribers)`,
	}, {
		name: "a success without its subscriber", want: []string{"S5"}, subject: "operation {bulk-0}",
		sql: `DELETE FROM subscribers WHERE id = '300000'`,
	}, {
		name: "a hold without its subscriber", want: []string{"S5"}, subject: "operation {open-1}",
		sql: `DELETE FROM subscribers WHERE id = '100011'`,
	}, {
		name: "what a failed activation left behind", want: []string{"S5"}, subject: "subscriber 100009",
		sql: `INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, created_at) VALUES ('100009', 1, '9876100009', 'x', 'x', 0)`,
	}, {
		name: "a cycle too few", want: []string{"S5", "S6"}, subject: "operation {renew-1}",
		sql: `DELETE FROM cycles WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a pending subscriber that runs", want: []string{"S5", "S6"}, subject: "subscriber 100011",
		sql: `UPDATE subscribers SET expires_at = 1900000000000 WHERE id = '100011'`,
	}, {
		name: "a subscriber of another operator", want: []string{"S5"}, subject: "operation {bulk-0}",
		sql: `UPDATE subscribers SET operator_id = 2 WHERE id = '300000'`,
	}, {
		name: "an expiry that no operation explains", want: []string{"S6"}, subject: "subscriber 100002",
		sql: `UPDATE subscribers SET expires_at = expires_at + 86400000 WHERE id = '100002'`,
	}, {
		name: "an expiry that all rows agree on and no rule explains", want: []string{"S6"}, subject: "operation {bulk-0}",
		sql: `UPDATE subscribers SET expires_at = expires_at + 86400000 WHERE id = '300000';
		      UPDATE operations SET expiry_planned = expiry_planned + 86400000 WHERE id = '{bulk-0}';
		      UPDATE cycles SET ends_at = ends_at + 86400000 WHERE operation_id = '{bulk-0}'`,
	}, {
		name: "a booking that starts too far ahead", want: []string{"S6"}, subject: "operation {advance-1}",
		sql: `UPDATE operations SET cycle_starts_at = cycle_starts_at + 86400000 WHERE id = '{advance-1}';
		      UPDATE cycles SET starts_at = starts_at + 86400000 WHERE operation_id = '{advance-1}'`,
	}, {
		name: "an expiry before that was not", want: []string{"S6"}, subject: "operation {renew-5}",
		sql: `UPDATE operations SET expiry_previous = expiry_previous - 1 WHERE id = '{renew-5}'`,
	}, {
		name: "what an open operation will mean", want: []string{"S6"}, subject: "operation {open-2}",
		sql: `UPDATE operations SET expiry_planned = expiry_planned + 1 WHERE id = '{open-2}'`,
	}, {
		name: "a cycle of another plan", want: []string{"S6"}, subject: "subscriber 100001, cycle 2",
		sql: `UPDATE cycles SET plan_id = 'FAMILY-3' WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a cycle without a purchase", want: []string{"S6"}, subject: "subscriber 100002, cycle 3",
		sql: `INSERT INTO cycles VALUES ('100002', 3, NULL, 'BASIC-1', 1, 2, 2)`,
	}, {
		name: "a cycle of a missing operation", want: []string{"O1", "S6"}, subject: "operation CX-NONE",
		sql: `INSERT INTO cycles VALUES ('100002', 3, 'CX-NONE', 'BASIC-1', 1, 2, 2)`,
	}, {
		name: "a renewal that was not", want: []string{"S6"}, subject: "subscriber 300000",
		sql: `UPDATE subscribers SET renewed_at = 5 WHERE id = '300000'`,
	}, {
		name: "a plan that is missing, imported", want: []string{"S6"}, subject: "subscriber 200001, cycle 1",
		sql: `UPDATE cycles SET plan_id = 'NONE' WHERE subscriber_id = '200001' AND seq = 1`,
	}, {
		name: "a renewal twice within two minutes", want: []string{"I5"}, subject: "operation {renew-2}",
		sql: `UPDATE operations SET created_at = (SELECT completed_at + 119999 FROM operations WHERE id = '{renew-1}') WHERE id = '{renew-2}';
		      UPDATE operations SET cycle_starts_at = created_at WHERE id = '{renew-2}';
		      UPDATE cycles SET starts_at = (SELECT created_at FROM operations WHERE id = '{renew-2}') WHERE operation_id = '{renew-2}';
		      UPDATE wallet_entries SET created_at = (SELECT created_at FROM operations WHERE id = '{renew-2}') WHERE operation_id = '{renew-2}';
		      UPDATE operation_events SET at = (SELECT created_at FROM operations WHERE id = '{renew-2}') WHERE operation_id = '{renew-2}' AND seq = 1`,
	}, {
		name: "a renewal within two minutes that failed", want: []string{"I5"}, subject: "operation {renew-9}",
		sql: `UPDATE operations SET created_at = (SELECT completed_at + 119999 FROM operations WHERE id = '{renew-2}') WHERE id = '{renew-9}';
		      UPDATE wallet_entries SET created_at = (SELECT created_at FROM operations WHERE id = '{renew-9}') WHERE operation_id = '{renew-9}' AND kind = 'reserve';
		      UPDATE operation_events SET at = (SELECT created_at FROM operations WHERE id = '{renew-9}') WHERE operation_id = '{renew-9}' AND seq = 1`,
	}, {
		name: "another number of the provider's", want: []string{"S5"}, subject: "subscriber 100001",
		sql: `UPDATE subscribers SET last_provider_transaction = 'P-OTHER' WHERE id = '100001'`,
	},
}
