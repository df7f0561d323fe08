package storetest

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
)

var requestLogTests = []test{
	{"a call is read back with all its fields", callFoundAgain},
	{"calls of another operator are not found", callsAreTheOperators},
	{"calls are filtered by each field", callsFiltered},
	{"pages of calls have no gap and no repetition", callsPaged},
	{"calls of the same time are distinguished", callsOfOneMoment},
	{"calls are found from a time on and up to a time", callsWithinTime},
	{"a key's last use only moves forward", lastUses},
	{"refused addresses are counted, latest first", refusedAddresses},
	{"a purge removes old calls in batches", requestsPurged},
	{"the request log survives a restart", logSurvivesRestart},
}

// callLog is a request log in the harness's store. It flushes before each read.
func (h *harness) callLog() *requestlog.Log {
	return requestlog.New(h.Store, requestlog.Config{
		Keep:    30 * 24 * time.Hour,
		Problem: func(err error) { h.Errorf("the request log: %v", err) },
	})
}

func call(operator subscription.Operator, n int) requestlog.Entry {
	return requestlog.Entry{
		At: noon.Add(time.Duration(n) * time.Second), OperatorID: operator.ID, CredentialID: 4 + operator.ID, KeyHint: "cxk_1a2b3c4d",
		Method: "GET", Path: "/api/v1/balance", Status: 200, Code: fault.OK, Address: netip.MustParseAddr("203.0.113.7"),
		RequestID: fmt.Sprintf("req_%032x", n), Took: 1500 * time.Microsecond,
	}
}

func refusedCall(operator subscription.Operator, n int, code fault.Code, status int) requestlog.Entry {
	e := call(operator, n)
	e.Code, e.Status = code, status
	return e
}

func (h *harness) search(log *requestlog.Log, operator subscription.Operator, q requestlog.Query) requestlog.Page {
	h.Helper()
	page, err := log.Search(h.Context(), operator.ID, q)
	h.must(err)
	return page
}

// numbers returns the numbers of a page's calls.
func numbers(entries []requestlog.Entry) string {
	var all []int
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.RequestID, "req_%x", &n); err != nil {
			n = -1
		}
		all = append(all, n)
	}
	return fmt.Sprint(all)
}

func callFoundAgain(h *harness) {
	operator, log := h.operator("one"), h.callLog()
	sent := refusedCall(operator, 1, fault.InvalidSignature, 401)
	sent.Method, sent.Path, sent.IdempotencyKey = "POST", "/api/v1/renew", "order-77"
	sent.Address, sent.PlanID = netip.MustParseAddr("2001:db8::7"), "COMBO-1"
	sent.Signature = requestlog.NewSignatureDetails("POST\n/api/v1/renew\n\n1800000000\nnonce\nhash", "0123456789abcdef")
	log.Record(sent)
	found := h.search(log, operator, requestlog.Query{}).Entries
	if len(found) != 1 || found[0].Signature == nil || found[0].ID == "" {
		h.Fatalf("found %+v; want the one call with its signature details", found)
	}
	got, want := found[0], sent
	if *got.Signature != *want.Signature {
		h.Errorf("signature details = %+v; want %+v", *got.Signature, *want.Signature)
	}
	id := got.ID
	got.Signature, want.Signature, got.ID = nil, nil, ""
	if got != want {
		h.Errorf("found %+v; want %+v", got, want)
	}
	again, err := log.Entry(h.Context(), operator.ID, id)
	if err != nil || again.RequestID != sent.RequestID {
		h.Errorf("by its id: %+v, %v", again, err)
	}
}

func callsAreTheOperators(h *harness) {
	one, other, log := h.operator("one"), h.operator("other"), h.callLog()
	log.Record(call(one, 1))
	log.Record(refusedCall(other, 2, fault.IPNotWhitelisted, 403))
	log.Record(call(other, 3))
	for operator, want := range map[subscription.Operator]string{one: "[1]", other: "[3 2]"} {
		if got := numbers(h.search(log, operator, requestlog.Query{}).Entries); got != want {
			h.Errorf("%s finds %s; want %s", operator.Name, got, want)
		}
	}
	// Neither by its id, nor in a page, nor among refused addresses.
	theirs := h.search(log, other, requestlog.Query{Limit: 1})
	if _, err := log.Entry(h.Context(), one.ID, theirs.Entries[0].ID); !errors.Is(err, requestlog.ErrNotFound) {
		h.Errorf("another's call by its id: %v; want %v", err, requestlog.ErrNotFound)
	}
	if got := numbers(h.search(log, one, requestlog.Query{After: theirs.Next}).Entries); got != "[1]" && got != "[]" {
		h.Errorf("another's page shows %s", got)
	}
	if refused, err := log.RefusedAddresses(h.Context(), one.ID, noon); err != nil || len(refused) != 0 {
		h.Errorf("another's refused addresses: %v, %v", refused, err)
	}
	uses, err := log.LastUse(h.Context(), one.ID)
	if err != nil || len(uses) != 1 || !uses[5].Equal(noon.Add(time.Second)) {
		h.Errorf("uses = %v, %v; want the operator's own", uses, err)
	}
}

func callsFiltered(h *harness) {
	operator, log := h.operator("one"), h.callLog()
	log.Record(call(operator, 1))
	log.Record(refusedCall(operator, 2, fault.RateLimited, 429))
	elsewhere := call(operator, 3)
	elsewhere.Address = netip.MustParseAddr("198.51.100.1")
	log.Record(elsewhere)
	otherKey := call(operator, 4)
	otherKey.CredentialID = 6
	log.Record(otherKey)
	ordered := call(operator, 5)
	ordered.IdempotencyKey = "order-77"
	log.Record(ordered)
	h.must(log.Flush(h.Context()))
	log.Record(refusedCall(operator, 6, fault.InvalidPlan, 422))
	for _, tt := range []struct {
		name  string
		query requestlog.Query
		want  string
	}{
		{"nothing", requestlog.Query{}, "[6 5 4 3 2 1]"},
		{"a code", requestlog.Query{Code: fault.RateLimited}, "[2]"},
		{"refusals", requestlog.Query{Refused: true}, "[6 2]"},
		{"a key", requestlog.Query{CredentialID: 6}, "[4]"},
		{"an address", requestlog.Query{Address: netip.MustParseAddr("198.51.100.1")}, "[3]"},
		{"an idempotency key", requestlog.Query{IdempotencyKey: "order-77"}, "[5]"},
		{"a request", requestlog.Query{RequestID: call(operator, 1).RequestID}, "[1]"},
		{"two at once", requestlog.Query{Refused: true, Code: fault.InvalidPlan}, "[6]"},
		{"an unknown request", requestlog.Query{RequestID: "req_nobody"}, "[]"},
	} {
		if got := numbers(h.search(log, operator, tt.query).Entries); got != tt.want {
			h.Errorf("by %s: %s; want %s", tt.name, got, tt.want)
		}
	}
}

func callsPaged(h *harness) {
	operator, log := h.operator("one"), h.callLog()
	const calls = 40
	var want []requestlog.Entry
	for n := range calls {
		e := call(operator, n)
		e.At = noon.Add(time.Duration(n/2) * time.Second) // two at a time
		log.Record(e)
		if n%7 == 0 {
			h.must(log.Flush(h.Context())) // so that pages end inside blocks and between them
		}
		want = append([]requestlog.Entry{e}, want...)
	}
	for _, limit := range []int{1, 3, 7, 40, 41} {
		var got []requestlog.Entry
		q := requestlog.Query{Limit: limit}
		for range calls + 1 {
			page := h.search(log, operator, q)
			got = append(got, page.Entries...)
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if numbers(got) != numbers(want) {
			h.Errorf("in pages of %d: %s; want %s", limit, numbers(got), numbers(want))
		}
	}
	if _, err := log.Search(h.Context(), operator.ID, requestlog.Query{After: "nowhere"}); !errors.Is(err, requestlog.ErrNotFound) {
		h.Errorf("a page that never was: %v; want %v", err, requestlog.ErrNotFound)
	}
}

func callsOfOneMoment(h *harness) {
	operator, log := h.operator("one"), h.callLog()
	for n := range 6 {
		e := call(operator, n)
		e.At = noon
		log.Record(e)
		h.must(log.Flush(h.Context()))
	}
	seen := map[string]bool{}
	q := requestlog.Query{Limit: 1}
	for range 7 {
		page := h.search(log, operator, q)
		for _, e := range page.Entries {
			if seen[e.ID] {
				h.Errorf("%s is shown twice", e.ID)
			}
			seen[e.ID] = true
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if len(seen) != 6 {
		h.Errorf("%d calls of one moment; want 6", len(seen))
	}
}

func callsWithinTime(h *harness) {
	operator, log := h.operator("one"), h.callLog()
	for n := range 60 {
		log.Record(call(operator, n)) // one a second: several blocks, however large they may be
	}
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	for _, tt := range []struct {
		query requestlog.Query
		want  string
	}{
		{requestlog.Query{From: at(57)}, "[59 58 57]"},
		{requestlog.Query{To: at(2)}, "[2 1 0]"},
		{requestlog.Query{From: at(30), To: at(31)}, "[31 30]"},
		{requestlog.Query{From: at(60)}, "[]"},
		{requestlog.Query{To: noon.Add(-time.Second)}, "[]"},
	} {
		if got := numbers(h.search(log, operator, tt.query).Entries); got != tt.want {
			h.Errorf("from %s to %s: %s; want %s", tt.query.From, tt.query.To, got, tt.want)
		}
	}
}

func lastUses(h *harness) {
	operator := h.operator("one")
	use := func(log *requestlog.Log, n int, e requestlog.Entry) time.Time {
		e.At = noon.Add(time.Duration(n) * time.Minute)
		log.Record(e)
		uses, err := log.LastUse(h.Context(), operator.ID)
		h.must(err)
		return uses[5]
	}
	log := h.callLog()
	if at := use(log, 5, call(operator, 1)); !at.Equal(noon.Add(5 * time.Minute)) {
		h.Errorf("used at %s; want five past", at)
	}
	if at := use(log, 9, refusedCall(operator, 2, fault.InvalidSignature, 401)); !at.Equal(noon.Add(5 * time.Minute)) {
		h.Errorf("an unsigned call counts as a use, at %s", at)
	}
	if at := use(log, 7, refusedCall(operator, 3, fault.RateLimited, 429)); !at.Equal(noon.Add(7 * time.Minute)) {
		h.Errorf("used at %s; want seven past", at)
	}
	// Another node has an older use still to write.
	if at := use(h.callLog(), 6, call(operator, 4)); !at.Equal(noon.Add(7 * time.Minute)) {
		h.Errorf("the last use went back to %s", at)
	}
}

func refusedAddresses(h *harness) {
	operator, log := h.operator("one"), h.callLog()
	from := func(n int, address string, code fault.Code) {
		e := refusedCall(operator, n, code, 403)
		e.Address = netip.MustParseAddr(address)
		log.Record(e)
	}
	from(1, "198.51.100.1", fault.IPNotWhitelisted)
	from(100, "198.51.100.2", fault.IPNotWhitelisted)
	from(101, "198.51.100.1", fault.IPNotWhitelisted)
	from(102, "198.51.100.9", fault.PermissionDenied)
	from(103, "198.51.100.2", fault.IPNotWhitelisted)
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	got, err := log.RefusedAddresses(h.Context(), operator.ID, at(50))
	h.must(err)
	want := []requestlog.RefusedAddress{
		{Address: netip.MustParseAddr("198.51.100.2"), Calls: 2, First: at(100), Last: at(103)},
		{Address: netip.MustParseAddr("198.51.100.1"), Calls: 1, First: at(101), Last: at(101)},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		h.Errorf("refused: %v; want %v", got, want)
	}
}

func requestsPurged(h *harness) {
	operator, log := h.operator("one"), h.callLog()
	day := 24 * time.Hour
	var blocks []requestlog.Block
	for n := range 10 {
		at := noon.Add(time.Duration(n) * day)
		blocks = append(blocks, requestlog.Block{OperatorID: operator.ID, From: at, Until: at, Packed: []byte{1}})
	}
	h.must(h.RecordRequests(h.Context(), requestlog.Batch{Blocks: blocks}))
	left := func() int {
		h.Helper()
		blocks, err := h.RequestBlocks(h.Context(), requestlog.BlockQuery{
			OperatorID: operator.ID, Before: requestlog.Position{Until: noon.Add(100 * day), ID: 1 << 40}, Limit: 100,
		})
		h.must(err)
		return len(blocks)
	}
	removed, err := h.PurgeRequests(h.Context(), noon.Add(5*day), 3)
	if err != nil || removed != 3 || left() != 7 {
		h.Errorf("the first batch took %d (%v) and left %d; want 3 and 7", removed, err, left())
	}
	removed, err = log.Purge(h.Context(), noon.Add(35*day))
	if err != nil || removed != 2 || left() != 5 {
		h.Errorf("the purge took %d (%v) and left %d; want 2 and 5, for that of the fifth day is not older than thirty", removed, err, left())
	}
	off := requestlog.New(h.Store, requestlog.Config{})
	if removed, err = off.Purge(h.Context(), noon.Add(35*day)); err != nil || removed != 5 {
		h.Errorf("a log that was turned off kept something: it took %d, %v; want 5", removed, err)
	}
}

func logSurvivesRestart(h *harness) {
	operator := h.operator("one")
	log := h.callLog()
	log.Record(call(operator, 1))
	h.must(log.Flush(h.Context()))
	h.reopen()
	if got := numbers(h.search(h.callLog(), operator, requestlog.Query{}).Entries); got != "[1]" {
		h.Errorf("after a restart: %s; want [1]", got)
	}
}
