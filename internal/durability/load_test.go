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

// fact is something the service has told somebody, and may never take back.
type fact struct {
	// nonce was used up by a request that was answered.
	nonce string
	// key and told are an operation and what its client was told of it.
	key  string
	code client.Code
	told client.Operation
	// topUp is money that staff were told has come in.
	topUp string
	paise int64
}

// witness keeps what the service has told, in order.
type witness struct {
	mu    sync.Mutex
	facts []fact
}

func (w *witness) note(f fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts = append(w.facts, f)
}

// sofar is what has been told by now.
func (w *witness) sofar() []fact {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.facts[:len(w.facts):len(w.facts)]
}

// heard writes down what an answer has told.
func (w *witness) heard(key string, got answer) {
	f := fact{nonce: got.nonce}
	switch got.Code {
	case client.ServiceUnavailable:
		f.nonce = "" // the service may not have got as far
	case client.OK, client.PendingReview, client.ProviderError:
		if key != "" {
			f.key, f.code, f.told = key, got.Code, got.Data
		}
	}
	w.note(f)
}

// load is clients at work, and a member of staff.
type load struct {
	*house
	witness *witness
	clients int
	// customers is how many each client brings, with some operations each.
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
			l.persist("top up", func() bool {
				_, _, err := l.service.TopUp(context.Background(), admin.TopUp{OperatorID: l.operatorID, Amount: money.Paise(amount), Reference: reference})
				return err == nil
			})
			l.witness.note(fact{topUp: reference, paise: amount})
		}
	})
	working.Wait()
}

// serveCustomer activates a customer and, where that works, renews; the number
// says what the provider does with it.
func (l load) serveCustomer(draw *rand.Rand, n int) {
	mobile := fmt.Sprintf("90000%s%04d", pick(draw, "0", "0", "0", "1", "4", "9"), n)
	name := fmt.Sprintf("order-%d-%d", l.seed, n)
	got := l.insist("activate", name+"-a", map[string]string{
		"full_name": "Asha Rao", "mobile": mobile, "plan_id": pick(draw, "BASIC-1", "COMBO-1"),
	})
	if got.Code != client.OK {
		return
	}
	who := got.Data.Customer.SubscriberID
	l.insist("renew", name+"-r", map[string]string{"subscriber_id": who, "plan_id": "FAMILY-3"})
	l.insist("advance-renew", name+"-v", map[string]string{"subscriber_id": who, "plan_id": "BASIC-1"})
	if draw.IntN(3) == 0 {
		l.witness.heard("", l.send("GET", "balance", "", nil))
	}
}

// insist asks with one key until the operation is settled, as a client should.
func (l load) insist(endpoint, key string, body map[string]string) (got answer) {
	l.persist(endpoint+" "+key, func() bool {
		got = l.send("POST", endpoint, key, body)
		l.witness.heard(key, got)
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

// persist asks again and again, with the pauses of a client that means well.
func (l load) persist(what string, ask func() bool) {
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
	seen := &witness{}
	load{house: h, witness: seen, clients: 4, customers: 5, seed: 1}.run()
	stop()
	codes := map[client.Code]int{}
	for _, f := range seen.sofar() {
		codes[f.code]++
	}
	t.Log(codes)
	for _, code := range []client.Code{client.OK, client.PendingReview, client.ProviderError} {
		if codes[code] == 0 {
			t.Errorf("nobody was told %s, so the load tries too little: %v", code, codes)
		}
	}
}
