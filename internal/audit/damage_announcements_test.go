package audit_test

import "testing"

// creditedAnnouncement inserts an announcement that the first top-up of operator 1 has credited.
const creditedAnnouncement = `
	INSERT INTO payment_announcements (operator_id, code, amount_paise, method, reference, reference_key, paid_on, note, actor, announced_at,
	       state, decided_by, decided_at, credited_seq, credited_paise)
	SELECT e.operator_id, 'CXP222222', e.amount_paise, 'other', e.reference, r.normalised, '2027-01-01', '', 'web:ravi', e.created_at,
	       'credited', e.actor, e.created_at, e.seq, e.amount_paise
	  FROM wallet_entries e JOIN credited_references r ON r.operator_id = e.operator_id AND r.seq = e.seq
	 WHERE e.operator_id = 1 AND e.seq = 1;`

// creditedLine also gives it a bank line, which has another reference.
const creditedLine = creditedAnnouncement + `
	UPDATE payment_announcements SET bank_reference = 'NEFT-1X', bank_key = 'neft1x';
	INSERT INTO credited_references (way, normalised, copy, operator_id, seq, filled, alias) VALUES ('topup', 'neft1x', 0, 1, 1, 0, 1);`

// announcementDamage is done to announced payments.
var announcementDamage = []damage{{
	name: "an announcement credited by nothing", want: []string{"M8"}, subject: "payment announcement CXP222222",
	sql: creditedAnnouncement + `UPDATE payment_announcements SET credited_seq = 4711`,
}, {
	name: "an announcement credited by an order", want: []string{"M8"}, subject: "payment announcement CXP222222",
	sql: creditedAnnouncement + `UPDATE payment_announcements SET credited_seq = 12`,
}, {
	name: "an announcement credited with more than was", want: []string{"M8"}, subject: "payment announcement CXP222222",
	sql: creditedAnnouncement + `UPDATE payment_announcements SET credited_paise = credited_paise + 1`,
}, {
	name: "an announcement credited at another time", want: []string{"M8"}, subject: "payment announcement CXP222222",
	sql: creditedAnnouncement + `UPDATE payment_announcements SET decided_at = decided_at + 1`,
}, {
	name: "an announcement credited under another reference", want: []string{"M8"}, subject: "payment announcement CXP222222",
	sql: creditedAnnouncement + `UPDATE payment_announcements SET reference_key = 'another'`,
}, {
	name: "a credited announcement whose reference can be credited again", want: []string{"M8"}, subject: "payment announcement CXP222222",
	sql: creditedLine + `DELETE FROM credited_references WHERE normalised = 'neft1x'`,
}, {
	name: "an announcement and its bank line credited by two top-ups", want: []string{"M8"}, subject: "payment announcement CXP222222",
	sql: creditedLine + `
	      DELETE FROM credited_references WHERE normalised = 'neft1x';
	      UPDATE payment_announcements SET bank_key = (SELECT normalised FROM credited_references WHERE operator_id = 2 AND seq = 1)`,
}, {
	name: "an alias that no announcement has", want: []string{"M8"}, subject: "lco 1, wallet entry 1",
	sql: creditedLine + `UPDATE credited_references SET normalised = 'neft1y' WHERE alias = 1; UPDATE payment_announcements SET bank_key = NULL, bank_reference = NULL`,
}, {
	name: "two announcements credited by one top-up", want: []string{"M8"}, subject: "payment announcement CXP333333",
	loosen: []string{"payment_announcements"},
	// A table without constraints gives no ids.
	sql: creditedAnnouncement + `
	      UPDATE payment_announcements SET id = 1;
	      INSERT INTO payment_announcements (id, operator_id, code, amount_paise, method, reference, reference_key, paid_on, note, actor, announced_at,
	             state, decided_by, decided_at, answer, credited_seq, credited_paise)
	      SELECT id + 1, operator_id, 'CXP333333', amount_paise, method, reference, reference_key, paid_on, note, actor, announced_at,
	             state, decided_by, decided_at, answer, credited_seq, credited_paise FROM payment_announcements`,
}}

func TestAudit_CreditedAnnouncementIsSound(t *testing.T) {
	t.Parallel()
	s := healthyStore(t)
	damage{sql: creditedLine}.plant(t, s)
	if report, err := s.audited(t); err != nil || !report.OK {
		t.Errorf("%v, %v; want no violation", report.Violations, err)
	}
}
