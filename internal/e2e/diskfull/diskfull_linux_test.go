//go:build long

package diskfull

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// fillsWanted is how often the disk is filled; `make diskfull FILLS=50` sets it.
func fillsWanted(t testing.TB) int {
	text := os.Getenv("COAX_TEST_FILLS")
	if text == "" {
		return 3
	}
	fills, err := strconv.Atoi(text)
	if err != nil || fills < 1 {
		t.Fatalf("COAX_TEST_FILLS=%q is not a number of fills", text)
	}
	return fills
}

// A real disk of some megabytes fills up repeatedly under a working demo. The test mounts
// it in a user namespace, which not every machine allows; internal/durability simulates a
// full disk everywhere.
func TestDiskFull_LosesNothing(t *testing.T) {
	e2e.OnlySQLite(t, "its disk")
	e2e.OnSmallDisk(t, smallDisk, "fill ", func(folder string) { fillTheDisk(t, folder) })
}

// smallDisk is the size of the demo's disk.
const smallDisk = 48 << 20

// fillTheDisk runs the test inside the namespace.
func fillTheDisk(t *testing.T, folder string) {
	provider, err := demo.StartSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Stop()
	args := []string{"demo", "--dir", filepath.Join(folder, "demo"), "--addr", "127.0.0.1:0", "--json"}
	for _, set := range []string{"provider.url=" + provider.URL, "provider.timeout=3s", "review.first_check=100ms", "review.max_interval=300ms", "review.refund_after=500ms"} {
		args = append(args, "--set", set)
	}
	p := e2e.Start(t, args...)
	p.Install(t).JSON("lco", "set", "--lco", "1", "--rate-limit", "1000000")
	p.Install(t).JSON("wallet", "topup", "--lco", "1", "--amount", "100000000", "--reference", "for a long day")

	l := &diskLoad{t: t, over: make(chan struct{}), answered: map[string]string{}, refused: map[fault.Code]int{}}
	l.serve(p)
	l.run(4)
	draw := rand.New(rand.NewPCG(1, 2))
	ended := 0
	for fill := range fillsWanted(t) {
		l.await("some operations are done", p, func() bool { return l.since(&l.done) >= 10 })
		ballast := filepath.Join(folder, "ballast")
		spare := int64(fill%2) * draw.Int64N(2<<20)
		fillUp(t, ballast, spare)
		logged := strings.Count(p.Err.String(), "database or disk is full")
		l.await("operations are refused, all of them if no byte is left", p, func() bool {
			return l.since(&l.unserved) >= 5 && (spare > 0 || strings.Count(p.Err.String(), "database or disk is full") > logged+5)
		})
		l.await("the slow client has an answer", p, func() bool { return l.since(&l.slow) > 0 })
		l.await("the node is not ready", p, func() bool { return !l.ready(p) })
		if fill%3 == 2 {
			p.Kill() // a crash during the full disk
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if alive := l.await("the node recovers by itself", p, func() bool { return l.since(&l.done) >= 5 && l.ready(p) }); !alive {
			// Killed, or it exited because of the disk.
			if fill%3 != 2 {
				ended++
			}
			p = e2e.Start(t, args...)
			l.serve(p)
			l.await("the node serves after a restart", p, func() bool { return l.since(&l.done) >= 5 })
		}
		t.Logf("fill %d, %d bytes left: %d operations done, refused so far %v", fill+1, spare, len(l.results()), l.counts())
	}
	close(l.over)
	l.group.Wait()
	if fills := fillsWanted(t); fills >= 20 && l.counts()[fault.InternalError] == 0 {
		t.Errorf("in %d fills no settlement hit the full disk: %v", fills, l.counts())
	}
	if ended > 0 {
		t.Errorf("a full disk ended the process %d times:\n%s", ended, p.Err)
	}
	l.checkBooks(p, provider)
}

// fillUp writes a file until the disk is full, and then frees some bytes.
func fillUp(t testing.TB, path string, spare int64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{1 << 20, 4096} {
		for block := make([]byte, size); err == nil; {
			_, err = file.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill the disk: %v", err)
		}
		err = nil
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(max(0, info.Size()-spare)); err != nil {
		t.Fatal(err)
	}
}

// diskLoad is clients of a demo that may be restarted. Each repeats a key until it has a
// result, and the results are recorded.
type diskLoad struct {
	t      testing.TB
	target atomic.Pointer[e2e.Env]
	over   chan struct{}
	group  sync.WaitGroup

	mu       sync.Mutex
	answered map[string]string // transaction ids by key
	refused  map[fault.Code]int
	// Since the last await: results, refusals, answers to the slow client.
	done, unserved, slow int
}

// slowClient is the key prefix of the client whose orders are slow at the provider.
const slowClient = "small-disk-0-"

// serve directs the clients to a process.
func (l *diskLoad) serve(p *e2e.Process) {
	l.target.Store(&e2e.Env{TB: l.t, Demo: p.Demo, HTTP: e2e.NewHTTPClient(l.t, p.Demo.CACert)})
}

func (l *diskLoad) run(clients int) {
	for n := range clients {
		l.group.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("small-disk-%d-%d", n, i)
				o := e2e.Order{"full_name": "Asha", "mobile": fmt.Sprintf("98%02d%06d", n, i), "plan_id": "BASIC-1"}
				if strings.HasPrefix(key, slowClient) {
					// The provider is slow with this one, so that there is always an
					// operation whose settlement is still to come.
					o["mobile"] = fmt.Sprintf("900007%04d", i)
				}
				for !l.ask(key, o) {
					select {
					case <-l.over:
						return
					case <-time.After(20 * time.Millisecond): // a client's pause
					}
				}
				select {
				case <-l.over:
					return
				default:
				}
			}
		})
	}
}

// ask sends a request once; true if it has a result.
func (l *diskLoad) ask(key string, o e2e.Order) bool {
	w := l.target.Load()
	got, answered := w.TryOperate(w.DemoCaller(), "activate", key, o)
	if !answered {
		return false // killed, or not started yet
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.HasPrefix(key, slowClient) {
		l.slow++
	}
	switch got.Code {
	case fault.OK:
		l.answered[key] = got.Text("transaction_id")
		l.done++
		return true
	case fault.ServiceUnavailable, fault.InternalError, fault.RequestInProgress, fault.PendingReview:
		l.refused[got.Code]++
		l.unserved++
		return false
	}
	l.t.Errorf("%s: %s", key, got.Raw)
	return true
}

// await polls until something holds; false if the process ends before.
func (l *diskLoad) await(what string, p *e2e.Process, condition func() bool) bool {
	l.t.Helper()
	l.mu.Lock()
	l.done, l.unserved, l.slow = 0, 0, 0
	l.mu.Unlock()
	for timeout := time.After(e2e.Timeout); !condition(); {
		select {
		case <-p.Ended:
			return false
		case <-timeout:
			l.t.Fatalf("timed out waiting until %s: %v\n%s", what, l.counts(), p.Err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// since reads one of the counts that await resets.
func (l *diskLoad) since(count *int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *count
}

func (l *diskLoad) counts() map[fault.Code]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.refused)
}

func (l *diskLoad) results() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.answered)
}

func (l *diskLoad) ready(p *e2e.Process) bool {
	response, err := http.Get(p.Demo.InternalURL + "/readyz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// checkBooks compares the clients' results, the store and the provider's effects.
func (l *diskLoad) checkBooks(p *e2e.Process, provider *demo.RunningSimulator) {
	t := l.t
	db := e2e.OpenReadOnly(t, e2e.LoadStoreConfig(t, p.Demo.Config))
	l.await("every operation is settled", p, func() bool {
		return e2e.QueryRows(t, db, `SELECT count(*) FROM operations WHERE status IN ('processing', 'needs_review')`)[0] == "0"
	})
	effects := provider.Effects()
	succeeded := map[string]bool{}
	for _, id := range e2e.QueryRows(t, db, `SELECT id FROM operations WHERE status = 'success'`) {
		if succeeded[id] = true; effects[id] != 1 {
			t.Errorf("operation %s succeeded, and the provider carried it out %d times", id, effects[id])
		}
	}
	for reference := range effects {
		if !succeeded[reference] {
			t.Errorf("the provider carried out %s, which did not succeed", reference)
		}
	}
	for key, id := range l.results() {
		if !succeeded[id] {
			t.Errorf("%s was answered as done (%s), but is not", key, id)
		}
	}
	t.Logf("%d operations were answered as done, %d are", len(l.results()), len(succeeded))
	e2e.CheckMentions(t, "the audit", e2e.RequireOK(t, e2e.Run(t, "audit", "--config", p.Demo.Config)).Out, "Everything agrees.")
	if status := p.Terminate(); status != e2e.ExitDone {
		t.Errorf("the demo ended with %d\n%s", status, p.Err)
	}
}
