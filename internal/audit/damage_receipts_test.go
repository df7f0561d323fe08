package audit_test

var receiptDamage = []damage{
	{
		name: "a purchase without a receipt number", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE ledger SET receipt = NULL WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a receipt number twice", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE ledger SET receipt = receipt - 1 WHERE operation_id = '{renew-2}'`,
	}, {
		name: "receipt numbers with a gap", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE ledger SET receipt = receipt + 1 WHERE operator_id = 1 AND receipt > 2;
		      UPDATE wallets SET receipts = receipts + 1 WHERE operator_id = 1`,
	}, {
		name: "receipt numbers that begin with 2", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE ledger SET receipt = receipt + 1 WHERE operator_id = 1 AND receipt > 0;
		      UPDATE wallets SET receipts = receipts + 1 WHERE operator_id = 1`,
	}, {
		name: "a receipt number of zero", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE ledger SET receipt = 0 WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a receipt number of a top-up", want: []string{"L6"}, subject: "lco 1, ledger line 1",
		sql: `UPDATE ledger SET receipt = 1 WHERE operator_id = 1 AND line = 1`,
	}, {
		name: "a receipt counter that went back", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE wallets SET receipts = receipts - 1 WHERE operator_id = 1`,
	}, {
		name: "a receipt counter of another year", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE wallets SET receipt_year = receipt_year + 1 WHERE operator_id = 1`,
	}, {
		name: "receipts counted in a year without purchases", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE wallets SET receipts_past = '{"2019":3}' WHERE operator_id = 1`,
	}, {
		name: "receipts of past years that cannot be read", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE wallets SET receipts_past = 'none' WHERE operator_id = 1`,
	}, {
		name: "receipt numbers beyond the ledger", want: []string{"L6"}, subject: "lco 1",
		sql: `UPDATE wallets SET receipt_lines = ledger_lines + 1 WHERE operator_id = 1`,
	}, {
		name: "another address", want: []string{"A9"}, subject: "lco 1",
		sql: `UPDATE operators SET address = 'elsewhere' WHERE id = 1`,
	}, {
		name: "another GSTIN", want: []string{"A9"}, subject: "lco 1",
		sql: `UPDATE operators SET gstin = '27AAPFU0939F1ZV' WHERE id = 1`,
	},
}
