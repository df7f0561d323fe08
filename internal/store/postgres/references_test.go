package postgres

import (
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestReferences_OldStoreIsFilledIn(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	storetest.OldReferences(t, place(address), func(statement string) { exec(t, raw(t, address), statement) })
	conn := raw(t, address)
	for query, want := range map[string]int{
		`SELECT count(*) FROM credited_references WHERE normalised = 'neft1' AND filled = 1`:  3,
		`SELECT operator_id FROM credited_references WHERE normalised = 'neft1' AND copy = 0`: 2,
		`SELECT count(*) FROM credited_references WHERE normalised = '' AND filled = 1`:       1,
		`SELECT count(*) FROM credited_references WHERE way = 'adjust' AND normalised = 'r1'`: 2,
		`SELECT count(*) FROM credited_references WHERE filled = 0`:                           1,
		`SELECT count(*) FROM proposals WHERE kind = 'topup' AND reference_key IS NOT NULL`:   2,
		`SELECT count(*) FROM credited_references`:                                            7,
	} {
		if got := count(t, conn, query); got != want {
			t.Errorf("%s is %d; want %d", query, got, want)
		}
	}
}

// What an older binary proposed beside this one has no reference_key. It is in the way
// of the same reference, and nobody is told that theirs was credited.
func TestReferences_ProposalOfAnOlderBinaryIsInTheWay(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db := open(t, address)
	now := func() time.Time { return time.UnixMilli(1_800_000_000_000) }
	operator, err := admin.NewService(db, nil, "cli:asha", now).CreateOperator(t.Context(), "one", admin.OperatorChange{})
	ok(t, err)
	asha := admin.NewService(db, nil, "web:asha", now).WithRole(admin.Finance, admin.Limits{ApprovalAbove: money.Paise(100)})
	exec(t, raw(t, address), `
		INSERT INTO proposals (kind, operator_id, amount_paise, reference, transaction_id, confirm, reason, matter, maker, made_at, status)
		SELECT 'topup', id, 90000000, '123456', '', 0, '', 'topup 123456', 'web:binu', 1800000000000, 'open' FROM operators`)
	outcome, err := asha.SubmitTopUp(t.Context(), admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(500_000), Reference: "123456"})
	if err == nil {
		t.Errorf("proposed %+v; want a refusal", outcome.Proposal)
	}
}

// A node of an older release credits references without their normalised form while the
// first node of this one starts: until the staff actions are signed, and not after that.
func TestReferences_OlderNodeBesideTheFirstOfThisRelease(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	older, db, conn := open(t, address), open(t, address), raw(t, address)
	now := func() time.Time { return time.UnixMilli(1_800_000_000_000) }
	service := func(db *DB) *admin.Service { return admin.NewService(db, nil, "cli:asha", now) }
	var operators [2]int64
	for i := range operators {
		operator, err := service(older).CreateOperator(t.Context(), "operator", admin.OperatorChange{})
		ok(t, err)
		operators[i] = operator.ID
	}
	topUp := func(db *DB, operatorID int64, reference string) error {
		_, _, err := service(db).TopUp(t.Context(), admin.TopUp{OperatorID: operatorID, Amount: money.Paise(100), Reference: reference})
		return err
	}
	ok(t, topUp(older, operators[0], "NEFT-1"))
	_, _, err := service(older).AdjustOnce(t.Context(), admin.Adjustment{OperatorID: operators[0], Amount: money.Paise(100), Reference: "R-1"}, "counted")
	ok(t, err)
	exec(t, conn, `DELETE FROM credited_references`)

	_, started, err := db.UseIntegrityKeys(t.Context(), integrityKeys(), now())
	ok(t, err)
	if !started {
		t.Error("the signed staff actions were not started")
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM credited_references WHERE way = 'topup' AND normalised = 'neft1' AND filled = 1`: 1,
		`SELECT count(*) FROM credited_references WHERE way = 'adjust' AND normalised = 'r1' AND filled = 1`:   1,
		`SELECT count(*) FROM credited_references`:                                                             2,
	} {
		if got := count(t, conn, query); got != want {
			t.Errorf("%s is %d; want %d", query, got, want)
		}
	}
	if err := topUp(db, operators[1], "neft 1"); err == nil {
		t.Error("the reference was credited to a second operator")
	}
	// What an older node writes of every staff action.
	if _, err := conn.Exec(t.Context(), `UPDATE staff_chain SET last_id = last_id + 1, head = ''`); err == nil {
		t.Error("an older node can still credit")
	}
}

// Several nodes that start together fill in a large store once, without a gap.
func TestReferences_NodesFillInTogether(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	ok(t, open(t, address).Close())
	exec(t, raw(t, address), `
		INSERT INTO operators (id, name, status, api, rate_limit, commission_bps, low_balance_paise, created_at, version)
		SELECT i, 'operator ' || i, 'active', 'enabled', 60, 0, 0, 0, 1 FROM generate_series(1, 50) i`)
	// Each reference twice, of different operators.
	exec(t, raw(t, address), `
		INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, reference, actor, created_at)
		SELECT 1 + i % 50, 1 + i / 50, 'topup', 100, 100, 'NEFT-2026/' || i / 2, 'cli:asha', i FROM generate_series(0, 9999) i`)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			db, err := Open(t.Context(), address, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			_ = db.Close()
		})
	}
	group.Wait()
	conn := raw(t, address)
	for query, want := range map[string]int{
		`SELECT count(*) FROM credited_references`:                10_000,
		`SELECT count(*) FROM credited_references WHERE copy = 0`: 5_000,
		`SELECT count(*) FROM credited_references WHERE copy = 1`: 5_000,
		`SELECT count(*) FROM credited_references r JOIN wallet_entries e USING (operator_id, seq)
		  WHERE r.copy = 0 AND e.created_at % 2 = 1`: 0,
	} {
		if got := count(t, conn, query); got != want {
			t.Errorf("%s is %d; want %d", query, got, want)
		}
	}
}
