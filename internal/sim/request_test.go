package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/signing"
)

var paths = map[string]string{
	"activate": "/api/v1/activate", "renew": "/api/v1/renew", "advance_renew": "/api/v1/advance-renew", "balance": "/api/v1/balance",
	"plans": "/api/v1/plans", "subscription": "/api/v1/subscription", "transaction": "/api/v1/transaction",
}

// toRunningNode returns a request to a running node; nil if none is running.
func (a action) toRunningNode(label, method, path string, key *apiKey) *flight {
	env := a.env
	var running []*process
	for _, n := range env.nodes {
		if l := n.running(); l != nil {
			running = append(running, l)
		}
	}
	if len(running) == 0 {
		env.occurred("no node is running")
		return nil
	}
	f := &flight{
		task: label, process: pick(env.chance, running, label, "node"), method: method, path: path, key: key,
		address: pick(env.chance, []netip.Addr{addresses[home], addresses[home], addresses[home], addresses[home], addresses[away]}, label, "address"),
		headers: map[string]string{}, fields: map[string]string{},
	}
	return f
}

// sign adds the four signing headers. Some clients' clocks are off by up to five
// minutes.
func (a action) sign(f *flight, key *apiKey) {
	env := a.env
	at := env.now().Unix()
	switch {
	case env.chance.odds(40, f.task, "clock is fast"):
		at += int64(env.chance.below(300, f.task, "how fast"))
	case env.chance.odds(40, f.task, "clock is slow"):
		at -= int64(env.chance.below(300, f.task, "how slow"))
	}
	f.headers["X-Api-Key"] = key.key
	f.headers["X-Timestamp"] = strconv.FormatInt(at, 10)
	f.headers["X-Nonce"] = fmt.Sprintf("nonce-%016x", env.chance.of("nonce", f.task))
	f.headers["X-Signature"] = signatureOf(f, key)
}

func signatureOf(f *flight, key *apiKey) string {
	return signing.Request{
		Method: f.method, Path: f.path, RawQuery: strings.TrimPrefix(f.query, "?"), Timestamp: f.headers["X-Timestamp"],
		Nonce: f.headers["X-Nonce"], Body: f.body,
	}.Sign(key.secret)
}

// post returns a request for an operation.
func (a action) post(label string, key *apiKey, kind string, fields map[string]string, idem string) *flight {
	f := a.toRunningNode(label, "POST", paths[kind], key)
	if f == nil {
		return nil
	}
	f.kind, f.fields, f.idem = kind, fields, idem
	f.body, _ = json.Marshal(fields)
	f.headers["Content-Type"] = "application/json"
	f.headers["Idempotency-Key"] = idem
	a.sign(f, key)
	return f
}

// request returns a read, or a flawed request.
func (a action) request(kind string) *flight {
	key := a.chooseKey(a)
	if key == nil {
		return nil
	}
	if kind == "flawed" {
		return a.flawed(key)
	}
	f := a.toRunningNode(a.label, "GET", paths[kind], key)
	if f == nil {
		return nil
	}
	query := url.Values{}
	switch kind {
	case "subscription":
		maps.Copy(f.fields, a.fields(int(key.operator-1)))
		delete(f.fields, "plan_id")
	case "transaction":
		f.fields = a.someTransaction()
	}
	for name, value := range f.fields {
		query.Set(name, value)
	}
	if len(query) > 0 {
		f.query = "?" + query.Encode()
	}
	a.sign(f, key)
	return f
}

// someTransaction selects an operation of any operator, by its key or its id.
func (a action) someTransaction() map[string]string {
	n := a.below(max(a.i, 1), "which transaction")
	key := "order-of-a" + strconv.Itoa(n)
	if a.odds(500, "by id") {
		if id := a.env.observer.operationOf(key); id != "" {
			return map[string]string{"transaction_id": id}
		}
	}
	return map[string]string{"idempotency_key": key}
}

// flaws are the deliberate errors of flawed requests.
var flaws = []string{
	"plain", "path", "method", "size", "header", "unknown key", "malformed key", "early", "late", "no time", "signature", "nonce",
	"address", "media", "json", "no key", "bad key", "fields", "signature", "signature", "unknown key",
}

func (a action) flawed(key *apiKey) *flight {
	flaw := pick(a.env.chance, flaws, a.label, "flaw")
	kind := pick(a.env.chance, []string{"renew", "activate", "advance_renew"}, a.label, "of kind")
	as := a
	as.kind = kind
	f := as.post(a.label, key, kind, as.fields(int(key.operator-1)), "order-of-"+a.label)
	if f == nil {
		return nil
	}
	f.flaw = flaw
	// Mostly from another address, so that requests from home are seldom throttled.
	if a.odds(800, "from away") {
		f.address = addresses[away]
	}
	switch flaw {
	case "plain":
		f.plain = true
	case "path":
		f.path = "/api/v1/renew/"
	case "method":
		f.method = "PUT"
	case "size":
		f.body = []byte(`{"plan_id":"` + strings.Repeat("x", 16<<10) + `"}`)
	case "header":
		delete(f.headers, pick(a.env.chance, []string{"X-Api-Key", "X-Timestamp", "X-Nonce", "X-Signature"}, a.label, "header"))
		return f
	case "unknown key", "malformed key":
		f.key = nil
		f.headers["X-Api-Key"] = "cxk_" + strings.Repeat("0", 32)
		if flaw == "malformed key" {
			f.headers["X-Api-Key"] = "letmein"
		}
	case "early":
		f.headers["X-Timestamp"] = strconv.FormatInt(a.env.now().Unix()+305, 10)
	case "late":
		f.headers["X-Timestamp"] = strconv.FormatInt(a.env.now().Unix()-305, 10)
	case "no time":
		f.headers["X-Timestamp"] = "0"
	case "nonce":
		f.headers["X-Nonce"] = "too short"
	case "address":
		f.address = addresses[strange]
	case "media":
		f.headers["Content-Type"] = "text/plain"
	case "json":
		f.body = []byte(`{"plan_id":"BASIC-1","plan_id":"BASIC-1"}`)
	case "no key":
		delete(f.headers, "Idempotency-Key")
		f.idem = ""
	case "bad key":
		f.headers["Idempotency-Key"] = "not one!"
		f.idem = ""
	case "fields":
		f.fields = map[string]string{"full_name": "X", "mobile": "12", "plan_id": "BASIC-1"}
		f.body, _ = json.Marshal(f.fields)
	}
	f.headers["X-Signature"] = signatureOf(f, key)
	if flaw == "signature" {
		f.headers["X-Signature"] = strings.Repeat("0", 64)
	}
	if flaw == "path" {
		f.key = nil // the key is not checked
	}
	return f
}

// replay sends the same bytes as an earlier request, to any node, at once or minutes
// later: then often those of a client whose clock is ahead, because its timestamp is
// valid for longer, when used nonces may have been purged.
func (a action) replay() {
	env := a.env
	env.gates.pass(a.label, "begin action", nil, false)
	if env.capturedAgo(0) == nil {
		return
	}
	caught := env.capturedAgo(a.below(25, "which"))
	if a.odds(400, "much later") {
		if early := env.capturedAhead(); early != nil && a.odds(500, "the one ahead") {
			caught = early
		}
		env.leap(a.between(250*time.Second, 620*time.Second, "how much later"))
		env.sleep(a.between(0, 40*time.Second, "and after a sweep"))
		env.gates.pass(a.label, "replay", nil, false)
	}
	f := a.toRunningNode(a.label, caught.method, caught.path, caught.key)
	if f == nil {
		return
	}
	again := *caught
	again.task, again.process = f.task, f.process
	again.allowed, again.stage, again.prices, again.shared, again.excused = nil, 0, nil, false, false
	env.send(&again, 0)
}

// capturedAhead returns the last request of a client whose clock was a minute or more
// ahead; nil if there was none.
func (env *environment) capturedAhead() *flight {
	env.mu.Lock()
	defer env.mu.Unlock()
	for _, f := range slices.Backward(env.captured) {
		if at, err := strconv.ParseInt(f.headers["X-Timestamp"], 10, 64); err == nil && at >= f.at.Unix()+60 && at <= f.at.Unix()+300 {
			return f
		}
	}
	return nil
}
