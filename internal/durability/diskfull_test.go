//go:build long

package durability

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// valve says how many pages a store's file may have, as a disk would that fills up.
type valve struct {
	t testing.TB
	// each is asked before every batch how many pages more than there are now
	// there may be; below zero means that nothing is to change.
	each func() int
}

// turn is called by the writer before every batch.
func (v *valve) turn(pragma func(text string) (int64, error)) {
	more := v.each()
	if more < 0 {
		return
	}
	pages, err := pragma("page_count")
	if err == nil {
		_, err = pragma(fmt.Sprintf("max_page_count = %d", pages+int64(more)))
	}
	if err != nil {
		v.t.Errorf("limit the store's pages: %v", err)
	}
}

// failedAt says which of an operation's three commits a full disk has undone.
func (h *house) failedAt(got answer, key string) string {
	h.t.Helper()
	rows, err := readRows(h.t.Context(), h.path)
	h.ok(err)
	op, reserved := rows.operations[key]
	switch {
	case got.status == http.StatusServiceUnavailable && got.Code == client.ServiceUnavailable && !rows.nonces[got.nonce]:
		return "N"
	case got.status == http.StatusServiceUnavailable && got.Code == client.ServiceUnavailable && !reserved:
		return "R"
	case got.status == http.StatusInternalServerError && got.Code == client.InternalError && op.state == "processing":
		return "S"
	}
	h.t.Fatalf("on a full disk %s was answered %s; in the store it is %+v, %v", key, got.text, op, reserved)
	return ""
}

// The disk is full from the first page on that an operation needs, then from the
// second, and so on until the operation has all it needs. Wherever that catches it,
// it is never answered as done unless it is, its key stays usable, and with more
// space, or a restart, it ends as if nothing had been.
func TestDiskFull_AtAnyPageLosesNothing(t *testing.T) {
	least, most := size(150, 40), 600
	s := newSite(t)
	path := newFolder(t)
	var more atomic.Int64 // pages, for whatever comes until it is set again
	tap := &valve{t: t, each: func() int { return int(more.Swap(-1)) }}
	more.Store(10_000)
	h := s.open(t, path, sqlite.Options{Before: tap.turn})
	seen := &witness{}
	caught, restarts, operations := map[string]int{}, 0, 0
	// A page of nonces takes some fifty, so that it is seldom a nonce's turn to find
	// the disk full: there are more operations where that has not come yet.
	for i := 0; i < least || i%2 == 1 || caught["N"] == 0 && i < most; i++ {
		operations++
		key := fmt.Sprintf("disk-full-%d", i)
		body := map[string]string{
			"full_name": "Asha Rao", "mobile": fmt.Sprintf("98%08d", i), "plan_id": []string{"BASIC-1", "COMBO-1"}[i%2],
			"address": strings.Repeat("12 Long Lane, ", 10), // so that pages are soon used up
		}
		for pages := int64(0); ; pages++ {
			if pages > 40 {
				t.Fatalf("operation %d does not end, with %d pages more", i, pages)
			}
			more.Store(pages)
			got := h.send("POST", "activate", key, body)
			seen.heard(key, got)
			if got.Code == client.OK {
				break
			}
			if got.Code == client.RequestInProgress || got.Code == client.PendingReview {
				// Settling failed. Its lease ends, and review asks the provider.
				s.ahead.Add(int64(time.Minute))
				if _, err := h.reviewer.RunOnce(t.Context()); err != nil && !strings.Contains(err.Error(), "full") {
					t.Errorf("review on a full disk: %v", err)
				}
				continue
			}
			caught[h.failedAt(got, key)]++
			if i%3 == 0 {
				// A restart is no worse than waiting. It needs some space itself.
				h.close()
				more.Store(10_000)
				h = s.open(t, path, sqlite.Options{Before: tap.turn})
				restarts++
			}
		}
	}
	more.Store(10_000)
	h.close()
	for _, wrong := range s.inspect(t.Context(), path, seen.sofar(), s.provider.Effects(), s.now()) {
		t.Error(wrong)
	}
	// An add-on that could not be asked for was followed up, at the latest now.
	s.recover(t, path)
	if effects := len(s.provider.Effects()); effects != operations+operations/2 {
		t.Errorf("the provider carried out %d orders; want %d", effects, operations+operations/2)
	}
	t.Logf("operations were caught at %v; %d restarts", caught, restarts)
	for _, step := range []string{"N", "R", "S"} {
		if caught[step] == 0 && !raced {
			t.Errorf("no operation was caught at %s, so that was not tried: %v", step, caught)
		}
	}
}

// The same with many at once: a batch that does not fit takes all its facts along,
// and their clients come again until there is room.
func TestDiskFull_UnderLoadLosesNothing(t *testing.T) {
	s := newSite(t)
	path := newFolder(t)
	batches := 0
	tap := &valve{t: t, each: func() int {
		// Some batches find no room, and then for a few there is some.
		if batches++; batches%9 == 0 {
			return 6
		} else if batches%9 == 3 {
			return 0
		}
		return -1
	}}
	h := s.open(t, path, sqlite.Options{Before: tap.turn})
	stop := h.review()
	calm := s.hurry()
	seen := &witness{}
	load{house: h, witness: seen, clients: 4, customers: size(6, 1), seed: 1}.run()
	calm()
	stop()
	h.close()
	for _, wrong := range s.inspect(t.Context(), path, seen.sofar(), s.provider.Effects(), s.now()) {
		t.Error(wrong)
	}
	refused := 0
	for _, f := range seen.sofar() {
		if f.key == "" && f.topUp == "" {
			refused++
		}
	}
	t.Logf("%d answers, %d of them no result", len(seen.sofar()), refused)
	if refused == 0 && !raced {
		t.Error("nobody was refused, so the disk was never full")
	}
	s.recover(t, path)
}

// hurry makes a minute of the house's a second of ours, so that nobody has to wait
// for a lease to end.
func (s *site) hurry() (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				s.ahead.Add(int64(1200 * time.Millisecond))
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}
