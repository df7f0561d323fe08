package storetest

import (
	"slices"
	"testing"
)

// SubscriberIndex checks what a store has of subscribers that are older than contact data, and that
// changing a subscriber writes the same again. opener has a store of the release before; exec and
// read use its database.
func SubscriberIndex(t *testing.T, opener Opener, exec func(statement string), read func(query string) []string) {
	for _, statement := range []string{
		`INSERT INTO operators (id, name, status, api, rate_limit, commission_bps, low_balance_paise, created_at) VALUES (1, 'shop', 'active', 'enabled', 60, 0, 0, 0)`,
		`INSERT INTO provider_components (code, name, role, sellable, seen_at) VALUES ('TV', 'TV', 'main', 1, 0)`,
		`INSERT INTO plans (id, name, description, type, main, months, price_paise, updated_at)
			VALUES ('PLAN-1', 'One', '', 'standard', 'TV', 1, 19900, 0), ('PLAN-2', 'Two', '', 'standard', 'TV', 1, 29900, 0)`,
		`INSERT INTO subscribers (id, operator_id, mobile, name, address, connection_type, expires_at, activated_at, created_at) VALUES
			('100001', 1, '9800004321', 'Asha LAKE', '12/B, Lake Road
Kochi', 'Live TV', 0, 0, 0),
			('100002', 1, '9811110000', 'Binu', '', 'Live TV', 0, 0, 0),
			('100003', 1, 'forgotten:100003', 'forgotten', '', 'Live TV', 0, 0, 0),
			('100004', 1, '9822220000', 'Chitra', '', 'Live TV', NULL, NULL, 0)`,
		`DELETE FROM subscriber_terms WHERE term = 'forgotten:100003'`,
		`INSERT INTO cycles (subscriber_id, seq, plan_id, starts_at, ends_at, created_at) VALUES
			('100001', 1, 'PLAN-1', 0, 0, 0), ('100001', 2, 'PLAN-1', 0, 0, 0), ('100001', 3, 'PLAN-2', 0, 0, 0), ('100001', 4, 'PLAN-1', 0, 0, 0),
			('100002', 1, 'PLAN-2', 0, 0, 0), ('100003', 1, 'PLAN-1', 0, 0, 0)`,
	} {
		exec(statement)
	}
	const (
		terms = `SELECT subscriber_id || ' ' || kind || ' ' || term FROM subscriber_terms ORDER BY 1`
		lists = `SELECT subscriber_id || ' ' || list || ' ' || value || ' ' || name FROM subscriber_lists ORDER BY 1`
	)
	same := func(when string) {
		t.Helper()
		for query, want := range map[string][]string{
			terms: {
				"100001 name asha lake", "100001 word 100001", "100001 word 12", "100001 word 9800004321", "100001 word <1234000089",
				"100001 word asha", "100001 word b", "100001 word kochi", "100001 word lake", "100001 word road",
				"100002 name binu", "100002 word 100002", "100002 word 9811110000", "100002 word <0000111189", "100002 word binu",
				"100003 name forgotten", "100003 word 100003", "100003 word forgotten",
				"100004 name chitra", "100004 word 100004", "100004 word 9822220000", "100004 word <0000222289", "100004 word chitra",
			},
			lists: {
				"100001 plan PLAN-1 asha lake", "100001 plan PLAN-2 asha lake", "100002 plan PLAN-2 binu", "100003 plan PLAN-1 forgotten",
			},
		} {
			if got := read(query); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				t.Errorf("%s, %s are\n%q; want\n%q", when, query, got, want)
			}
		}
	}
	if err := opener.Open(t).Close(); err != nil {
		t.Fatal(err)
	}
	same("after the upgrade")
	exec(`UPDATE subscribers SET name = name || '' WHERE id <> '100003'`)
	same("after a change of every subscriber")
}
