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

// operatorClient is an operator's program: it places orders, loses answers, and retries
// with the same key.
type operatorClient struct {
	env    *environment
	number int
	by     *operator
	rand   *rand.Rand
	orders []*order
	// apiClients has a client for each node.
	apiClients []*client.Client
}

func (env *environment) addClient(by *operator, seed1, seed2 uint64) {
	s := &operatorClient{env: env, number: len(env.clients), by: by, rand: rand.New(rand.NewPCG(seed1, seed2))}
	for _, n := range env.nodes {
		s.apiClients = append(s.apiClients, env.apiClient(by, n))
	}
	env.clients = append(env.clients, s)
}

var plans = []string{"BASIC-1", "FAMILY-1", "FAMILY-3", "COMBO-1"}

// outcomes are the provider's outcomes, with their shares of 300.
var outcomes = []struct {
	outcome string
	share   int
}{
	{"success", 160}, {"reject", 25}, {"timeout_applied", 25}, {"timeout_not_applied", 15}, {"gateway_error", 22},
	{"wrong_reference", 15}, {"reset_applied", 22}, {"addon_fails", 12}, {"unknowable", 3}, {"slow", 1},
}

func (s *operatorClient) drawOutcome() string {
	left := s.rand.IntN(300)
	for _, one := range outcomes {
		if left -= one.share; left < 0 {
			return one.outcome
		}
	}
	panic("the shares are not 300 in all")
}

// step performs one random action.
func (s *operatorClient) step() {
	switch roll := s.rand.IntN(100); {
	case roll < 30:
		s.placeOrder(s.newActivation())
	case roll < 50:
		if o := s.newRenewal("renew"); o != nil {
			s.placeOrder(o)
		}
	case roll < 58:
		if o := s.newRenewal("advance-renew"); o != nil {
			s.placeOrder(o)
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

// placeOrder sends an order for the first time: once, twice concurrently, or with a
// short timeout.
func (s *operatorClient) placeOrder(o *order) {
	s.env.provider.script(o.mobile, o.outcome)
	s.orders = append(s.orders, o)
	s.env.record.add(o)
	switch roll := s.rand.IntN(20); {
	case roll < 2:
		first, second := s.apiClient(), s.apiClient()
		var twins sync.WaitGroup
		twins.Go(func() { s.post(context.Background(), first, o) })
		twins.Go(func() { s.post(context.Background(), second, o) })
		twins.Wait()
	case roll < 4:
		ctx, hangUp := context.WithTimeout(context.Background(), time.Duration(s.rand.IntN(40)+1)*time.Millisecond)
		defer hangUp()
		s.post(ctx, s.apiClient(), o)
	case roll < 12:
		s.call(o)
	default:
		s.send(o)
	}
}

// apiClient returns a client for one of the nodes that are up, or for the first node if
// none is.
func (s *operatorClient) apiClient() *client.Client {
	up := []*client.Client{}
	for i, n := range s.env.nodes {
		if n.address.Load() != nil {
			up = append(up, s.apiClients[i])
		}
	}
	if len(up) == 0 {
		return s.apiClients[0]
	}
	return up[s.rand.IntN(len(up))]
}

// send sends an order as it is, once.
func (s *operatorClient) send(o *order) { s.post(context.Background(), s.apiClient(), o) }

// post is safe for concurrent use, unlike the rest.
func (s *operatorClient) post(ctx context.Context, to *client.Client, o *order) {
	// The answer, or that there was none, is in the record.
	_, _ = to.Send(ctx, http.MethodPost, o.endpoint, o.body, http.Header{"Idempotency-Key": {o.key}})
}

// call places an order with the public client's methods.
func (s *operatorClient) call(o *order) {
	var fields map[string]string
	if err := json.Unmarshal(o.body, &fields); err != nil {
		s.env.t.Error(err)
		return
	}
	ctx, key, to := context.Background(), client.IdempotencyKey(o.key), s.apiClient()
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
		s.env.record.violation(o, "the client reports success with %+v", op)
	}
}

// misuse sends another request with the key of an operation.
func (s *operatorClient) misuse(o *order) {
	ctx := context.WithValue(context.Background(), otherBody{}, true)
	body, endpoint := s.activation(s.newMobile(), plans[0]), "activate"
	if o.endpoint == "renew" {
		body, endpoint = o.body, "advance-renew" // the same body elsewhere is another request
	}
	_, _ = s.apiClient().Send(ctx, http.MethodPost, endpoint, body, http.Header{"Idempotency-Key": {o.key}})
}

// look performs a read.
func (s *operatorClient) look() {
	ctx, to := context.Background(), s.apiClient()
	o := s.pick(nil)
	switch roll := s.rand.IntN(4); {
	case roll == 0 || o == nil:
		_, _ = to.Balance(ctx)
	case roll == 1:
		s.lookAt(to, o)
	case roll == 2:
		s.env.record.mu.Lock()
		id := o.id
		s.env.record.mu.Unlock()
		if id != "" {
			_, _ = to.Transaction(ctx, id)
		}
	default:
		state, _ := s.env.record.stateOf(o)
		found, err := to.Subscription(ctx, client.Subscriber{Mobile: o.mobile})
		if state == "success" && err == nil && !found.Active {
			s.env.record.violation(o, "it succeeded, and its subscriber is %s", found.Status)
		}
		if state == "success" && client.Code("SUBSCRIBER_NOT_FOUND") == codeOf(err) {
			s.env.record.violation(o, "it succeeded, and there is no such subscriber")
		}
	}
}

func (s *operatorClient) lookAt(to *client.Client, o *order) {
	_, _ = to.TransactionByKey(context.Background(), client.IdempotencyKey(o.key))
}

func codeOf(err error) client.Code {
	if failure, is := err.(*client.Error); is {
		return failure.Code
	}
	return ""
}

// pick returns a random order for which a condition holds.
func (s *operatorClient) pick(fits func(*order) bool) *order {
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

func (s *operatorClient) isOpen(o *order) bool {
	state, refused := s.env.record.stateOf(o)
	return rank[state] < 3 && !refused
}

func (s *operatorClient) hasOperation(o *order) bool {
	state, _ := s.env.record.stateOf(o)
	return state != ""
}

func (s *operatorClient) succeeded(o *order) bool {
	state, _ := s.env.record.stateOf(o)
	return state == "success"
}

func (s *operatorClient) newMobile() string {
	return fmt.Sprintf("98%02d%06d", s.number, s.rand.IntN(1_000_000))
}

func (s *operatorClient) activation(mobile, plan string) []byte {
	return []byte(asJSON(map[string]string{"full_name": "Asha Rao", "mobile": mobile, "plan_id": plan}))
}

func (s *operatorClient) newActivation() *order {
	o := s.newOrder("activate")
	o.mobile = s.newMobile()
	if again := s.pick(nil); again != nil && s.rand.IntN(12) == 0 {
		o.mobile = again.mobile // of an existing subscriber, or one in activation
	}
	o.body = s.activation(o.mobile, o.plan)
	return o
}

// newRenewal returns a renewal of an existing subscriber; nil if there is none yet.
func (s *operatorClient) newRenewal(endpoint string) *order {
	of := s.pick(s.succeeded)
	if of == nil {
		return nil
	}
	customer, _ := s.env.record.finalData(of)["customer"].(map[string]any)
	o := s.newOrder(endpoint)
	o.mobile = of.mobile
	o.body = []byte(asJSON(map[string]string{"subscriber_id": fmt.Sprint(customer["subscriber_id"]), "plan_id": o.plan}))
	return o
}

func (s *operatorClient) newOrder(endpoint string) *order {
	o := &order{
		key: fmt.Sprintf("order-%d-%05d", s.number, len(s.orders)), by: s.by, endpoint: endpoint,
		plan: plans[s.rand.IntN(len(plans))], outcome: s.drawOutcome(),
	}
	if o.outcome == "addon_fails" {
		o.plan = "COMBO-1"
	}
	return o
}
