package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coaxhq/coax/contract/contracttest"
)

// record is what clients sent and received.
type record struct {
	env        *environment
	answers    atomic.Int64
	violations atomic.Int64
	report     func(violation string)

	mu            sync.Mutex // guards what follows, and every order
	clock         int64      // counts beginnings and ends of exchanges
	orders        map[string]*order
	byTransaction map[string]*order
	named         map[string]string // transaction ids in answers, and the key of the request
	codes         map[string]int
}

func newRecord(env *environment) *record {
	return &record{
		env: env, report: func(violation string) { env.t.Error("violation: " + violation) }, orders: map[string]*order{}, byTransaction: map[string]*order{}, named: map[string]string{}, codes: map[string]int{},
	}
}

// order is one business action of a client under one key.
type order struct {
	key        string
	by         *operator
	endpoint   string // activate, renew or advance-renew
	body       []byte
	mobile     string
	plan       string
	outcome    string // what the provider is scripted to do with it
	id         string // the transaction, once it is known
	answers    []answer
	unanswered int // requests without a whole answer
	// before are the answers that its client got before the store was put back.
	before []answer
	// unknowable: the provider never reports its outcome.
	unknowable bool
}

// answer is one answer about an order. began and ended order the answers: one may not
// contradict another that ended before its request began.
type answer struct {
	began, ended int64
	method       string
	node         string
	status       int
	code         string
	state        string // of the operation; empty if there is none
	replayed     bool
	data         map[string]any
}

// String describes an order with its last answers.
func (o *order) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %s %s, which the provider is to meet with %s; %d requests without an answer", o.endpoint, o.key, o.mobile, o.plan, o.outcome, o.unanswered)
	for _, t := range slices.Concat(o.before[max(0, len(o.before)-3):], o.answers[max(0, len(o.answers)-12):]) {
		fmt.Fprintf(&text, "\n  %d-%d %s %s: %d %s %s replayed=%v %v", t.began, t.ended, t.node, t.method, t.status, t.code, t.state, t.replayed, t.data["transaction_id"])
	}
	return text.String()
}

// state returns the latest state that an answer showed; empty if none did.
func (o *order) state() string {
	furthest := ""
	for _, t := range o.answers {
		if t.state != "" && (furthest == "" || rank[t.state] > rank[furthest]) {
			furthest = t.state
		}
	}
	return furthest
}

// last returns the last answer that showed the operation or refused it; nil if there
// was none.
func (o *order) last() *answer {
	for i := len(o.answers) - 1; i >= 0; i-- {
		if o.answers[i].state != "" || refusals[o.answers[i].code] {
			return &o.answers[i]
		}
	}
	return nil
}

func (r *record) add(o *order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders[o.key] = o
}

// stateOf returns the latest state that clients were shown of an order, and whether its
// last answer refused it.
func (r *record) stateOf(o *order) (state string, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := o.last()
	return o.state(), last != nil && last.state == ""
}

// finalData returns an operation as it was last shown in its latest state.
func (r *record) finalData(o *order) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := o.state()
	for i := len(o.answers) - 1; i >= 0; i-- {
		if o.answers[i].state == state && o.answers[i].data != nil {
			return o.answers[i].data
		}
	}
	return nil
}

// all lists every order, by key.
func (r *record) all() []*order {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*order
	for _, key := range slices.Sorted(maps.Keys(r.orders)) {
		all = append(all, r.orders[key])
	}
	return all
}

// transactions lists every transaction id that was ever in an answer.
func (r *record) transactions() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.named)
}

func (r *record) violation(o *order, format string, args ...any) {
	if n := r.violations.Add(1); n > 20 {
		return // the first ones are enough
	}
	text := fmt.Sprintf(format, args...)
	if o != nil {
		text += "\n  " + o.String()
	}
	r.report(text)
}

func (r *record) tick() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	return r.clock
}

// recordingTransport is a client's transport to a node. It records answers before the
// client sees them.
type recordingTransport struct {
	record *record
	node   *node
}

func (t *recordingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	began := t.record.tick()
	response, err := t.node.transport.RoundTrip(request)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err != nil {
		t.record.unanswered(request)
		return nil, err
	}
	t.record.received(began, t.node, request, response, body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

func (r *record) unanswered(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.orders[request.Header.Get("Idempotency-Key")]; o != nil {
		o.unanswered++
	}
}

// received records an answer and checks it against all earlier ones.
func (r *record) received(began int64, n *node, request *http.Request, response *http.Response, body []byte) {
	r.answers.Add(1)
	path := request.URL.RequestURI()
	contracttest.Check(r.env.t, request.Method, path, response.StatusCode, response.Header, body)
	var envelope struct {
		Code string         `json:"code"`
		Data map[string]any `json:"data"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&envelope); err != nil {
		r.violation(nil, "%s %s: the answer is no envelope: %v\n%s", request.Method, path, err, body)
		return
	}
	t := answer{
		began: began, method: request.Method, node: n.name(), status: response.StatusCode, code: envelope.Code, data: envelope.Data,
		replayed: response.Header.Get("Idempotent-Replayed") == "true",
	}
	query := request.URL.Query()

	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	t.ended = r.clock
	r.codes[t.code]++
	switch {
	case request.Method == http.MethodPost:
		o := r.orders[request.Header.Get("Idempotency-Key")]
		if sent, other := request.Context().Value(otherBody{}).(bool); sent && other {
			r.checkOtherBody(o, t)
			return
		}
		r.check(o, t)
	case request.URL.Path == "/api/v1/transaction" && query.Has("idempotency_key"):
		r.check(r.orders[query.Get("idempotency_key")], t)
	case request.URL.Path == "/api/v1/transaction":
		o := r.byTransaction[query.Get("transaction_id")]
		if o == nil {
			// Known only from a refusal of another request; it has to exist all the same.
			if t.code != "OK" && !unavailable[t.code] {
				r.violation(nil, "transaction %s, mentioned by %s, is answered with %d %s", query.Get("transaction_id"), r.named[query.Get("transaction_id")], t.status, t.code)
			}
			return
		}
		r.check(o, t)
	default:
		if t.code != "OK" && t.code != "SUBSCRIBER_NOT_FOUND" && !r.mayBeUnavailable(t) {
			r.violation(nil, "%s %s is answered with %d %s", request.Method, path, t.status, t.code)
		}
	}
}

// otherBody marks a request that uses a known key for another body.
type otherBody struct{}
