package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

// auditEntriesFound searches audit entries by each filter, and in pages.
func auditEntriesFound(h *harness) {
	h.components("TV-BASIC")
	first, second := h.operator("one"), h.operator("two") // entries 1 and 2
	top := func(by string, operatorID int64, reference string, at time.Time) {
		done := staffAction("wallet topup")
		done.Actor, done.At = by, at
		_, _, err := h.TopUp(h.Context(), done, admin.TopUp{OperatorID: operatorID, Amount: rupees("5"), Reference: reference})
		h.must(err)
	}
	top("web:asha", first.ID, "NEFT-1", noon.Add(time.Hour))      // 3
	top("web:ravi", second.ID, "NEFT-2", noon.Add(2*time.Hour))   // 4
	top("web:asha", second.ID, "50%_OFF", noon.Add(26*time.Hour)) // 5

	for _, tt := range []struct {
		what  string
		query admin.AuditQuery
		want  []int64
	}{
		{"all", admin.AuditQuery{}, []int64{5, 4, 3, 2, 1}},
		{"the newest two", admin.AuditQuery{Limit: 2}, []int64{5, 4}},
		{"those before the fourth", admin.AuditQuery{Below: 4}, []int64{3, 2, 1}},
		{"an operator's", admin.AuditQuery{OperatorID: second.ID}, []int64{5, 4, 2}},
		{"a person's", admin.AuditQuery{Actor: "web:asha"}, []int64{5, 3}},
		{"half a name", admin.AuditQuery{Actor: "web:as"}, nil},
		{"of a kind", admin.AuditQuery{Action: "lco create"}, []int64{2, 1}},
		{"on something, however it is written", admin.AuditQuery{Search: "neft"}, []int64{4, 3}},
		{"on something with the signs of a pattern", admin.AuditQuery{Search: "0%_o"}, []int64{5}},
		{"a sign of a pattern that nothing has", admin.AuditQuery{Search: "N%T"}, nil},
		{"from a moment on", admin.AuditQuery{From: noon.Add(2 * time.Hour)}, []int64{5, 4}},
		{"until before a moment", admin.AuditQuery{Before: noon.Add(2 * time.Hour)}, []int64{3, 2, 1}},
		{"by everything at once", admin.AuditQuery{
			OperatorID: second.ID, Actor: "web:ravi", Action: "wallet topup", Search: "NEFT", From: noon, Before: noon.Add(3 * time.Hour), Below: 5,
		}, []int64{4}},
	} {
		if tt.query.Limit == 0 {
			tt.query.Limit = 100
		}
		found, err := h.FindAuditEntries(h.Context(), tt.query)
		h.must(err)
		var got []int64
		for _, one := range found {
			got = append(got, one.ID)
		}
		if !slices.Equal(got, tt.want) {
			h.Errorf("%s: found %v; want %v", tt.what, got, tt.want)
		}
	}
	all := h.auditEntries()
	slices.Reverse(all)
	found, err := h.FindAuditEntries(h.Context(), admin.AuditQuery{Limit: 100})
	h.must(err)
	if fmt.Sprint(found) != fmt.Sprint(all) {
		h.Errorf("found %v; want the same entries as in the whole log, %v", found, all)
	}
}

// vouchersUsedOnce has concurrent callers use one voucher, like repeated clicks on
// several nodes.
func vouchersUsedOnce(h *harness) {
	operator := h.operator("one")
	under := func(action, voucher string) admin.StaffAction {
		done := staffAction(action)
		done.Voucher = voucher
		done.Reason = done.VoucherNote()
		return done
	}
	const once, other = "AAAA2222BBBB", "CCCC3333DDDD"
	var issued atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			switch _, err := h.IssueKey(h.Context(), under("key issue", once), newCredential(operator.ID)); {
			case err == nil:
				issued.Add(1)
			case !admin.DoneAlready(err):
				h.Errorf("issue under a voucher: %v", err)
			}
		})
	}
	callers.Wait()
	keys, err := h.Keys(h.Context(), operator.ID)
	h.must(err)
	if issued.Load() != 1 || len(keys) != 1 {
		h.Fatalf("%d keys were issued under one voucher, and there are %d; want 1", issued.Load(), len(keys))
	}
	first, found, err := h.AuditEntryByVoucher(h.Context(), once)
	h.must(err)
	if !found || first.Action != "key issue" || first.Subject != fmt.Sprintf("key %d", keys[0].ID) || first.OperatorID != operator.ID {
		h.Errorf("under the voucher was done %+v, %v", first, found)
	}
	_, found, err = h.AuditEntryByVoucher(h.Context(), other)
	h.must(err)
	if found {
		h.Error("an unused voucher has an audit entry")
	}

	// A voucher counts for every action, and a refused action does not use it.
	_, err = h.CreateOperator(h.Context(), under("lco create", once), operator)
	h.refused("another action with a used voucher", err)
	h.refused("an unknown key", h.RevokeKey(h.Context(), under("key revoke", other), 4711))
	// A rotation is one action, though it has an entry for each key.
	successor, err := h.RotateKey(h.Context(), under("key rotate", other), keys[0].ID, noon, newCredential(operator.ID))
	h.must(err)
	last, found, err := h.AuditEntryByVoucher(h.Context(), other)
	h.must(err)
	if !found || last.Subject != fmt.Sprintf("key %d", successor.ID) {
		h.Errorf("the rotation is found as %+v, %v", last, found)
	}
	if all, err := h.Operators(h.Context()); err != nil || len(all) != 1 {
		h.Errorf("there are %d operators, %v; want what was refused to be taken back", len(all), err)
	}
}
