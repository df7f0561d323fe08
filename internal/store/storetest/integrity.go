package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/subscription"
)

var integrityTests = []test{
	{"staff actions continue the chain of MACs", signedActions},
	{"without keys a signed store refuses staff actions", unsignedActionRefused},
	{"a second start is not made", oneChainStart},
	{"concurrent staff actions keep one chain", concurrentActions},
	{"finished days are sealed, in the order of rows", finishedDays},
	{"a digest that does not follow the last is not added", racedDigest},
	{"several nodes seal every row once", racingSeals},
}

// nextMAC is what the MAC of an action must be.
func nextMAC(previous []byte, a admin.LoggedAct) string {
	return string(testKeys(1, 1).SignAction(previous, integrity.Action{
		ID: a.ID, OperatorID: a.OperatorID, At: a.At.UnixMilli(), Actor: a.Actor, Action: a.Action, Subject: a.Subject,
		Before: a.Before, After: a.After, Reason: a.Reason, Origin: a.Origin,
	}).Code)
}

func (h *house) head() integrity.Head {
	h.Helper()
	head, err := h.IntegrityHead(h.Context())
	h.must(err)
	return head
}

func signedActions(h *house) {
	start := h.head()
	if want := testKeys(1, 1).SignStart(integrity.Start{}).Code; start.ActionID != 0 || string(start.ActionMAC) != string(want) {
		h.Fatalf("an empty store's head is %+v; want the start's MAC", start)
	}
	h.operator("one")
	h.reopen()
	done := act("lco create")
	done.Origin = "192.0.2.7"
	_, err := h.CreateOperator(h.Context(), done, subscription.Operator{
		Name: "two", Status: subscription.OperatorActive, API: subscription.APIEnabled, RateLimit: 60, CreatedAt: noon,
	})
	h.must(err)
	acts := h.acts()
	previous := start.ActionMAC
	for _, a := range acts {
		previous = []byte(nextMAC(previous, a))
	}
	head := h.head()
	if head.ActionID != 2 || string(head.ActionMAC) != string(previous) || string(head.ActionHash) != string(acts[1].Hash) {
		h.Errorf("the head is %+v; want action 2 with the MAC %x", head, previous)
	}
}

func unsignedActionRefused(h *house) {
	before := h.operator("one")
	h.must(h.Store.Close())
	h.Store = h.place.Open(h.TB)
	_, err := h.CreateOperator(h.Context(), act("lco create"), before)
	if !errors.Is(err, integrity.ErrNoKey) {
		h.Errorf("without keys: %v; want ErrNoKey", err)
	}
	if _, err := h.AddDigest(h.Context(), integrity.Digest{OperatorID: before.ID, Day: "2027-03-01", FirstLine: 1, FirstEntry: 1}); !errors.Is(err, integrity.ErrNoKey) {
		h.Errorf("a digest without keys: %v; want ErrNoKey", err)
	}
	if acts := h.acts(); len(acts) != 1 {
		h.Errorf("%d staff actions; want the first one only", len(acts))
	}
	h.sign()
	h.operator("two")
}

func oneChainStart(h *house) {
	h.operator("one")
	before := h.head()
	sealed, started, err := h.UseIntegrityKeys(h.Context(), testKeys(2, 1, 2), noon)
	h.must(err)
	if started || sealed != 0 || string(h.head().ActionMAC) != string(before.ActionMAC) {
		h.Errorf("sealed %d, %v; want the chain to go on", sealed, started)
	}
}

func concurrentActions(h *house) {
	operator := h.operator("one")
	var clerks sync.WaitGroup
	for range 16 {
		clerks.Go(func() {
			if _, err := h.IssueKey(h.Context(), act("key issue"), newCredential(operator.ID)); err != nil {
				h.Error(err)
			}
		})
	}
	clerks.Wait()
	previous := testKeys(1, 1).SignStart(integrity.Start{}).Code
	for _, a := range h.acts() {
		previous = []byte(nextMAC(previous, a))
	}
	if head := h.head(); head.ActionID != 17 || string(head.ActionMAC) != string(previous) {
		h.Errorf("the chain ends with %d and %x; want 17 and %x", head.ActionID, head.ActionMAC, previous)
	}
}

// paid tops an operator up at a time.
func (h *house) paid(operatorID int64, reference string, at time.Time) {
	h.Helper()
	done := act("wallet topup")
	done.At = at
	_, _, err := h.TopUp(h.Context(), done, admin.TopUp{OperatorID: operatorID, Amount: rupees("5"), Reference: reference})
	h.must(err)
}

func finishedDays(h *house) {
	one, two := h.operator("one").ID, h.operator("two").ID
	day := 24 * time.Hour
	for _, p := range []struct {
		id int64
		at time.Time
	}{{one, noon}, {one, noon}, {two, noon}, {one, noon.Add(3 * day)}, {one, noon.Add(day)}, {one, noon.Add(4 * day)}} {
		h.paid(p.id, "NEFT-"+p.at.String()+string(rune('A'+h.head().ActionID)), p.at)
	}
	seal := func(now time.Time, want int) {
		h.Helper()
		digests, err := integrity.Seal(h.Context(), h.Store, now, nil)
		h.must(err)
		if digests != want {
			h.Errorf("%s: %d digests; want %d", now, digests, want)
		}
	}
	last := func(id int64, day string, first, last int64) {
		h.Helper()
		d, err := h.LastDigest(h.Context(), id)
		h.must(err)
		if d.Day != day || d.FirstLine != first || d.LastLine != last || d.FirstEntry != first || d.LastEntry != last {
			h.Errorf("the last digest of lco %d is %+v; want rows %d to %d of %s", id, d, first, last, day)
		}
	}
	midnight := noon.Add(12 * time.Hour)
	seal(midnight.Add(14*time.Minute), 0)
	seal(midnight.Add(16*time.Minute), 2)
	last(one, "2027-03-01", 1, 2)
	last(two, "2027-03-01", 1, 1)
	seal(midnight.Add(16*time.Minute), 0)
	// The row of the second day that came after one of the fourth is sealed with it.
	seal(midnight.Add(3*day+time.Hour), 1)
	last(one, "2027-03-04", 3, 4)
	h.reopen()
	seal(midnight.Add(30*day), 1)
	last(one, "2027-03-05", 5, 5)
	if head := h.head(); head.DigestNumber != 4 || head.Day != "2027-03-05" || len(head.DigestMAC) == 0 {
		h.Errorf("the head is %+v; want four digests", head)
	}
	// A late row of a day that has its digest is sealed as the next day's.
	h.paid(one, "late", noon.Add(4*day))
	seal(midnight.Add(30*day), 1)
	last(one, "2027-03-06", 6, 6)
}

func racedDigest(h *house) {
	id := h.operator("one").ID
	h.paid(id, "NEFT-1", noon)
	add := func(d integrity.Digest) bool {
		h.Helper()
		d.OperatorID, d.LedgerHash, d.WalletHash = id, []byte{1}, []byte{2}
		added, err := h.AddDigest(h.Context(), d)
		h.must(err)
		return added
	}
	first := integrity.Digest{Day: "2027-03-01", FirstLine: 1, LastLine: 1, FirstEntry: 1, LastEntry: 1}
	if add(integrity.Digest{Day: "2027-03-01", FirstLine: 2, LastLine: 2, FirstEntry: 1, LastEntry: 1}) {
		h.Error("a digest was added that leaves a row out")
	}
	if !add(first) || add(first) {
		h.Error("want a digest to be added once")
	}
	if add(integrity.Digest{Day: "2027-03-01", FirstLine: 2, LastLine: 1, FirstEntry: 2, LastEntry: 1}) {
		h.Error("a second digest of a day was added")
	}
}

func racingSeals(h *house) {
	for _, name := range []string{"one", "two", "three"} {
		id := h.operator(name).ID
		for n := range 5 {
			h.paid(id, name+" "+string(rune('A'+n)), noon.AddDate(0, 0, n))
		}
	}
	var digests atomic.Int64
	var nodes sync.WaitGroup
	for range 4 {
		nodes.Go(func() {
			sealed, err := integrity.Seal(h.Context(), h.Store, noon.AddDate(0, 1, 0), func(context.Context) {})
			digests.Add(int64(sealed))
			if err != nil {
				h.Error(err)
			}
		})
	}
	nodes.Wait()
	sealed, err := integrity.Seal(h.Context(), h.Store, noon.AddDate(0, 1, 0), nil) // what a race left over
	h.must(err)
	if total := digests.Load() + int64(sealed); total != 15 || h.head().DigestNumber != 15 {
		h.Errorf("%d digests, the last of which has number %d; want 15", total, h.head().DigestNumber)
	}
}
