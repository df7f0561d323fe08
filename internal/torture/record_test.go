//go:build long

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

// record is what clients sent and were told, kept where no node can reach it.
type record struct {
	w          *world
	answers    atomic.Int64
	violations atomic.Int64
	report     func(violation string)

	mu            sync.Mutex // guards what follows, and every order
	clock         int64      // counts beginnings and ends of exchanges
	orders        map[string]*order
	byTransaction map[string]*order
	named         map[string]string // transactions that were mentioned, and by whom
	codes         map[string]int
}

func newRecord(w *world) *record {
	return &record{
		w: w, report: func(violation string) { w.t.Error("violation: " + violation) }, orders: map[string]*order{}, byTransaction: map[string]*order{}, named: map[string]string{}, codes: map[string]int{},
	}
}

// order is one business action of a client under one key.
type order struct {
	key      string
	by       *operator
	endpoint string // activate, renew or advance-renew
	body     []byte
	mobile   string
	plan     string
	outcome  string // what the provider was told to do with it
	id       string // the transaction, once it is known
	told     []telling
	unheard  int // requests without a whole answer
	// unknowable: the provider will never say what became of it.
	unknowable bool
}

// telling is one answer about an order. Began and ended tell which came before
// which: what was told before a request began, it may not contradict.
type telling struct {
	began, ended int64
	asked        string
	node         string
	status       int
	code         string
	state        string // of the operation; empty if there is none
	replayed     bool
	data         map[string]any
}

// String is what the operation stands at, as far as clients were told.
func (o *order) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %s %s, which the provider is to meet with %s; %d requests without an answer", o.endpoint, o.key, o.mobile, o.plan, o.outcome, o.unheard)
	for _, t := range o.told[max(0, len(o.told)-12):] {
		fmt.Fprintf(&text, "\n  %d-%d %s %s: %d %s %s replayed=%v %v", t.began, t.ended, t.node, t.asked, t.status, t.code, t.state, t.replayed, t.data["transaction_id"])
	}
	return text.String()
}

// state is the furthest that clients were told of; empty if of nothing.
func (o *order) state() string {
	furthest := ""
	for _, t := range o.told {
		if t.state != "" && (furthest == "" || rank[t.state] > rank[furthest]) {
			furthest = t.state
		}
	}
	return furthest
}

// last is the last answer that was about the operation or refused it; nil if
// there was none.
func (o *order) last() *telling {
	for i := len(o.told) - 1; i >= 0; i-- {
		if o.told[i].state != "" || refusals[o.told[i].code] {
			return &o.told[i]
		}
	}
	return nil
}

func (r *record) add(o *order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders[o.key] = o
}

// stateOf is what clients were told of an order, and whether its last answer
// refused it.
func (r *record) stateOf(o *order) (state string, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := o.last()
	return o.state(), last != nil && last.state == ""
}

// finalData is an operation as it was told last, in its last state.
func (r *record) finalData(o *order) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := o.state()
	for i := len(o.told) - 1; i >= 0; i-- {
		if o.told[i].state == state && o.told[i].data != nil {
			return o.told[i].data
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

// transactions lists every transaction that clients were ever told of.
func (r *record) transactions() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.named)
}

func (r *record) violation(o *order, format string, args ...any) {
	if n := r.violations.Add(1); n > 20 {
		return // the first ones tell the story
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

// witness is the way of a client's requests to a node. It writes down what comes
// back before the client sees it.
type witness struct {
	record *record
	node   *node
}

func (w *witness) RoundTrip(request *http.Request) (*http.Response, error) {
	began := w.record.tick()
	response, err := w.node.transport.RoundTrip(request)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err != nil {
		w.record.unheard(request)
		return nil, err
	}
	w.record.heard(began, w.node, request, response, body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

func (r *record) unheard(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.orders[request.Header.Get("Idempotency-Key")]; o != nil {
		o.unheard++
	}
}

// heard writes an answer down, and holds it against everything before it.
func (r *record) heard(began int64, n *node, request *http.Request, response *http.Response, body []byte) {
	r.answers.Add(1)
	path := request.URL.RequestURI()
	contracttest.Check(r.w.t, request.Method, path, response.StatusCode, response.Header, body)
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
	t := telling{
		began: began, asked: request.Method, node: n.name(), status: response.StatusCode, code: envelope.Code, data: envelope.Data,
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
			r.judgeOtherBody(o, t)
			return
		}
		r.judge(o, t)
	case request.URL.Path == "/api/v1/transaction" && query.Has("idempotency_key"):
		r.judge(r.orders[query.Get("idempotency_key")], t)
	case request.URL.Path == "/api/v1/transaction":
		o := r.byTransaction[query.Get("transaction_id")]
		if o == nil {
			// Only mentioned so far, by another's refusal: it has to be there all the same.
			if t.code != "OK" && !away[t.code] {
				r.violation(nil, "transaction %s, mentioned by %s, is answered with %d %s", query.Get("transaction_id"), r.named[query.Get("transaction_id")], t.status, t.code)
			}
			return
		}
		r.judge(o, t)
	default:
		if t.code != "OK" && t.code != "SUBSCRIBER_NOT_FOUND" && !r.lawfullyAway(t) {
			r.violation(nil, "%s %s is answered with %d %s", request.Method, path, t.status, t.code)
		}
	}
}

// otherBody marks a request that uses a known key for something else.
type otherBody struct{}
