package audit_test

var providerDamage = []damage{
	{
		name: "an unconfirmed success", want: []string{"S9"}, subject: "operation {renew-1}",
		sql: `DELETE FROM provider_calls WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a failure without a rejection", want: []string{"S9"}, subject: "operation {renew-9}",
		sql: `UPDATE provider_calls SET outcome = 'unknown' WHERE operation_id = '{renew-9}'`,
	}, {
		name: "an operation sent twice", want: []string{"M5"}, subject: "operation {renew-1}",
		sql: `INSERT INTO provider_calls (operation_id, reference, kind, outcome, node, asked_at)
		      SELECT operation_id, reference, kind, 'unknown', node, asked_at + 1000 FROM provider_calls WHERE operation_id = '{renew-1}'`,
	}, {
		name: "an operation sent as another", want: []string{"S9"}, subject: "operation {renew-1}",
		sql: `UPDATE provider_calls SET kind = 'advance_renew' WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a reply about another operation", want: []string{"S9"}, subject: "operation {activate-1}",
		sql: `UPDATE provider_calls SET reference = 'CX-OTHER' WHERE operation_id = '{activate-1}'`,
	}, {
		name: "a refund of what was carried out", want: []string{"S9"}, subject: "operation {renew-9}",
		sql: `INSERT INTO provider_calls (operation_id, reference, kind, outcome, provider_transaction_id, node, asked_at)
		      VALUES ('{renew-9}', '{renew-9}', 'status', 'confirmed', 'P-9', 'node-1', 0)`,
	}, {
		name: "a charge for what was rejected", want: []string{"S9"}, subject: "operation {renew-1}",
		sql: `INSERT INTO provider_calls (operation_id, reference, kind, outcome, node, asked_at)
		      VALUES ('{renew-1}', '{renew-1}', 'status', 'rejected', 'node-1', 0)`,
	}, {
		name: "a charge confirmed by a person for what was voided", want: []string{"S9"}, subject: "operation {activate-8}",
		sql: `INSERT INTO provider_calls (operation_id, reference, kind, outcome, node, asked_at)
		      VALUES ('{activate-8}', '{activate-8}', 'void', 'rejected', 'node-1', 0)`,
	}, {
		name: "an effect twice", want: []string{"S9"}, subject: "operation {renew-1}",
		sql: `INSERT INTO provider_calls (operation_id, reference, kind, outcome, provider_transaction_id, node, asked_at)
		      VALUES ('{renew-1}', '{renew-1}', 'status', 'confirmed', 'P-OTHER', 'node-1', 0)`,
	}, {
		name: "an unconfirmed add-on", want: []string{"S9"}, subject: "operation {activate-10}",
		sql: `UPDATE operations SET addon_status = 'success', addon_next_at = NULL WHERE id = '{activate-10}'`,
	}, {
		name: "an add-on given up that was delivered", want: []string{"S9"}, subject: "operation {activate-5}",
		sql: `INSERT INTO provider_calls (operation_id, reference, kind, outcome, node, asked_at)
		      VALUES ('{activate-5}', '{activate-5}-2', 'status', 'confirmed', 'node-1', 0)`,
	}, {
		name: "an add-on that is not retried", want: []string{"S4"}, subject: "operation {activate-10}",
		sql: `UPDATE operations SET addon_next_at = NULL WHERE id = '{activate-10}'`,
	}, {
		name: "an add-on put off for ever", want: []string{"S4"}, subject: "operation {activate-10}",
		sql: `UPDATE operations SET addon_next_at = addon_next_at + 31536000000 WHERE id = '{activate-10}'`,
	}, {
		name: "half a fingerprint", want: []string{"I2"}, subject: "operation {renew-1}",
		sql: `UPDATE operations SET fingerprint = substr(fingerprint, 1, 16) WHERE id = '{renew-1}'`,
	}, {
		name: "money moved by another actor", want: []string{"M8"}, subject: "operation {renew-1}",
		sql: `UPDATE wallet_entries SET actor = 'api:key 2' WHERE operation_id = '{renew-1}'`,
	}, {
		name: "an operation made by another actor", want: []string{"M8"}, subject: "operation {renew-1}",
		sql: `UPDATE operations SET actor = 'api:key 2' WHERE id = '{renew-1}'`,
	},
}

var decisionDamage = []damage{
	{
		name: "a decision without its staff action", want: []string{"A9"}, subject: "operation {activate-8}",
		sql: `DELETE FROM staff_acts WHERE subject = 'operation {activate-8}'`,
	}, {
		name: "a staff action without its decision", want: []string{"A9"}, subject: "operation {bulk-0}",
		sql: `INSERT INTO staff_acts SELECT 999, 1, actor, action, 'operation {bulk-0}', before_state, after_state, reason, at, hash, origin, NULL, NULL
		        FROM staff_acts WHERE subject = 'operation {activate-8}'`,
	}, {
		name: "a decision by another person", want: []string{"A9"}, subject: "operation {activate-8}",
		sql: `UPDATE operation_events SET actor = 'cli:binu' WHERE operation_id = '{activate-8}' AND seq = 3`,
	}, {
		name: "a decision without its person", want: []string{"A9", "M8", "S9"}, subject: "operation {activate-9}",
		sql: `UPDATE operation_events SET actor = '' WHERE operation_id = '{activate-9}' AND seq = 3`,
	}, {
		name: "a decision for another reason", want: []string{"A9"}, subject: "operation {activate-8}",
		sql: `UPDATE operation_events SET reason = 'a coin was tossed' WHERE operation_id = '{activate-8}' AND seq = 3`,
	}, {
		name: "a decision turned round", want: []string{"A9"}, subject: "operation {activate-8}",
		sql: `UPDATE staff_acts SET after_state = replace(after_state, '"success"', '"failed"') WHERE subject = 'operation {activate-8}'`,
	}, {
		name: "a person's reason where no person was", want: []string{"A9"}, subject: "operation {renew-9}",
		sql: `UPDATE operations SET reason = 'REJECTED_BY_REVIEW' WHERE id = '{renew-9}'`,
	}, {
		name: "a decision about a missing operation", want: []string{"O1", "A9"}, subject: "operation CX-NONE",
		sql: `INSERT INTO staff_acts SELECT 999, 1, actor, action, 'operation CX-NONE', before_state, after_state, reason, at, hash, origin, NULL, NULL
		        FROM staff_acts WHERE subject = 'operation {activate-8}'`,
	}, {
		name: "an add-on closed without a staff action", want: []string{"A9"}, subject: "operation {activate-10}",
		sql: `UPDATE operations SET addon_status = 'closed', addon_next_at = NULL WHERE id = '{activate-10}'`,
	}, {
		name: "an add-on opened again", want: []string{"A9"}, subject: "operation {activate-5}",
		sql: `UPDATE operations SET addon_status = 'failed', addon_next_at = 1 WHERE id = '{activate-5}'`,
	}, {
		name: "an exception closed without a staff action", want: []string{"A9"}, subject: "exception 2",
		sql: `UPDATE exceptions SET closed_at = 1, closed_by = 'cli:asha', close_reason = 'x' WHERE id = 2`,
	}, {
		name: "an exception opened again", want: []string{"A9"}, subject: "exception 1",
		sql: `UPDATE exceptions SET closed_at = NULL, closed_by = NULL, close_reason = NULL WHERE id = 1`,
	}, {
		name: "an exception closed by another person", want: []string{"A9"}, subject: "exception 1",
		sql: `UPDATE exceptions SET closed_by = 'cli:binu' WHERE id = 1`,
	}, {
		name: "an exception of another operation", want: []string{"A9"}, subject: "exception 1",
		sql: `UPDATE exceptions SET operation_id = '{renew-9}' WHERE id = 1`,
	},
}

var admissionDamage = []damage{
	{
		name: "a nonce used twice", want: []string{"A1"}, subject: "key 1", loosen: []string{"nonces"},
		sql: `UPDATE nonces SET nonce = 'nonce-0007' WHERE credential_id = 1 AND nonce = 'nonce-0008'`,
	}, {
		name: "nonces of a key that is missing", want: []string{"A1"}, subject: "key 77",
		sql: `UPDATE nonces SET credential_id = 77 WHERE credential_id = 2`,
	}, {
		name: "one key under two numbers", want: []string{"A1"}, subject: "key 3", loosen: []string{"credentials"},
		sql: `UPDATE credentials SET key_hash = (SELECT key_hash FROM credentials WHERE id = 1) WHERE id = 3`,
	}, {
		name: "a change of an account that nodes do not see", want: []string{"A3"}, subject: "lco 1",
		sql: `UPDATE operators SET version = version - 1 WHERE id = 1`,
	}, {
		name: "a change of a key that nodes do not see", want: []string{"A3"}, subject: "key 2",
		sql: `UPDATE credentials SET version = 1 WHERE id = 2`,
	}, {
		name: "a request too many", want: []string{"A6"}, subject: "lco 1",
		sql: `UPDATE rate_counters SET used = 61 WHERE operator_id = 1 AND used = 60`,
	}, {
		name: "a limit that was not yet", want: []string{"A6"}, subject: "lco 2",
		sql: `INSERT INTO rate_counters (operator_id, minute, used) SELECT 2, at / 60000 - 10, 61 FROM staff_acts WHERE subject = 'lco 2' ORDER BY id LIMIT 1`,
	}, {
		name: "a minute counted twice", want: []string{"A6"}, subject: "lco 1", loosen: []string{"rate_counters"},
		sql: `INSERT INTO rate_counters (operator_id, minute, used) SELECT operator_id, minute, 1 FROM rate_counters WHERE operator_id = 1`,
	}, {
		name: "a minute of a missing operator", want: []string{"O2", "A6"}, subject: "a minute's count of lco 99",
		sql: `INSERT INTO rate_counters (operator_id, minute, used) VALUES (99, 1, 1)`,
	},
}
