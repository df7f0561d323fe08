package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

var operatorTests = []test{
	{"an operator survives a restart", operatorRoundTrip},
	{"an unknown or deleted operator is refused everywhere", operatorRefusals},
	{"a whitelist is limited to twenty entries under concurrency", whitelistIsBounded},
	{"a whitelist entry added twice is stored once", whitelistTwice},
}

func operatorRoundTrip(h *harness) {
	created := h.operator("Asha Cable")
	inactive, disabled, limit, bps, low := subscription.OperatorInactive, subscription.APIDisabled, 7, 333, rupees("12.34")
	changed, err := h.ChangeOperator(h.Context(), staffAction("lco set"), created.ID, admin.OperatorChange{
		Status: &inactive, API: &disabled, RateLimit: &limit, CommissionBPS: &bps, LowBalance: &low,
	})
	h.must(err)
	want := created
	want.Status, want.API, want.RateLimit, want.CommissionBPS, want.LowBalance = inactive, disabled, limit, bps, low
	want.Version = created.Version + 1
	if changed != want {
		h.Errorf("changed to %+v; want %+v", changed, want)
	}
	h.reopen()
	read, err := h.Operator(h.Context(), created.ID)
	h.must(err)
	if read != want {
		h.Errorf("read back %+v; want %+v", read, want)
	}
	other := h.operator("Other")
	all, err := h.Operators(h.Context())
	h.must(err)
	if !slices.Equal(all, []subscription.Operator{want, other}) {
		h.Errorf("the list is %+v", all)
	}
}

func operatorRefusals(h *harness) {
	gone := h.operator("gone")
	key := h.key(gone)
	h.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), gone.ID))
	before := h.auditEntries()
	limit := 5
	for _, id := range []int64{gone.ID, 4711} {
		_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), id, admin.OperatorChange{RateLimit: &limit})
		h.refused("change", err)
		h.refused("delete", h.DeleteOperator(h.Context(), staffAction("lco delete"), id))
		_, _, err = h.TopUp(h.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: id, Amount: rupees("5"), Reference: "r"})
		h.refused("top-up", err)
		_, err = h.IssueKey(h.Context(), staffAction("key issue"), newCredential(id))
		h.refused("issue a key", err)
		h.refused("whitelist add", h.AllowAddress(h.Context(), staffAction("whitelist add"), id, prefix("192.0.2.1/32"), 20))
		h.refused("whitelist remove", h.DisallowAddress(h.Context(), staffAction("whitelist remove"), id, prefix("192.0.2.1/32")))
	}
	_, err := h.RotateKey(h.Context(), staffAction("key rotate"), key.ID, noon, newCredential(gone.ID))
	h.refused("rotate a deleted operator's key", err)
	_, err = h.Operator(h.Context(), 4711)
	h.refused("show", err)
	_, err = h.Wallet(h.Context(), 4711)
	h.refused("wallet", err)
	_, err = h.LedgerPage(h.Context(), admin.ListQuery{OperatorID: 4711})
	h.refused("ledger", err)
	_, err = h.Keys(h.Context(), 4711)
	h.refused("keys", err)
	_, err = h.Whitelist(h.Context(), 4711)
	h.refused("whitelist", err)
	_, err = h.Store.AuditPage(h.Context(), admin.ListQuery{OperatorID: 4711})
	h.refused("log", err)
	if after := h.auditEntries(); len(after) != len(before) {
		h.Errorf("%d audit entries were written for what was refused", len(after)-len(before))
	}
	// The keys of a deleted operator stay known, so that requests are refused with the
	// right code.
	if record := h.record(key); record.Operator.Status != subscription.OperatorDeleted {
		h.Errorf("the key's operator is %s; want deleted", record.Operator.Status)
	}
}

func whitelistIsBounded(h *harness) {
	operator := h.operator("one")
	var added, refused atomic.Int32
	concurrently(30, func(i int) {
		entry := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)
		err := h.AllowAddress(h.Context(), staffAction("whitelist add"), operator.ID, entry, access.MaxWhitelistEntries)
		switch err.(type) {
		case nil:
			added.Add(1)
		case *admin.Refusal:
			refused.Add(1)
		default:
			h.Errorf("add: %v", err)
		}
	})
	list, err := h.Whitelist(h.Context(), operator.ID)
	h.must(err)
	if added.Load() != 20 || refused.Load() != 10 || len(list) != 20 {
		h.Errorf("%d added, %d refused, %d on the list; want 20, 10, 20", added.Load(), refused.Load(), len(list))
	}
}

func whitelistTwice(h *harness) {
	operator := h.operator("one")
	entries := []netip.Prefix{prefix("192.0.2.0/24"), prefix("2001:db8::/48"), prefix("198.51.100.7/32")}
	for _, entry := range append(entries, entries[0]) {
		h.must(h.AllowAddress(h.Context(), staffAction("whitelist add"), operator.ID, entry, 3))
	}
	list, err := h.Whitelist(h.Context(), operator.ID)
	h.must(err)
	slices.SortFunc(list, netip.Prefix.Compare)
	slices.SortFunc(entries, netip.Prefix.Compare)
	if !slices.Equal(list, entries) {
		h.Errorf("the list is %v; want %v", list, entries)
	}
	h.refused("remove an unknown entry", h.DisallowAddress(h.Context(), staffAction("whitelist remove"), operator.ID, prefix("203.0.113.0/24")))
}

var walletTests = []test{
	{"a reference is credited once", topUpOnce},
	{"a used reference with another amount is refused", topUpOtherAmount},
	{"the ledger's running sum follows every credit", ledgerRuns},
	{"a wallet is limited to exactly representable amounts", walletIsBounded},
}

func topUpOnce(h *harness) {
	operator := h.operator("one")
	var credited atomic.Int32
	concurrently(16, func(int) {
		wallet, fresh, err := h.TopUp(h.Context(), staffAction("wallet topup"),
			admin.TopUp{OperatorID: operator.ID, Amount: rupees("5000"), Reference: "NEFT-1"})
		if err != nil || wallet.Balance != rupees("5000") {
			h.Errorf("top-up: %s, %v; want 5000.00", wallet.Balance, err)
		}
		if fresh {
			credited.Add(1)
		}
	})
	if credited.Load() != 1 {
		h.Errorf("credited %d times; want once", credited.Load())
	}
	h.reopen()
	wallet, err := h.Wallet(h.Context(), operator.ID)
	h.must(err)
	want := subscription.Wallet{OperatorID: operator.ID, Balance: rupees("5000"), LowBelow: rupees("500")}
	if wallet != want {
		h.Errorf("the wallet is %+v; want %+v", wallet, want)
	}
}

func topUpOtherAmount(h *harness) {
	operator := h.operator("one")
	topUp := admin.TopUp{OperatorID: operator.ID, Amount: rupees("5000"), Reference: "NEFT-1"}
	_, _, err := h.TopUp(h.Context(), staffAction("wallet topup"), topUp)
	h.must(err)
	topUp.Amount = rupees("6000")
	_, _, err = h.TopUp(h.Context(), staffAction("wallet topup"), topUp)
	h.refused("another amount", err)
	if wallet, err := h.Wallet(h.Context(), operator.ID); err != nil || wallet.Balance != rupees("5000") {
		h.Errorf("the wallet is %s, %v; want 5000.00", wallet.Balance, err)
	}
}

func ledgerRuns(h *harness) {
	operator := h.operator("one")
	for i, amount := range []string{"100", "0.01", "99.99"} {
		_, _, err := h.TopUp(h.Context(), staffAction("wallet topup"),
			admin.TopUp{OperatorID: operator.ID, Amount: rupees(amount), Reference: name("ref", i)})
		h.must(err)
	}
	lines, err := h.LedgerPage(h.Context(), admin.ListQuery{OperatorID: operator.ID})
	h.must(err)
	var got []string
	for _, line := range lines {
		got = append(got, fmt.Sprintf("%v %s %s %s %q", line.Credit, line.Amount, line.BalanceAfter, line.Description, line.TransactionID))
		if !line.CreatedAt.Equal(noon) {
			h.Errorf("a line is of %s; want %s", line.CreatedAt, noon)
		}
	}
	want := []string{
		`true 100.00 100.00 Top-up ref-000 ""`, `true 0.01 100.01 Top-up ref-001 ""`, `true 99.99 200.00 Top-up ref-002 ""`,
	}
	if !slices.Equal(got, want) {
		h.Errorf("the ledger is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func walletIsBounded(h *harness) {
	operator := h.operator("one")
	full := admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(money.Max), Reference: "all"}
	_, _, err := h.TopUp(h.Context(), staffAction("wallet topup"), full)
	h.must(err)
	_, _, err = h.TopUp(h.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(1), Reference: "more"})
	h.refused("one paisa more", err)
	// The full top-up, repeated, is the same top-up and not over the limit.
	if _, fresh, err := h.TopUp(h.Context(), staffAction("wallet topup"), full); err != nil || fresh {
		h.Errorf("the same top-up again: credited %v, %v", fresh, err)
	}
}

var planTests = []test{
	{"a plan consists of components that the provider sells", planComponents},
	{"all versions of a plan are stored and the newest counts", planVersions},
	{"a withdrawn component removes only its own plans", withdrawnComponent},
	{"a retired plan leaves the catalogue and can be set again", retiredPlan},
	{"the last good comparison survives failures and restarts", comparisons},
}

func planComponents(h *harness) {
	_, err := h.SetPlan(h.Context(), staffAction("plan set"), plan("X-1", "10", "TV-BASIC"))
	h.refused("a component before the catalogue was read", err)
	if err == nil || !strings.Contains(err.Error(), "has not been read yet") {
		h.Errorf("it says %v; want that the catalogue has not been read", err)
	}
	h.components("TV-BASIC", "OTT-PLUS")
	_, err = h.SetPlan(h.Context(), staffAction("plan set"), plan("X-1", "10", "TV-NONE"))
	h.refused("an unknown component", err)
	_, err = h.SetPlan(h.Context(), staffAction("plan set"), plan("X-1", "10", "OTT-PLUS"))
	h.refused("an add-on as main", err)
	combo := plan("C-1", "499", "TV-BASIC")
	combo.Type, combo.Addon = subscription.Combo, "TV-BASIC"
	_, err = h.SetPlan(h.Context(), staffAction("plan set"), combo)
	h.refused("a main as add-on", err)
	combo.Addon = "OTT-PLUS"
	saved, err := h.SetPlan(h.Context(), staffAction("plan set"), combo)
	h.must(err)
	combo.Version = 1
	if saved != combo {
		h.Errorf("saved %+v; want %+v", saved, combo)
	}
	plans, _, err := h.SellablePlans(h.Context(), "test")
	h.must(err)
	if !slices.Equal(plans, []subscription.Plan{combo}) {
		h.Errorf("the catalogue is %+v; want the combo alone", plans)
	}
}

func planVersions(h *harness) {
	h.components("TV-BASIC")
	for version, price := range []string{"199", "209", "189.50"} {
		saved, err := h.SetPlan(h.Context(), staffAction("plan set"), plan("BASIC-1", price, "TV-BASIC"))
		h.must(err)
		if saved.Version != int64(version+1) || saved.Price != rupees(price) {
			h.Errorf("saved version %d at %s; want %d at %s", saved.Version, saved.Price, version+1, price)
		}
	}
	h.reopen()
	plans, verified, err := h.SellablePlans(h.Context(), "test")
	h.must(err)
	if len(plans) != 1 || plans[0].Price != rupees("189.50") || plans[0].Version != 3 || !verified.Equal(noon) {
		h.Errorf("the catalogue is %+v, compared at %s; want the third price, compared at noon", plans, verified)
	}
	if plans, verified, err := h.SellablePlans(h.Context(), "other"); err != nil || len(plans) != 1 || !verified.IsZero() {
		h.Errorf("for a provider that was never compared: %+v, compared at %s, %v", plans, verified, err)
	}
}

func withdrawnComponent(h *harness) {
	h.components("TV-BASIC", "TV-FAMILY", "OTT-PLUS")
	combo := plan("C-1", "499", "TV-BASIC")
	combo.Type, combo.Addon = subscription.Combo, "OTT-PLUS"
	for _, p := range []subscription.Plan{plan("A-1", "1", "TV-BASIC"), plan("B-1", "1", "TV-FAMILY"), combo} {
		_, err := h.SetPlan(h.Context(), staffAction("plan set"), p)
		h.must(err)
	}
	for _, row := range []struct {
		sold []string
		want []string
	}{
		{[]string{"TV-BASIC", "TV-FAMILY", "OTT-PLUS"}, []string{"A-1", "B-1", "C-1"}},
		{[]string{"TV-BASIC", "TV-FAMILY"}, []string{"A-1", "B-1"}},
		{[]string{"TV-FAMILY", "OTT-PLUS"}, []string{"B-1"}},
		{nil, nil},
		{[]string{"TV-BASIC", "OTT-PLUS"}, []string{"A-1", "C-1"}},
	} {
		h.components(row.sold...)
		plans, _, err := h.SellablePlans(h.Context(), "test")
		h.must(err)
		var got []string
		for _, p := range plans {
			got = append(got, p.ID)
		}
		if !slices.Equal(got, row.want) {
			h.Errorf("with %v sold the catalogue is %v; want %v", row.sold, got, row.want)
		}
	}
	_, err := h.SetPlan(h.Context(), staffAction("plan set"), plan("B-1", "2", "TV-FAMILY"))
	h.refused("a withdrawn component", err)
}

func retiredPlan(h *harness) {
	h.components("TV-BASIC")
	_, err := h.SetPlan(h.Context(), staffAction("plan set"), plan("A-1", "1", "TV-BASIC"))
	h.must(err)
	h.must(h.RetirePlan(h.Context(), staffAction("plan retire"), "A-1"))
	h.refused("retire it again", h.RetirePlan(h.Context(), staffAction("plan retire"), "A-1"))
	h.refused("retire an unknown one", h.RetirePlan(h.Context(), staffAction("plan retire"), "Z-9"))
	if plans, _, err := h.SellablePlans(h.Context(), "test"); err != nil || len(plans) != 0 {
		h.Errorf("the catalogue is %v, %v; want it empty", plans, err)
	}
	if plans, err := h.AllPlans(h.Context()); err != nil || len(plans) != 1 || !plans[0].Retired {
		h.Errorf("all plans are %v, %v; want the retired one", plans, err)
	}
	back, err := h.SetPlan(h.Context(), staffAction("plan set"), plan("A-1", "2", "TV-BASIC"))
	h.must(err)
	if back.Retired || back.Version != 3 {
		h.Errorf("set again it is %+v; want it back as version 3", back)
	}
}

var keyTests = []test{
	{"a key survives a restart", keyRoundTrip},
	{"a key is rotated once, with its present permissions", rotation},
	{"a revoked key cannot be revoked, rotated or permitted", revokedKey},
}

func keyRoundTrip(h *harness) {
	operator := h.operator("one")
	credential := h.key(operator)
	h.must(h.AllowAddress(h.Context(), staffAction("whitelist add"), operator.ID, prefix("192.0.2.0/24"), 20))
	h.reopen()
	record := h.record(credential)
	if !sameCredential(record.Credential, credential) {
		h.Errorf("read back %+v; want %+v", record.Credential, credential)
	}
	if !slices.Equal(record.Whitelist, []netip.Prefix{prefix("192.0.2.0/24")}) || record.Operator.Name != "one" {
		h.Errorf("the record is %+v", record)
	}
	_, err := h.Key(h.Context(), 4711)
	h.refused("an unknown key", err)
}

func sameCredential(a, b access.Credential) bool {
	sealed := bytes.Equal(a.SealedSecret, b.SealedSecret)
	a.SealedSecret, b.SealedSecret = nil, nil
	return sealed && fmt.Sprint(a) == fmt.Sprint(b)
}

func rotation(h *harness) {
	operator := h.operator("one")
	credential := h.key(operator)
	balance, err := access.ParsePermissions([]string{"Check Balance"})
	h.must(err)
	h.must(h.PermitKey(h.Context(), staffAction("key permit"), credential.ID, balance))

	var rotated, refused atomic.Int32
	concurrently(8, func(int) {
		_, err := h.RotateKey(h.Context(), staffAction("key rotate"), credential.ID, noon.Add(time.Hour), newCredential(operator.ID))
		switch err.(type) {
		case nil:
			rotated.Add(1)
		case *admin.Refusal:
			refused.Add(1)
		default:
			h.Errorf("rotate: %v", err)
		}
	})
	if rotated.Load() != 1 || refused.Load() != 7 {
		h.Errorf("rotated %d times, refused %d; want 1 and 7", rotated.Load(), refused.Load())
	}
	keys, err := h.Keys(h.Context(), operator.ID)
	h.must(err)
	if len(keys) != 2 {
		h.Fatalf("there are %d keys; want the old and the new", len(keys))
	}
	old, fresh := keys[0], keys[1]
	if old.ReplacedBy != fresh.ID || !old.ExpiresAt.Equal(noon.Add(time.Hour)) || !old.RevokedAt.IsZero() {
		h.Errorf("the old key is %+v", old)
	}
	if fresh.Permissions != balance || !fresh.ExpiresAt.IsZero() || fresh.ReplacedBy != 0 {
		h.Errorf("the new key is %+v; want the permissions of the old", fresh)
	}
}

func revokedKey(h *harness) {
	operator := h.operator("one")
	credential := h.key(operator)
	h.must(h.RevokeKey(h.Context(), staffAction("key revoke"), credential.ID))
	for _, id := range []int64{credential.ID, 4711} {
		h.refused("revoke", h.RevokeKey(h.Context(), staffAction("key revoke"), id))
		h.refused("permit", h.PermitKey(h.Context(), staffAction("key permit"), id, access.AllPermissions))
		_, err := h.RotateKey(h.Context(), staffAction("key rotate"), id, noon, newCredential(operator.ID))
		h.refused("rotate", err)
	}
}

var auditTests = []test{
	{"every change has an audit entry with actor, old and new state", everyChangeIsLogged},
	{"the hash chain shows a changed row", chainHolds},
	{"a refusal leaves no audit entry", refusalsLeaveNoEntry},
	{"audit entries are found by actor, action, subject, operator and time", auditEntriesFound},
	{"a voucher is used once under concurrency", vouchersUsedOnce},
}

func (h *harness) auditEntries() []admin.AuditEntry {
	h.Helper()
	auditEntries, err := h.Store.AuditPage(h.Context(), admin.ListQuery{})
	h.must(err)
	return auditEntries
}

func everyChangeIsLogged(h *harness) {
	h.components("TV-BASIC")
	operator := h.operator("one")
	credential := h.key(operator)
	inactive := subscription.OperatorInactive
	_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), operator.ID, admin.OperatorChange{Status: &inactive})
	h.must(err)
	_, _, err = h.TopUp(h.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: operator.ID, Amount: rupees("5"), Reference: "r"})
	h.must(err)
	_, err = h.SetPlan(h.Context(), staffAction("plan set"), plan("A-1", "1", "TV-BASIC"))
	h.must(err)
	_, err = h.SetPlan(h.Context(), staffAction("plan set"), plan("A-1", "2", "TV-BASIC"))
	h.must(err)
	h.must(h.RetirePlan(h.Context(), staffAction("plan retire"), "A-1"))
	h.must(h.AllowAddress(h.Context(), staffAction("whitelist add"), operator.ID, prefix("192.0.2.0/24"), 20))
	h.must(h.DisallowAddress(h.Context(), staffAction("whitelist remove"), operator.ID, prefix("192.0.2.0/24")))
	h.must(h.PermitKey(h.Context(), staffAction("key permit"), credential.ID, access.Permissions(0)))
	_, err = h.RotateKey(h.Context(), staffAction("key rotate"), credential.ID, noon, newCredential(operator.ID))
	h.must(err)
	h.must(h.RevokeKey(h.Context(), staffAction("key revoke"), credential.ID))
	_, _, err = h.Adjust(h.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: operator.ID, Amount: rupees("-5")})
	h.must(err)
	h.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), operator.ID))

	type row struct{ action, subject, before, after string }
	wants := []row{
		{"lco create", "lco 1", "", `"status":"active"`},
		{"key issue", "key 1", "", `"key":"cxk_`},
		{"lco set", "lco 1", `"status":"active"`, `"status":"inactive"`},
		{"wallet topup", "wallet of lco 1, reference r", `"wallet_balance":0.00`, `"wallet_balance":5.00`},
		{"plan set", "plan A-1", "", `"price":1.00`},
		{"plan set", "plan A-1", `"price":1.00`, `"price":2.00`},
		{"plan retire", "plan A-1", `"retired":false`, `"retired":true`},
		{"whitelist add", "whitelist of lco 1", `[]`, `["192.0.2.0/24"]`},
		{"whitelist remove", "whitelist of lco 1", `["192.0.2.0/24"]`, `[]`},
		{"key permit", "key 1", `"Activate"`, `"permissions":[]`},
		{"key rotate", "key 1", `"replaced_by":0`, `"replaced_by":2`},
		{"key rotate", "key 2", "", `"key":"cxk_`},
		{"key revoke", "key 1", `"revoked_at":""`, `"revoked_at":"2027-03-01 12:00:00"`},
		{"wallet adjust", "wallet of lco 1", `"wallet_balance":5.00`, `"wallet_balance":0.00`},
		{"lco delete", "lco 1", `"status":"inactive"`, `"status":"deleted"`},
	}
	auditEntries := h.auditEntries()
	if len(auditEntries) != len(wants) {
		h.Fatalf("%d audit entries are written; want %d", len(auditEntries), len(wants))
	}
	for i, want := range wants {
		got := auditEntries[i]
		if got.Actor != "test:asha" || got.Reason != "because" || !got.At.Equal(noon) ||
			got.Action != want.action || got.Subject != want.subject ||
			!strings.Contains(got.Before, want.before) || (got.Before == "") != (want.before == "") || !strings.Contains(got.After, want.after) {
			h.Errorf("audit entry %d is %+v; want %+v", i, got, want)
		}
		for _, state := range []string{got.Before, got.After} {
			if state != "" && !json.Valid([]byte(state)) {
				h.Errorf("audit entry %d has a state that is not JSON: %s", i, state)
			}
		}
	}
	of, err := h.Store.AuditPage(h.Context(), admin.ListQuery{OperatorID: operator.ID})
	h.must(err)
	if len(of) != len(wants)-3 {
		h.Errorf("%d audit entries concern the operator; want all but the three on plans", len(of))
	}
}

func chainHolds(h *harness) {
	for i := range 5 {
		h.operator(name("operator", i))
	}
	auditEntries := h.auditEntries()
	var previous []byte
	for i, logged := range auditEntries {
		if !bytes.Equal(logged.Hash, logged.ChainHash(previous)) {
			h.Errorf("audit entry %d does not follow from the one before", i)
		}
		tampered := logged
		tampered.After += " "
		if bytes.Equal(tampered.ChainHash(previous), logged.Hash) {
			h.Errorf("audit entry %d could be changed undetected", i)
		}
		previous = logged.Hash
	}
}

func refusalsLeaveNoEntry(h *harness) {
	h.components("TV-BASIC")
	_, err := h.SetPlan(h.Context(), staffAction("plan set"), plan("X-1", "10", "TV-NONE"))
	h.refused("an unknown component", err)
	h.refused("an unknown key", h.RevokeKey(h.Context(), staffAction("key revoke"), 9))
	if auditEntries := h.auditEntries(); len(auditEntries) != 0 {
		h.Errorf("logged %+v; want nothing", auditEntries)
	}
}

var masterKeyTests = []test{
	{"the first master keys are stored and required from then on", masterKeys},
}

func masterKeys(h *harness) {
	check := func(proofs map[uint32][]byte) error {
		primary := uint32(7)
		if proofs[8] != nil {
			primary = 8
		}
		return h.CheckMasterKeys(h.Context(), proofs, primary, noon)
	}
	h.must(check(map[uint32][]byte{7: []byte("seven")}))
	h.must(check(map[uint32][]byte{7: []byte("seven")}))
	if check(map[uint32][]byte{7: []byte("other")}) == nil {
		h.Error("another key under the same id was taken")
	}
	if check(map[uint32][]byte{8: []byte("eight")}) == nil {
		h.Error("a ring without the known key was taken")
	}
	h.must(check(map[uint32][]byte{7: []byte("seven"), 8: []byte("eight")}))
	if check(map[uint32][]byte{7: []byte("seven")}) == nil {
		h.Error("a ring that lost a key was taken")
	}
	h.reopen()
	h.must(check(map[uint32][]byte{7: []byte("seven"), 8: []byte("eight")}))
}

func comparisons(h *harness) {
	compared := func() (good, tried time.Time) {
		h.Helper()
		good, tried, err := h.Compared(h.Context(), "test")
		h.must(err)
		return good, tried
	}
	if good, tried := compared(); !good.IsZero() || !tried.IsZero() {
		h.Errorf("never compared: %s, %s", good, tried)
	}
	later := noon.Add(time.Minute)
	h.must(h.RecordFailure(h.Context(), "test", "no answer", noon))
	if good, tried := compared(); !good.IsZero() || !tried.Equal(noon) {
		h.Errorf("after a failure: %s, %s", good, tried)
	}
	h.components("TV-BASIC")
	h.must(h.RecordFailure(h.Context(), "test", "no answer", later))
	h.reopen()
	if good, tried := compared(); !good.Equal(noon) || !tried.Equal(later) {
		h.Errorf("after a comparison and a failure: %s, %s", good, tried)
	}
}
