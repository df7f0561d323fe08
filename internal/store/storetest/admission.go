package storetest

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
)

var admissionTests = []test{
	{"a nonce is used once under concurrency", nonceUsedOnce},
	{"a request may be admitted again with its own nonce", sameRequestAsksAgain},
	{"a nonce is scoped to its API key", nonceBelongsToItsKey},
	{"a used nonce stays used after a restart", nonceSurvivesRestart},
	{"the rate limit is exact under concurrency", limitIsExact},
	{"rate counts are separate per minute and operator", countsAreApart},
	{"a rate count survives a restart", countSurvivesRestart},
	{"an uncounted admission uses the nonce and counts nothing", burnWithoutCounting},
	{"a change of key or account is detected and counts nothing", changesAreSeen},
	{"a change of another key or account has no effect", otherChangesDoNotDisturb},
	{"an unknown key hash is not found", unknownHash},
	{"a purge removes old rows in batches", purge},
	{"a purge removes nonces of a fast clock a day later", purgeAfterClockAhead},
	{"a clock that is set back loses no nonce", clockSetBack},
}

func nonceUsedOnce(h *harness) {
	record := h.record(h.key(h.operator("one")))
	var admitted, replayed atomic.Int32
	concurrently(32, func(i int) {
		a, err := h.Admit(h.Context(), admission(record, name("req", i), "nonce-aaaaaaaaaaaa"))
		switch {
		case err != nil:
			h.Errorf("admit: %v", err)
		case a.Replayed:
			replayed.Add(1)
		case a.Counted:
			admitted.Add(1)
		}
	})
	if admitted.Load() != 1 || replayed.Load() != 31 {
		h.Errorf("%d admitted, %d refused as replays; want 1 and 31", admitted.Load(), replayed.Load())
	}
	if next := h.admit(admission(record, "req-next", "nonce-bbbbbbbbbbbb")); next.Used != 2 {
		h.Errorf("%d requests are counted; replays must not count", next.Used)
	}
}

func sameRequestAsksAgain(h *harness) {
	record := h.record(h.key(h.operator("one")))
	burn := admission(record, "req-1", "nonce-aaaaaaaaaaaa")
	burn.Count = false
	if got := h.admit(burn); got.Replayed || got.Counted {
		h.Errorf("first: %+v; want neither replayed nor counted", got)
	}
	burn.Count = true
	if got := h.admit(burn); got.Replayed || !got.Counted || got.Used != 1 {
		h.Errorf("the same request again: %+v; want counted as the first", got)
	}
	burn.RequestID = "req-2"
	if got := h.admit(burn); !got.Replayed || got.Counted {
		h.Errorf("another request: %+v; want a replay", got)
	}
}

func nonceBelongsToItsKey(h *harness) {
	operator := h.operator("one")
	first, second := h.record(h.key(operator)), h.record(h.key(operator))
	if got := h.admit(admission(first, "req-1", "nonce-aaaaaaaaaaaa")); got.Replayed {
		h.Error("the first use is a replay")
	}
	if got := h.admit(admission(second, "req-2", "nonce-aaaaaaaaaaaa")); got.Replayed {
		h.Error("another key's nonce counts as used")
	}
}

func nonceSurvivesRestart(h *harness) {
	record := h.record(h.key(h.operator("one")))
	h.admit(admission(record, "req-1", "nonce-aaaaaaaaaaaa"))
	h.reopen()
	if got := h.admit(admission(record, "req-2", "nonce-aaaaaaaaaaaa")); !got.Replayed {
		h.Errorf("after a restart: %+v; want a replay", got)
	}
}

func limitIsExact(h *harness) {
	operator := h.operator("one")
	limit := 10
	_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), operator.ID, admin.OperatorChange{RateLimit: &limit})
	h.must(err)
	// Two keys of one operator share its minute.
	records := []access.Record{h.record(h.key(operator)), h.record(h.key(operator))}

	counts := make([]int, 40)
	concurrently(40, func(i int) {
		a, err := h.Admit(h.Context(), admission(records[i%2], name("req", i), name("nonce-aaaaaaaaaa", i)))
		if err != nil {
			h.Errorf("admit: %v", err)
		}
		if a.Counted {
			counts[i] = a.Used
		} else if a.Used != limit {
			h.Errorf("refused with %d counted; want %d", a.Used, limit)
		}
	})
	slices.Sort(counts)
	if got, want := counts[30:], []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(got, want) || counts[29] != 0 {
		h.Errorf("counts: %v; want each of 1 to 10 once", counts)
	}
}

func countsAreApart(h *harness) {
	one, other := h.record(h.key(h.operator("one"))), h.record(h.key(h.operator("other")))
	first := admission(one, "req-1", "nonce-aaaaaaaaaaaa")
	first.Now = noon.Add(59*time.Second + 999*time.Millisecond)
	h.admit(first)
	next := admission(one, "req-2", "nonce-bbbbbbbbbbbb")
	next.Now = noon.Add(time.Minute)
	if got := h.admit(next); got.Used != 1 {
		h.Errorf("the next minute begins at %d; want 1", got.Used)
	}
	if got := h.admit(admission(other, "req-3", "nonce-cccccccccccc")); got.Used != 1 {
		h.Errorf("another operator begins at %d; want 1", got.Used)
	}
	if got := h.admit(admission(one, "req-4", "nonce-dddddddddddd")); got.Used != 2 {
		h.Errorf("the first minute goes on at %d; want 2", got.Used)
	}
}

func countSurvivesRestart(h *harness) {
	record := h.record(h.key(h.operator("one")))
	h.admit(admission(record, "req-1", "nonce-aaaaaaaaaaaa"))
	h.reopen()
	if got := h.admit(admission(record, "req-2", "nonce-bbbbbbbbbbbb")); got.Used != 2 {
		h.Errorf("after a restart the count is %d; want 2", got.Used)
	}
}

func burnWithoutCounting(h *harness) {
	record := h.record(h.key(h.operator("one")))
	burn := admission(record, "req-1", "nonce-aaaaaaaaaaaa")
	burn.Count = false
	h.admit(burn)
	if got := h.admit(admission(record, "req-2", "nonce-aaaaaaaaaaaa")); !got.Replayed {
		h.Error("the nonce was not burned")
	}
	if got := h.admit(admission(record, "req-3", "nonce-bbbbbbbbbbbb")); got.Used != 1 {
		h.Errorf("%d requests are counted; want 1", got.Used)
	}
}

// Every staff action that decides about admission, with how it shows in the fresh
// record.
func changesAreSeen(h *harness) {
	operator := h.operator("one")
	credential := h.key(operator)
	inactive, blocked, slow := subscription.OperatorInactive, subscription.APIBlocked, 70
	entry := prefix("192.0.2.7/32")
	changes := []struct {
		name string
		make func() error
		seen func(access.Record) bool
	}{
		{"status", func() error {
			_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), operator.ID, admin.OperatorChange{Status: &inactive})
			return err
		}, func(r access.Record) bool { return r.Operator.Status == inactive }},
		{"API access", func() error {
			_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), operator.ID, admin.OperatorChange{API: &blocked})
			return err
		}, func(r access.Record) bool { return r.Operator.API == blocked }},
		{"rate limit", func() error {
			_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), operator.ID, admin.OperatorChange{RateLimit: &slow})
			return err
		}, func(r access.Record) bool { return r.Operator.RateLimit == slow }},
		{"whitelist add", func() error {
			return h.AllowAddress(h.Context(), staffAction("whitelist add"), operator.ID, entry, access.MaxWhitelistEntries)
		}, func(r access.Record) bool { return slices.Contains(r.Whitelist, entry) }},
		{"whitelist remove", func() error {
			return h.DisallowAddress(h.Context(), staffAction("whitelist remove"), operator.ID, entry)
		}, func(r access.Record) bool { return len(r.Whitelist) == 0 }},
		{"permissions", func() error {
			return h.PermitKey(h.Context(), staffAction("key permit"), credential.ID, access.Permissions(0))
		}, func(r access.Record) bool { return len(r.Credential.Permissions.List()) == 0 }},
		{"rotation", func() error {
			_, err := h.RotateKey(h.Context(), staffAction("key rotate"), credential.ID, noon.Add(time.Hour), newCredential(operator.ID))
			return err
		}, func(r access.Record) bool { return r.Credential.ExpiresAt.Equal(noon.Add(time.Hour)) }},
		{"revocation", func() error {
			return h.RevokeKey(h.Context(), staffAction("key revoke"), credential.ID)
		}, func(r access.Record) bool { return r.Credential.RevokedAt.Equal(noon) }},
		{"deletion", func() error {
			return h.DeleteOperator(h.Context(), staffAction("lco delete"), operator.ID)
		}, func(r access.Record) bool { return r.Operator.Status == subscription.OperatorDeleted }},
	}
	for i, change := range changes {
		old := h.record(credential)
		h.must(change.make())
		a := admission(old, name("req", i), name("nonce-aaaaaaaaaa", i))
		got := h.admit(a)
		if got.Counted || got.Fresh == nil || !change.seen(*got.Fresh) {
			h.Errorf("%s: %+v; want it reported, nothing counted", change.name, got)
			continue
		}
		if read := h.record(credential); read.Credential.Version != got.Fresh.Credential.Version || read.Operator.Version != got.Fresh.Operator.Version {
			h.Errorf("%s: reported versions %d/%d, read %d/%d", change.name,
				got.Fresh.Credential.Version, got.Fresh.Operator.Version, read.Credential.Version, read.Operator.Version)
		}
		// The second call, with the fresh record, recognises its own nonce.
		again := admission(*got.Fresh, a.RequestID, a.Nonce)
		if second := h.admit(again); second.Replayed || second.Fresh != nil || !second.Counted || second.Used != i+1 {
			h.Errorf("%s: the second call: %+v; want counted as number %d", change.name, second, i+1)
		}
	}
}

func otherChangesDoNotDisturb(h *harness) {
	operator, other := h.operator("one"), h.operator("other")
	record := h.record(h.key(operator))
	h.key(other)
	h.must(h.AllowAddress(h.Context(), staffAction("whitelist add"), other.ID, prefix("192.0.2.0/24"), access.MaxWhitelistEntries))
	_, _, err := h.TopUp(h.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: operator.ID, Amount: rupees("5"), Reference: "a"})
	h.must(err)
	if got := h.admit(admission(record, "req-1", "nonce-aaaaaaaaaaaa")); got.Fresh != nil || !got.Counted {
		h.Errorf("%+v; want let in", got)
	}
}

func unknownHash(h *harness) {
	_, found, err := h.CredentialByHash(h.Context(), access.HashKey("cxk_00000000000000000000000000000000"))
	if found || err != nil {
		h.Errorf("found %v, %v; want not found", found, err)
	}
}

func purge(h *harness) {
	record := h.record(h.key(h.operator("one")))
	for i := range 6 {
		old := admission(record, name("old", i), name("nonce-old-aaaaaa", i))
		old.Now = noon.Add(-25 * time.Hour).Add(time.Duration(i) * time.Minute)
		h.admit(old)
	}
	h.admit(admission(record, "req-new", "nonce-new-aaaaaaaa"))

	horizon := noon.Add(-24 * time.Hour)
	removed, err := h.PurgeAdmissions(h.Context(), horizon, subscription.RateWindowAt(horizon), 4)
	h.must(err)
	if removed != 4 {
		h.Errorf("removed %d rows; want the 4 that were allowed", removed)
	}
	total := removed
	for removed > 0 {
		removed, err = h.PurgeAdmissions(h.Context(), horizon, subscription.RateWindowAt(horizon), 4)
		h.must(err)
		total += removed
	}
	if total != 12 {
		h.Errorf("removed %d rows in all; want 6 nonces and 6 counters", total)
	}
	if got := h.admit(admission(record, "req-again", "nonce-new-aaaaaaaa")); !got.Replayed {
		h.Error("the purge took a nonce that must still be known")
	}
	if got := h.admit(admission(record, "req-more", "nonce-new-bbbbbbbb")); got.Used != 2 {
		h.Errorf("the running minute stands at %d; want 2", got.Used)
	}
}

func purgeAfterClockAhead(h *harness) {
	record := h.record(h.key(h.operator("one")))
	use := func(what string, at time.Time) {
		for i := range 6 {
			a := admission(record, name("req-"+what, i), name("nonce-aaaaaaaa-"+what, i))
			a.Now, a.Count = at, false
			if got := h.admit(a); got.Replayed {
				h.Errorf("the first use of nonce %d %s is a replay", i, what)
			}
		}
	}
	purgeAt := func(now time.Time) (removed int) {
		for {
			batch, err := h.PurgeAdmissions(h.Context(), now.Add(-access.NonceRetention), 0, 4)
			h.must(err)
			removed += batch
			if batch < 4 {
				return removed
			}
		}
	}
	use("before", noon.Add(-time.Hour))
	use("ahead", noon.AddDate(10, 0, 0))
	use("after", noon.Add(time.Second))
	right := noon.Add(time.Minute) // the clock is right again
	purgeAt(right)
	// Nonces from before the jump are purged in time, even if the jump is not noticed
	// yet.
	purgeAt(right.Add(23 * time.Hour))
	h.reopen()
	for i := range 6 {
		for _, what := range []string{"ahead", "after"} {
			if got := h.admit(admission(record, "req-again", name("nonce-aaaaaaaa-"+what, i))); !got.Replayed {
				h.Errorf("nonce %d %s is forgotten within the day", i, what)
			}
		}
	}
	// A day after the jump was first noticed, which may have been at the last purge.
	removed := purgeAt(right.Add(48 * time.Hour))
	if removed != 12 {
		h.Errorf("removed %d rows two days later; want the 6 of the clock that was ahead, and the 6 after them", removed)
	}
	if got := h.admit(admission(record, "req-new", name("nonce-aaaaaaaa-ahead", 0))); got.Replayed {
		h.Error("a nonce of the clock that was ahead is kept for ever")
	}
}

func clockSetBack(h *harness) {
	record := h.record(h.key(h.operator("one")))
	for i, at := range []time.Duration{0, -time.Hour, -23 * time.Hour} {
		a := admission(record, name("req", i), name("nonce-aaaaaaaaaaaa", i))
		a.Now = noon.Add(at)
		h.admit(a)
		_, err := h.PurgeAdmissions(h.Context(), a.Now.Add(-access.NonceRetention), 0, 100)
		h.must(err)
	}
	_, err := h.PurgeAdmissions(h.Context(), noon.Add(time.Minute-access.NonceRetention), 0, 100)
	h.must(err)
	for i := range 3 {
		if got := h.admit(admission(record, "req-again", name("nonce-aaaaaaaaaaaa", i))); !got.Replayed {
			h.Errorf("nonce %d is forgotten after the clock was set back and forth", i)
		}
	}
}
