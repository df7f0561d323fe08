package load

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

func TestSource_PairsRestBetweenUses(t *testing.T) {
	r := newRenewals(nil, []string{"1", "2", "3"}, []string{"A", "B"}, "k")
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	last := map[string]time.Time{}
	keys := map[string]bool{}
	handed := 0
	for range 1000 {
		request, found := r.Next(now)
		if !found {
			now = now.Add(10 * time.Second)
			continue
		}
		handed++
		pair, key := string(request.Body), request.Header.Get("Idempotency-Key")
		if before, again := last[pair]; again && now.Sub(before) < 2*time.Minute {
			t.Fatalf("%s again after %s", pair, now.Sub(before))
		}
		if keys[key] {
			t.Fatalf("key %s again", key)
		}
		last[pair], keys[key] = now, true
		now = now.Add(time.Second)
		r.Answered(now, Answer{Status: 200, Code: "OK"})
	}
	if len(last) != 6 || handed < 12 {
		t.Errorf("%d pairs in %d renewals; want all 6, and again after their rest", len(last), handed)
	}
}

func TestSource_SkipsOpenOperations(t *testing.T) {
	for answer, left := range map[plainAnswer]bool{
		{200, "OK"}: true, {502, "PROVIDER_ERROR"}: true, {409, "DUPLICATE_REQUEST"}: true,
		{202, "PENDING_REVIEW"}: false, {0, "timed out"}: false, {500, "INTERNAL_ERROR"}: false, {503, "SERVICE_UNAVAILABLE"}: false,
	} {
		r := newRenewals(nil, []string{"1", "2"}, []string{"A", "B"}, "k")
		now := time.Now()
		first, _ := r.Next(now)
		r.Answered(now, Answer{Status: answer.status, Code: answer.code})
		again := false
		for range 3 {
			request, found := r.Next(now)
			if !found {
				break
			}
			again = again || strings.Contains(string(request.Body), `"subscriber_id":"1"`)
			r.Answered(now, Answer{Status: 200, Code: "OK"})
		}
		if !strings.Contains(string(first.Body), `"subscriber_id":"1"`) || again != left {
			t.Errorf("after %d %s subscriber 1 is renewed again: %t; want %t", answer.status, answer.code, again, left)
		}
	}
	r := newRenewals(nil, []string{"1"}, []string{"A", "B"}, "k")
	r.Next(time.Now())
	r.Answered(time.Now(), Answer{Status: 202})
	if _, found := r.Next(time.Now()); found {
		t.Error("the only subscriber is in review, and there is something to send")
	}
}

// plainAnswer is an answer that can be a map's key.
type plainAnswer struct {
	status int
	code   string
}

func TestSource_WorkersShareNoSubscriber(t *testing.T) {
	for _, size := range []struct{ workers, subscribers int }{{1, 1}, {2, 2}, {4, 4}, {5, 5}, {7, 100}, {64, 64}, {64, 2064}} {
		operators := min(maxOperators, size.workers, size.subscribers)
		lists := make([][]string, operators)
		for i := range size.subscribers {
			lists[i%operators] = append(lists[i%operators], strconv.Itoa(i))
		}
		owner := map[string]int{}
		for worker := range size.workers {
			own := everyNth(lists[worker%operators], worker/operators, workersOf(size.workers, operators, worker%operators))
			if len(own) == 0 {
				t.Errorf("%+v: worker %d has nobody", size, worker)
			}
			for _, subscriber := range own {
				if other, taken := owner[subscriber]; taken {
					t.Errorf("%+v: subscriber %s belongs to workers %d and %d", size, subscriber, other, worker)
				}
				owner[subscriber] = worker
			}
		}
		if len(owner) != size.subscribers {
			t.Errorf("%+v: %d subscribers are somebody's", size, len(owner))
		}
	}
}

func TestReads_Alternate(t *testing.T) {
	r := &reads{kinds: kindsOf(Mix, true), subscribers: []string{"1", "2"}, transactions: []string{"CX1", "CX2"}}
	var paths []string
	for range 8 {
		request, _ := r.Next(time.Now())
		paths = append(paths, strings.TrimPrefix(request.Path, "/api/v1/"))
	}
	want := "balance plans subscription?subscriber_id=1 transaction?transaction_id=CX1 balance plans subscription?subscriber_id=2 transaction?transaction_id=CX2"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("read %s; want %s", got, want)
	}
	if got := strings.Join(kindsOf(Mix, false), " "); strings.Contains(got, Transaction) {
		t.Errorf("without transactions a mix is %s", got)
	}
}

func TestPacer_LeavesATenthOfEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 120
		pacer := NewPacer(limit, time.Now)
		end := time.Now().Add(10 * time.Minute)
		used := map[int64]int{} // by minute, as a server counts
		for pacer.wait(t.Context(), end) {
			minute := subscription.RateWindowAt(time.Now())
			if used[minute] == 0 {
				used[minute] = 40 // somebody else was there first
			}
			used[minute]++
			pacer.saw(http.Header{
				"X-Ratelimit-Remaining": {fmt.Sprint(limit - used[minute])},
				"X-Ratelimit-Reset":     {fmt.Sprint((minute + 1) * 60)},
			})
		}
		if len(used) < 10 {
			t.Errorf("it sent in %d minutes; want all ten", len(used))
		}
		for minute, n := range used {
			if n > limit*9/10 {
				t.Errorf("in minute %d there were %d; want at most nine tenths of %d", minute, n, limit)
			}
		}
	})
}
