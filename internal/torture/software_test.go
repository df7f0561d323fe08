//go:build long

package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/coaxhq/coax/client"
)

// software is an operator's program: it orders, loses answers, and asks again
// with the same key.
type software struct {
	w      *world
	number int
	by     *operator
	rand   *rand.Rand
	orders []*order
	// speakers is the way to each node.
	speakers []*client.Client
}

func (w *world) install(by *operator, seed1, seed2 uint64) {
	s := &software{w: w, number: len(w.software), by: by, rand: rand.New(rand.NewPCG(seed1, seed2))}
	for _, n := range w.nodes {
		s.speakers = append(s.speakers, w.speaker(by, n))
	}
	w.software = append(w.software, s)
}

var plans = []string{"BASIC-1", "FAMILY-1", "FAMILY-3", "COMBO-1"}

// misfortunes is what the provider makes of an order, and how often in 300.
var misfortunes = []struct {
	outcome string
	share   int
}{
	{"success", 160}, {"reject", 25}, {"timeout_applied", 25}, {"timeout_not_applied", 15}, {"gateway_error", 22},
	{"wrong_reference", 15}, {"reset_applied", 22}, {"addon_fails", 12}, {"unknowable", 3}, {"slow", 1},
}

func (s *software) misfortune() string {
	left := s.rand.IntN(300)
	for _, one := range misfortunes {
		if left -= one.share; left < 0 {
			return one.outcome
		}
	}
	panic("the shares are not 300 in all")
}

// step does the next thing.
func (s *software) step() {
	switch roll := s.rand.IntN(100); {
	case roll < 30:
		s.place(s.newActivation())
	case roll < 50:
		if o := s.newRenewal("renew"); o != nil {
			s.place(o)
		}
	case roll < 58:
		if o := s.newRenewal("advance-renew"); o != nil {
			s.place(o)
		}
	case roll < 76:
		if o := s.pick(s.isOpen); o != nil {
			s.send(o)
		}
	case roll < 84:
		if o := s.pick(nil); o != nil {
			s.send(o)
		}
	case roll < 88:
		if o := s.pick(s.hasOperation); o != nil {
			s.misuse(o)
		}
	default:
		s.look()
	}
}

// place orders for the first time: alone, twice at once, or without patience.
func (s *software) place(o *order) {
	s.w.provider.script(o.mobile, o.outcome)
	s.orders = append(s.orders, o)
	s.w.record.add(o)
	switch roll := s.rand.IntN(20); {
	case roll < 2:
		first, second := s.speaker(), s.speaker()
		var twins sync.WaitGroup
		twins.Go(func() { s.post(context.Background(), first, o) })
		twins.Go(func() { s.post(context.Background(), second, o) })
		twins.Wait()
	case roll < 4:
		ctx, hangUp := context.WithTimeout(context.Background(), time.Duration(s.rand.IntN(40)+1)*time.Millisecond)
		defer hangUp()
		s.post(ctx, s.speaker(), o)
	case roll < 12:
		s.call(o)
	default:
		s.send(o)
	}
}

// speaker is the way to any of the nodes that are up, or to one that is not if
// none is.
func (s *software) speaker() *client.Client {
	up := []*client.Client{}
	for i, n := range s.w.nodes {
		if n.address.Load() != nil {
			up = append(up, s.speakers[i])
		}
	}
	if len(up) == 0 {
		return s.speakers[0]
	}
	return up[s.rand.IntN(len(up))]
}

// send sends an order as it is, once.
func (s *software) send(o *order) { s.post(context.Background(), s.speaker(), o) }

// post is safe for concurrent use, unlike the rest.
func (s *software) post(ctx context.Context, to *client.Client, o *order) {
	// What comes of it is in the record, and that nothing came, too.
	_, _ = to.Send(ctx, http.MethodPost, o.endpoint, o.body, http.Header{"Idempotency-Key": {o.key}})
}

// call orders as integrators do, with the methods made for it.
func (s *software) call(o *order) {
	var fields map[string]string
	if err := json.Unmarshal(o.body, &fields); err != nil {
		s.w.t.Error(err)
		return
	}
	ctx, key, to := context.Background(), client.IdempotencyKey(o.key), s.speaker()
	renewal := client.Renewal{SubscriberID: fields["subscriber_id"], PlanID: o.plan}
	var op *client.Operation
	var err error
	switch o.endpoint {
	case "activate":
		op, err = to.Activate(ctx, key, client.Activation{FullName: fields["full_name"], Mobile: o.mobile, PlanID: o.plan})
	case "renew":
		op, err = to.Renew(ctx, key, renewal)
	default:
		op, err = to.AdvanceRenew(ctx, key, renewal)
	}
	if err == nil && (op.Status != client.Success || string(op.IdempotencyKey) != o.key) {
		s.w.record.violation(o, "the client says that all is well with %+v", op)
	}
}

// misuse uses the key of an operation for another one.
func (s *software) misuse(o *order) {
	ctx := context.WithValue(context.Background(), otherBody{}, true)
	body, endpoint := s.activation(s.newMobile(), plans[0]), "activate"
	if o.endpoint == "renew" {
		body, endpoint = o.body, "advance-renew" // the same body elsewhere is another request
	}
	_, _ = s.speaker().Send(ctx, http.MethodPost, endpoint, body, http.Header{"Idempotency-Key": {o.key}})
}

// look reads something.
func (s *software) look() {
	ctx, to := context.Background(), s.speaker()
	o := s.pick(nil)
	switch roll := s.rand.IntN(4); {
	case roll == 0 || o == nil:
		_, _ = to.Balance(ctx)
	case roll == 1:
		s.lookAt(to, o)
	case roll == 2:
		s.w.record.mu.Lock()
		id := o.id
		s.w.record.mu.Unlock()
		if id != "" {
			_, _ = to.Transaction(ctx, id)
		}
	default:
		state, _ := s.w.record.stateOf(o)
		found, err := to.Subscription(ctx, client.Subscriber{Mobile: o.mobile})
		if state == "success" && err == nil && !found.Active {
			s.w.record.violation(o, "it succeeded, and its subscriber is %s", found.Status)
		}
		if state == "success" && client.Code("SUBSCRIBER_NOT_FOUND") == codeOf(err) {
			s.w.record.violation(o, "it succeeded, and there is no such subscriber")
		}
	}
}

func (s *software) lookAt(to *client.Client, o *order) {
	_, _ = to.TransactionByKey(context.Background(), client.IdempotencyKey(o.key))
}

func codeOf(err error) client.Code {
	if failure, is := err.(*client.Error); is {
		return failure.Code
	}
	return ""
}

// pick takes one of the orders that a condition holds for.
func (s *software) pick(fits func(*order) bool) *order {
	var fitting []*order
	for _, o := range s.orders {
		if fits == nil || fits(o) {
			fitting = append(fitting, o)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	return fitting[s.rand.IntN(len(fitting))]
}

func (s *software) isOpen(o *order) bool {
	state, refused := s.w.record.stateOf(o)
	return rank[state] < 3 && !refused
}

func (s *software) hasOperation(o *order) bool {
	state, _ := s.w.record.stateOf(o)
	return state != ""
}

func (s *software) succeeded(o *order) bool {
	state, _ := s.w.record.stateOf(o)
	return state == "success"
}

func (s *software) newMobile() string {
	return fmt.Sprintf("98%02d%06d", s.number, s.rand.IntN(1_000_000))
}

func (s *software) activation(mobile, plan string) []byte {
	return []byte(asJSON(map[string]string{"full_name": "Asha Rao", "mobile": mobile, "plan_id": plan}))
}

func (s *software) newActivation() *order {
	o := s.newOrder("activate")
	o.mobile = s.newMobile()
	if again := s.pick(nil); again != nil && s.rand.IntN(12) == 0 {
		o.mobile = again.mobile // somebody who is there, or about to be
	}
	o.body = s.activation(o.mobile, o.plan)
	return o
}

// newRenewal is for one of the subscribers there are; nil if there is none yet.
func (s *software) newRenewal(endpoint string) *order {
	of := s.pick(s.succeeded)
	if of == nil {
		return nil
	}
	customer, _ := s.w.record.finalData(of)["customer"].(map[string]any)
	o := s.newOrder(endpoint)
	o.mobile = of.mobile
	o.body = []byte(asJSON(map[string]string{"subscriber_id": fmt.Sprint(customer["subscriber_id"]), "plan_id": o.plan}))
	return o
}

func (s *software) newOrder(endpoint string) *order {
	o := &order{
		key: fmt.Sprintf("order-%d-%05d", s.number, len(s.orders)), by: s.by, endpoint: endpoint,
		plan: plans[s.rand.IntN(len(plans))], outcome: s.misfortune(),
	}
	if o.outcome == "addon_fails" {
		o.plan = "COMBO-1"
	}
	return o
}
