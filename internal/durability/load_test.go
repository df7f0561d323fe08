//go:build long

package durability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// acknowledgement is something that an answer has confirmed, and that must not be lost.
type acknowledgement struct {
	// nonce was used up by a request that was answered.
	nonce string
	// key, code and shown are an operation and what its client was told of it.
	key   string
	code  client.Code
	shown client.Operation
	// topUp is the reference of a confirmed top-up.
	topUp string
	paise int64
}

// recorder records what the service has acknowledged, in order.
type recorder struct {
	mu           sync.Mutex
	acknowledged []acknowledgement
}

func (w *recorder) note(f acknowledgement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acknowledged = append(w.acknowledged, f)
}

// all returns what has been acknowledged so far.
func (w *recorder) all() []acknowledgement {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acknowledged[:len(w.acknowledged):len(w.acknowledged)]
}

// record adds what an answer acknowledges.
func (w *recorder) record(key string, got answer) {
	f := acknowledgement{nonce: got.nonce}
	switch got.Code {
	case client.ServiceUnavailable:
		f.nonce = "" // it may not have been admitted
	case client.OK, client.PendingReview, client.ProviderError:
		if key != "" {
			f.key, f.code, f.shown = key, got.Code, got.Data
		}
	}
	w.note(f)
}

// load runs concurrent clients, and staff who top up.
type load struct {
	*harness
	recorder *recorder
	clients  int
	// customers is the number of customers per client, with some operations each.
	customers int
	seed      uint64
}

// run returns when every client has all its results.
func (l load) run() {
	var working sync.WaitGroup
	for n := range l.clients {
		working.Go(func() {
			draw := rand.New(rand.NewPCG(l.seed, uint64(n)))
			for i := range l.customers {
				l.serveCustomer(draw, n*l.customers+i)
			}
		})
	}
	working.Go(func() {
		for i := range l.customers {
			reference, amount := fmt.Sprintf("payment %d of %d", i, l.seed), int64(100_00+i)
			l.retry("top up", func() bool {
				_, _, err := l.service.TopUp(context.Background(), admin.TopUp{OperatorID: l.operatorID, Amount: money.Paise(amount), Reference: reference})
				return err == nil
			})
			l.recorder.note(acknowledgement{topUp: reference, paise: amount})
		}
	})
	working.Wait()
}

// serveCustomer activates a customer and, if that succeeds, renews. The mobile number
// determines the simulator's outcome.
func (l load) serveCustomer(draw *rand.Rand, n int) {
	mobile := fmt.Sprintf("90000%s%04d", pick(draw, "0", "0", "0", "1", "4", "9"), n)
	name := fmt.Sprintf("order-%d-%d", l.seed, n)
	got := l.sendUntilSettled("activate", name+"-a", map[string]string{
		"full_name": "Asha Rao", "mobile": mobile, "plan_id": pick(draw, "BASIC-1", "COMBO-1"),
	})
	if got.Code != client.OK {
		return
	}
	who := got.Data.Customer.SubscriberID
	l.sendUntilSettled("renew", name+"-r", map[string]string{"subscriber_id": who, "plan_id": "FAMILY-3"})
	l.sendUntilSettled("advance-renew", name+"-v", map[string]string{"subscriber_id": who, "plan_id": "BASIC-1"})
	if draw.IntN(3) == 0 {
		l.recorder.record("", l.send("GET", "balance", "", nil))
	}
}

// sendUntilSettled repeats a request with one key until the operation is settled.
func (l load) sendUntilSettled(endpoint, key string, body map[string]string) (got answer) {
	l.retry(endpoint+" "+key, func() bool {
		got = l.send("POST", endpoint, key, body)
		l.recorder.record(key, got)
		switch got.Code {
		case client.PendingReview, client.RequestInProgress, client.ServiceUnavailable, client.InternalError:
			return false
		case client.OK, client.ProviderError:
		default:
			l.t.Errorf("%s %s: %d %s", endpoint, key, got.status, got.text)
		}
		return true
	})
	return got
}

// retry calls a function, with pauses, until it returns true.
func (l load) retry(what string, ask func() bool) {
	for range 1000 {
		if ask() {
			return
		}
		<-time.After(30 * time.Millisecond)
	}
	l.t.Errorf("%s: no result comes", what)
}

func pick(draw *rand.Rand, from ...string) string { return from[draw.IntN(len(from))] }

func TestLoad_WithoutFaultsEndsWithResults(t *testing.T) {
	h := newSite(t).open(t, newFolder(t), sqlite.Options{})
	stop := h.review()
	seen := &recorder{}
	load{harness: h, recorder: seen, clients: 4, customers: 5, seed: 1}.run()
	stop()
	codes := map[client.Code]int{}
	for _, f := range seen.all() {
		codes[f.code]++
	}
	t.Log(codes)
	for _, code := range []client.Code{client.OK, client.PendingReview, client.ProviderError} {
		if codes[code] == 0 {
			t.Errorf("no answer was %s, so the load tests too little: %v", code, codes)
		}
	}
}
