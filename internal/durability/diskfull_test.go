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

// pageLimiter limits the pages of a store's file, like a disk that fills up.
type pageLimiter struct {
	t testing.TB
	// each returns, before every batch, how many more pages there may be than now; a
	// negative number leaves the limit unchanged.
	each func() int
}

// apply is called by the writer before every batch.
func (v *pageLimiter) apply(pragma func(text string) (int64, error)) {
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

// failedAt returns which of an operation's three commits failed on a full disk:
// admission, reservation or settlement.
func (h *harness) failedAt(got answer, key string) string {
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

// The disk is full from the first page on that an operation needs, then from the second,
// and so on until the operation has all it needs. Wherever it fails, it is not answered
// as done unless it is, its key stays usable, and with more space, or a restart, it ends
// normally.
func TestDiskFull_AtAnyPageLosesNothing(t *testing.T) {
	minimum, limit := size(150, 40), 600
	s := newSite(t)
	path := newFolder(t)
	var more atomic.Int64 // additional pages for the next batch
	limiter := &pageLimiter{t: t, each: func() int { return int(more.Swap(-1)) }}
	more.Store(10_000)
	h := s.open(t, path, sqlite.Options{Before: limiter.apply})
	seen := &recorder{}
	caught, restarts, operations := map[string]int{}, 0, 0
	// A page holds some fifty nonces, so an admission seldom needs a new page: there are
	// more operations until one has failed.
	for i := 0; i < minimum || i%2 == 1 || caught["N"] == 0 && i < limit; i++ {
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
			seen.record(key, got)
			if got.Code == client.OK {
				break
			}
			if got.Code == client.RequestInProgress || got.Code == client.PendingReview {
				// The settlement failed. Its lease expires, and review queries the provider.
				s.ahead.Add(int64(time.Minute))
				if _, err := h.reviewer.RunOnce(t.Context()); err != nil && !strings.Contains(err.Error(), "full") {
					t.Errorf("review on a full disk: %v", err)
				}
				continue
			}
			caught[h.failedAt(got, key)]++
			if i%3 == 0 {
				// A restart also works. It needs some space itself.
				h.close()
				more.Store(10_000)
				h = s.open(t, path, sqlite.Options{Before: limiter.apply})
				restarts++
			}
		}
	}
	more.Store(10_000)
	h.close()
	for _, wrong := range s.inspect(t.Context(), path, seen.all(), s.provider.Effects(), s.now()) {
		t.Error(wrong)
	}
	// An add-on that could not be ordered is followed up, at the latest now.
	s.recover(t, path)
	if effects := len(s.provider.Effects()); effects != operations+operations/2 {
		t.Errorf("the provider carried out %d orders; want %d", effects, operations+operations/2)
	}
	t.Logf("operations failed at %v; %d restarts", caught, restarts)
	for _, step := range []string{"N", "R", "S"} {
		if caught[step] == 0 && !raced {
			t.Errorf("no operation failed at %s, so that was not tested: %v", step, caught)
		}
	}
}

// The same with concurrent clients: all writes of a batch that does not fit fail, and
// their clients retry until there is space.
func TestDiskFull_UnderLoadLosesNothing(t *testing.T) {
	s := newSite(t)
	path := newFolder(t)
	batches := 0
	limiter := &pageLimiter{t: t, each: func() int {
		// Some batches find no space, and then for a few there is some.
		if batches++; batches%9 == 0 {
			return 6
		} else if batches%9 == 3 {
			return 0
		}
		return -1
	}}
	h := s.open(t, path, sqlite.Options{Before: limiter.apply})
	stop := h.review()
	stopSpeedUp := s.speedUpClock()
	seen := &recorder{}
	load{harness: h, recorder: seen, clients: 4, customers: size(6, 1), seed: 1}.run()
	stopSpeedUp()
	stop()
	h.close()
	for _, wrong := range s.inspect(t.Context(), path, seen.all(), s.provider.Effects(), s.now()) {
		t.Error(wrong)
	}
	refused := 0
	for _, f := range seen.all() {
		if f.key == "" && f.topUp == "" {
			refused++
		}
	}
	t.Logf("%d answers, %d of them without a result", len(seen.all()), refused)
	if refused == 0 && !raced {
		t.Error("no request was refused, so the disk was never full")
	}
	s.recover(t, path)
}

// speedUpClock makes the service's clock run 60 times faster, so that leases expire
// soon.
func (s *site) speedUpClock() (stop func()) {
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
