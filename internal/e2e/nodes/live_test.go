package nodes

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/signing"
)

const (
	liveRounds = 10 // of 20 changes each
	// liveOffered is how many requests a second are sent. A change is made while at least
	// livePace are answered; on a busy machine the test waits for that pace, livePaceWait
	// in all. The checks hold at any pace.
	liveOffered  = 800
	livePace     = 500
	livePaceWait = 20 * time.Second
	// liveEach is how many requests every node must answer under a new value
	// before the next change.
	liveEach = 5
)

// liveSubject is the caller of the load for some time, and the values its requests got.
type liveSubject struct {
	as     e2e.Caller
	values []liveValue
	seen   []liveSeen
}

// liveValue is the result that requests get after a change, which was made between called
// and returned by the test's clock.
type liveValue struct {
	by               string
	want             string
	called, returned time.Time
}

// liveSeen is one request: when it began (before its first byte) and ended, on which node,
// and its result.
type liveSeen struct {
	began, ended time.Time
	node         int
	met          string
}

// liveLoad sends signed requests over all nodes until it is stopped.
type liveLoad struct {
	c       *cluster
	current atomic.Pointer[liveSubject]
	mu      sync.Mutex
	ended   []time.Time // of all requests, in order
	atPace  int         // changes made at full pace
	waited  time.Duration
	stop    func()
}

func (c *cluster) live(first *liveSubject) *liveLoad {
	l := &liveLoad{c: c}
	l.current.Store(first)
	done, ticks := make(chan struct{}), make(chan int, 64)
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(time.Second / liveOffered)
		defer ticker.Stop()
		defer close(ticks)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-ticker.C:
				select {
				case ticks <- i:
				default:
				}
			}
		}
	})
	for range 24 {
		group.Go(func() {
			for i := range ticks {
				l.one(i % len(c.nodes))
			}
		})
	}
	l.stop = sync.OnceFunc(func() { close(done); group.Wait() })
	c.TB.Cleanup(l.stop)
	return l
}

// one sends one request. It is built without the client, to leave the processor to the
// nodes.
func (l *liveLoad) one(node int) {
	subject := l.current.Load()
	stamp, nonce := strconv.FormatInt(time.Now().Unix(), 10), client.NewNonce()
	request, err := http.NewRequest(http.MethodGet, l.c.nodes[node].base+e2e.Balance, nil)
	if err != nil {
		panic(err)
	}
	request.Header = http.Header{
		"X-Api-Key": {subject.as.Key}, "X-Timestamp": {stamp}, "X-Nonce": {nonce},
		"X-Signature": {signing.Request{Method: http.MethodGet, Path: e2e.Balance, Timestamp: stamp, Nonce: nonce}.Sign(subject.as.Secret)},
	}
	began := time.Now()
	response, err := l.c.HTTP.Do(request)
	if err != nil {
		l.c.TB.Errorf("node %d: %v", node, err)
		return
	}
	defer response.Body.Close()
	var got struct{ Code fault.Code }
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		l.c.TB.Errorf("node %d: %v", node, err)
		return
	}
	met := string(got.Code)
	if got.Code == fault.OK {
		met += " " + response.Header.Get("X-RateLimit-Limit")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := time.Now()
	l.ended = append(l.ended, ended)
	subject.seen = append(subject.seen, liveSeen{began, ended, node, met})
}

// pace is how many requests were answered in the last second.
func (l *liveLoad) pace() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := time.Now().Add(-time.Second)
	first, _ := slices.BinarySearchFunc(l.ended, since, time.Time.Compare)
	return len(l.ended) - first
}

func (l *liveLoad) awaitPace() {
	for began, waited := time.Now(), l.waited; l.waited < livePaceWait; l.waited = waited + time.Since(began) {
		if l.pace() >= livePace {
			break
		}
		select {
		case <-l.c.TB.Context().Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	if l.pace() >= livePace {
		l.atPace++
	}
}

// change makes a change under load and waits until every node has answered some requests
// that began after it.
func (l *liveLoad) change(by, want string, make func() error) {
	l.c.TB.Helper()
	l.awaitPace()
	called := time.Now()
	if err := make(); err != nil {
		l.c.TB.Fatalf("%s: %v", by, err)
	}
	returned := time.Now()
	subject := l.current.Load()
	subject.values = append(subject.values, liveValue{by, want, called, returned})
	l.c.WaitUntil("every node has answered after "+by, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		answered := map[int]int{}
		for i := len(subject.seen) - 1; i >= 0 && subject.seen[i].ended.After(returned); i-- {
			if subject.seen[i].began.After(returned) {
				answered[subject.seen[i].node]++
			}
		}
		for node := range l.c.nodes {
			if answered[node] < liveEach {
				return false
			}
		}
		return true
	})
}

// check checks that every request got a value that was, or may have been, in force at some
// time while it ran.
func (s *liveSubject) check(t *testing.T) {
	t.Helper()
	met := make([]int, len(s.values))
	for _, request := range s.seen {
		valid := false
		for i, value := range s.values {
			begun := !request.ended.Before(value.called)
			over := i+1 < len(s.values) && request.began.After(s.values[i+1].returned)
			if begun && !over && request.met == value.want {
				valid = true
				met[i]++
			}
		}
		if !valid {
			i := 0
			for i+1 < len(s.values) && !s.values[i+1].returned.After(request.began) {
				i++
			}
			t.Errorf("%s after %q had returned, a request began on node %d and got %s; want %s",
				request.began.Sub(s.values[i].returned), s.values[i].by, request.node, request.met, s.values[i].want)
		}
	}
	for i, value := range s.values[1:] {
		if met[i+1] < liveEach*3 {
			t.Errorf("%d requests got the value of %q; want at least %d", met[i+1], value.by, liveEach*3)
		}
	}
}

// For every kind of change to an operator's access: no request that began after it, on any
// node, is served under the old value.
func TestAdminChange_AppliesOnEveryNodeAtOnce(t *testing.T) {
	e2e.OnlyPostgres(t)
	c := newEmptyCluster(t)
	c.setUp()
	for range 3 {
		// The failpoint build has no race detector, which would halve the load.
		c.failpointNode("")
	}
	for _, node := range c.nodes {
		node.await()
	}
	var subjects []*liveSubject
	begin := func(as e2e.Caller) *liveSubject {
		s := &liveSubject{as: as, values: []liveValue{{by: "the start", want: "OK 1000000"}}}
		subjects = append(subjects, s)
		return s
	}
	l := c.live(begin(c.LiftRateLimit(c.NewOperator("warm-up", access.AllPermissions))))
	began := time.Now()
	for range liveRounds {
		me := c.LiftRateLimit(c.NewOperator("one", access.AllPermissions))
		second := c.NewKey(me.OperatorID, access.AllPermissions)
		l.current.Store(begin(me))
		for _, step := range liveSteps(c.Admin, me, second) {
			if step.as.Key != l.current.Load().as.Key {
				l.current.Store(begin(step.as))
			}
			l.change(step.by, step.want, step.make)
		}
	}
	l.stop()
	took := time.Since(began)
	changes := 0
	for _, subject := range subjects {
		changes += len(subject.values) - 1
		subject.check(t)
	}
	t.Logf("%d changes, %d of them at %d requests a second or more; %d requests, %.0f a second",
		changes, l.atPace, livePace, len(l.ended), float64(len(l.ended))/took.Seconds())
	if changes != 200 {
		t.Errorf("%d changes; want 200", changes)
	}
	c.checkClean()
}

// liveStep is one change and the caller's result after it.
type liveStep struct {
	as       e2e.Caller
	by, want string
	make     func() error
}

// liveSteps returns every kind of change to one operator, first with one of its keys and,
// after that is revoked, with the other.
func liveSteps(service *admin.Service, me, second e2e.Caller) []liveStep {
	const all, fewer = "OK 1000000", "OK 900000"
	ctx := context.Background()
	operator := func(change admin.OperatorChange) func() error {
		return func() error { _, err := service.ChangeOperator(ctx, me.OperatorID, change); return err }
	}
	api := func(to subscription.APIAccess) func() error { return operator(admin.OperatorChange{API: &to}) }
	status := func(to subscription.OperatorStatus) func() error { return operator(admin.OperatorChange{Status: &to}) }
	limit := func(to int) func() error { return operator(admin.OperatorChange{RateLimit: &to}) }
	permit := func(key e2e.Caller, may access.Permission) func() error {
		return func() error { return service.PermitKey(ctx, key.ID, access.PermissionsOf(may)) }
	}
	return []liveStep{
		{me, "block", "API_ACCESS_BLOCKED", api(subscription.APIBlocked)},
		{me, "unblock", all, api(subscription.APIEnabled)},
		{me, "disable", "API_DISABLED", api(subscription.APIDisabled)},
		{me, "enable", all, api(subscription.APIEnabled)},
		{me, "deactivate", "LCO_INACTIVE", status(subscription.OperatorInactive)},
		{me, "activate", all, status(subscription.OperatorActive)},
		{me, "whitelist remove", "IP_NOT_WHITELISTED", func() error { _, err := service.DisallowAddress(ctx, me.OperatorID, "127.0.0.1"); return err }},
		{me, "whitelist add", all, func() error { _, err := service.AllowAddress(ctx, me.OperatorID, "127.0.0.1"); return err }},
		{me, "forbid", "PERMISSION_DENIED", permit(me, access.GetPlans)},
		{me, "permit", all, permit(me, access.CheckBalance)},
		{me, "lower the limit", fewer, limit(900_000)},
		{me, "raise the limit", all, limit(1_000_000)},
		{me, "rotate without grace", "CREDENTIAL_EXPIRED", func() error { _, err := service.RotateKey(ctx, me.ID, 0); return err }},
		{me, "revoke", "CREDENTIAL_REVOKED", func() error { return service.RevokeKey(ctx, me.ID) }},
		{second, "lower the limit", fewer, limit(900_000)},
		{second, "forbid", "PERMISSION_DENIED", permit(second, access.GetPlans)},
		{second, "permit", fewer, permit(second, access.CheckBalance)},
		{second, "block", "API_ACCESS_BLOCKED", api(subscription.APIBlocked)},
		{second, "unblock", fewer, api(subscription.APIEnabled)},
		{second, "delete", "LCO_NOT_FOUND", func() error { return service.DeleteOperator(ctx, me.OperatorID) }},
	}
}
