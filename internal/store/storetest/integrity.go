package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	{"a chain is started once", oneChainStart},
	{"concurrent staff actions keep one chain", concurrentActions},
	{"finished days are sealed in row order", finishedDays},
	{"a digest that does not follow the last is not added", racedDigest},
	{"concurrent nodes seal every row once", racingSeals},
	{"digests are written in batches, and an interrupted run continues", interruptedSeal},
	{"a batch leaves out digests that do not follow the last", batchedDigests},
	{"an operator with a missing row does not stop the sealing of others", sealMissingRow},
}

// nextMAC returns the expected MAC of an action.
func nextMAC(previous []byte, a admin.AuditEntry) string {
	return string(testKeys(1, 1).SignAction(previous, integrity.Action{
		ID: a.ID, OperatorID: a.OperatorID, At: a.At.UnixMilli(), Actor: a.Actor, Action: a.Action, Subject: a.Subject,
		Before: a.Before, After: a.After, Reason: a.Reason, Origin: a.Origin,
	}).Code)
}

func (h *harness) head() integrity.Head {
	h.Helper()
	head, err := h.IntegrityHead(h.Context())
	h.must(err)
	return head
}

func signedActions(h *harness) {
	start := h.head()
	if want := testKeys(1, 1).SignStart(integrity.Start{}).Code; start.ActionID != 0 || string(start.ActionMAC) != string(want) {
		h.Fatalf("an empty store's head is %+v; want the start's MAC", start)
	}
	h.operator("one")
	h.reopen()
	done := staffAction("lco create")
	done.Origin = "192.0.2.7"
	_, err := h.CreateOperator(h.Context(), done, subscription.Operator{
		Name: "two", Status: subscription.OperatorActive, API: subscription.APIEnabled, RateLimit: 60, CreatedAt: noon,
	})
	h.must(err)
	auditEntries := h.auditEntries()
	previous := start.ActionMAC
	for _, a := range auditEntries {
		previous = []byte(nextMAC(previous, a))
	}
	head := h.head()
	if head.ActionID != 2 || string(head.ActionMAC) != string(previous) || string(head.ActionHash) != string(auditEntries[1].Hash) {
		h.Errorf("the head is %+v; want action 2 with the MAC %x", head, previous)
	}
}

func unsignedActionRefused(h *harness) {
	before := h.operator("one")
	h.must(h.Store.Close())
	h.Store = h.opener.Open(h.TB)
	_, err := h.CreateOperator(h.Context(), staffAction("lco create"), before)
	if !errors.Is(err, integrity.ErrNoKey) {
		h.Errorf("without keys: %v; want ErrNoKey", err)
	}
	if _, err := h.AddDigests(h.Context(), []integrity.Digest{{OperatorID: before.ID, Day: "2027-03-01", FirstLine: 1, FirstEntry: 1}}); !errors.Is(err, integrity.ErrNoKey) {
		h.Errorf("a digest without keys: %v; want ErrNoKey", err)
	}
	if auditEntries := h.auditEntries(); len(auditEntries) != 1 {
		h.Errorf("%d staff actions; want the first one only", len(auditEntries))
	}
	h.sign()
	h.operator("two")
}

func oneChainStart(h *harness) {
	h.operator("one")
	before := h.head()
	sealed, started, err := h.UseIntegrityKeys(h.Context(), testKeys(2, 1, 2), noon)
	h.must(err)
	if started || sealed != 0 || string(h.head().ActionMAC) != string(before.ActionMAC) {
		h.Errorf("sealed %d, %v; want the chain to go on", sealed, started)
	}
}

func concurrentActions(h *harness) {
	operator := h.operator("one")
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			if _, err := h.IssueKey(h.Context(), staffAction("key issue"), newCredential(operator.ID)); err != nil {
				h.Error(err)
			}
		})
	}
	callers.Wait()
	previous := testKeys(1, 1).SignStart(integrity.Start{}).Code
	for _, a := range h.auditEntries() {
		previous = []byte(nextMAC(previous, a))
	}
	if head := h.head(); head.ActionID != 17 || string(head.ActionMAC) != string(previous) {
		h.Errorf("the chain ends with %d and %x; want 17 and %x", head.ActionID, head.ActionMAC, previous)
	}
}

// paid tops up an operator at a time.
func (h *harness) paid(operatorID int64, reference string, at time.Time) {
	h.Helper()
	done := staffAction("wallet topup")
	done.At = at
	_, _, err := h.TopUp(h.Context(), done, admin.TopUp{OperatorID: operatorID, Amount: rupees("5"), Reference: reference})
	h.must(err)
}

func finishedDays(h *harness) {
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
		digests, err := integrity.Seal(h.Context(), h.Store, now, integrity.Watch{})
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
	// A row of the second day that was written after one of the fourth is sealed with
	// it.
	seal(midnight.Add(3*day+time.Hour), 1)
	last(one, "2027-03-04", 3, 4)
	h.reopen()
	seal(midnight.Add(30*day), 1)
	last(one, "2027-03-05", 5, 5)
	if head := h.head(); head.DigestNumber != 4 || head.Day != "2027-03-05" || len(head.DigestMAC) == 0 {
		h.Errorf("the head is %+v; want four digests", head)
	}
	// A late row of a day that has its digest is sealed with the next day.
	h.paid(one, "late", noon.Add(4*day))
	seal(midnight.Add(30*day), 1)
	last(one, "2027-03-06", 6, 6)
}

func racedDigest(h *harness) {
	id := h.operator("one").ID
	h.paid(id, "NEFT-1", noon)
	add := func(d integrity.Digest) bool {
		h.Helper()
		d.OperatorID, d.LedgerHash, d.WalletHash = id, []byte{1}, []byte{2}
		added, err := h.AddDigests(h.Context(), []integrity.Digest{d})
		h.must(err)
		return added == 1
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

func racingSeals(h *harness) {
	for _, name := range []string{"one", "two", "three"} {
		id := h.operator(name).ID
		for n := range 50 {
			h.paid(id, name+"-"+strconv.Itoa(n), noon.AddDate(0, 0, n))
		}
	}
	var digests atomic.Int64
	var nodes sync.WaitGroup
	for range 4 {
		nodes.Go(func() {
			sealed, err := integrity.Seal(h.Context(), h.Store, noon.AddDate(0, 6, 0), integrity.Watch{})
			digests.Add(int64(sealed))
			if err != nil {
				h.Error(err)
			}
		})
	}
	nodes.Wait()
	sealed, err := integrity.Seal(h.Context(), h.Store, noon.AddDate(0, 6, 0), integrity.Watch{}) // what a race left over
	h.must(err)
	if total := digests.Load() + int64(sealed); total != 150 || h.head().DigestNumber != 150 {
		h.Errorf("%d digests, the last of which has number %d; want 150", total, h.head().DigestNumber)
	}
}

var errInterrupted = errors.New("interrupted")

// committing counts the commits of digests, and fails after some of them.
type committing struct {
	integrity.Store
	sizes []int
	fails int // the commit that fails; 0 for none
}

func (c *committing) AddDigests(ctx context.Context, digests []integrity.Digest) (int, error) {
	if c.sizes = append(c.sizes, len(digests)); len(c.sizes) == c.fails {
		return 0, errInterrupted
	}
	return c.Store.AddDigests(ctx, digests)
}

func interruptedSeal(h *harness) {
	one, two := h.operator("one").ID, h.operator("two").ID
	const days = 130
	for day := range days {
		h.paid(one, "ONE-"+strconv.Itoa(day), noon.AddDate(0, 0, day))
	}
	h.paid(two, "TWO", noon)
	later := noon.AddDate(1, 0, 0)
	first := &committing{Store: h.Store, fails: 2}
	if digests, err := integrity.Seal(h.Context(), first, later, integrity.Watch{}); digests != 100 || !errors.Is(err, errInterrupted) {
		h.Fatalf("%d digests, %v; want the first commit of 100", digests, err)
	}
	h.reopen()
	second := &committing{Store: h.Store}
	var seen []int
	digests, err := integrity.Seal(h.Context(), second, later, integrity.Watch{Committed: func(digests int, operatorID int64) {
		seen = append(seen, digests)
		if operatorID != two {
			h.Errorf("operator %d is reached; want %d", operatorID, two)
		}
	}})
	h.must(err)
	if want := []int{31}; digests != 31 || !slices.Equal(second.sizes, want) || !slices.Equal(seen, want) {
		h.Errorf("%d digests in commits of %v, reported as %v; want the other 31 in one", digests, second.sizes, seen)
	}
	if last, err := h.LastDigest(h.Context(), one); err != nil || last.LastLine != days || last.LastEntry != days {
		h.Errorf("the last digest of lco %d is %+v, %v; want all rows covered", one, last, err)
	}
	if head := h.head(); head.DigestNumber != days+1 {
		h.Errorf("the head is %+v; want %d digests", head, days+1)
	}
}

func batchedDigests(h *harness) {
	one, two := h.operator("one").ID, h.operator("two").ID
	digest := func(id int64, day string, first, last int64) integrity.Digest {
		return integrity.Digest{OperatorID: id, Day: day, FirstLine: first, LastLine: last, FirstEntry: first, LastEntry: last, LedgerHash: []byte{1}, WalletHash: []byte{2}}
	}
	add := func(want int, digests ...integrity.Digest) {
		h.Helper()
		added, err := h.AddDigests(h.Context(), digests)
		h.must(err)
		if added != want {
			h.Errorf("%d of %d digests were added; want %d", added, len(digests), want)
		}
	}
	add(0)
	add(1, digest(one, "2027-03-01", 1, 2))
	// Another node has sealed the first operator's day meanwhile.
	add(3, digest(one, "2027-03-01", 1, 2), digest(one, "2027-03-02", 3, 3), digest(two, "2027-03-01", 1, 1), digest(two, "2027-03-02", 2, 2))
	add(0, digest(two, "2027-03-01", 1, 1), digest(two, "2027-03-04", 4, 4), digest(two, "2027-03-02", 3, 3))
	if head := h.head(); head.DigestNumber != 4 || head.Day != "2027-03-02" {
		h.Errorf("the head is %+v; want four digests", head)
	}
}

// missingEntry hides the third wallet entry of an operator.
type missingEntry struct {
	integrity.Store
	operatorID int64
}

func (m missingEntry) WalletEntriesFrom(ctx context.Context, operatorID, seq int64, limit int) ([]integrity.WalletEntry, error) {
	entries, err := m.Store.WalletEntriesFrom(ctx, operatorID, seq, limit)
	return slices.DeleteFunc(entries, func(e integrity.WalletEntry) bool { return e.OperatorID == m.operatorID && e.Seq == 3 }), err
}

func sealMissingRow(h *harness) {
	one, two := h.operator("one").ID, h.operator("two").ID
	for day := range 4 {
		h.paid(one, "ONE-"+strconv.Itoa(day), noon.AddDate(0, 0, day))
		h.paid(two, "TWO-"+strconv.Itoa(day), noon.AddDate(0, 0, day))
	}
	digests, err := integrity.Seal(h.Context(), missingEntry{h.Store, one}, noon.AddDate(0, 1, 0), integrity.Watch{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("lco %d: row 3 is missing before row 4", one)) {
		h.Errorf("%v; want the missing row", err)
	}
	last, err := h.LastDigest(h.Context(), two)
	if h.must(err); digests != 5 || last.LastEntry != 4 {
		h.Errorf("%d digests, the last of lco %d is %+v; want its four days and one day of lco %d", digests, two, last, one)
	}
}
