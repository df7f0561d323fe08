package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// flight is a client's request in progress, with everything that the model needs to
// decide which answers are allowed.
type flight struct {
	task    string
	process *process
	at      time.Time // the node's clock when it began

	method, path, query string
	body                []byte
	key                 *apiKey // nil if the key is unknown
	address             netip.Addr
	plain               bool // came over plain HTTP
	headers             map[string]string
	flaw                string // the deliberate error in it; empty if none

	kind   string // of operation; empty for a read
	fields map[string]string
	idem   string

	allowed    map[string]bool
	stage      int     // the first check that it cannot have passed yet
	prices     []int64 // that were in force while it was checked
	replayable bool    // its nonce was used before it began
	shared     bool    // another request carries the same nonce
	excused    bool    // it met an injected fault, so it may get a 5xx
	timesMoved int
}

// names reports whether a request is for the customer of an operation.
func (f *flight) names(op *mOperation) bool {
	if f.kind == "activate" {
		return f.fields["mobile"] == op.Mobile && f.fields["full_name"] == op.Name
	}
	if id := f.fields["subscriber_id"]; id != "" {
		return id == op.Subscriber
	}
	return f.fields["mobile"] == op.Mobile
}

func (f *flight) nonceKey() string {
	if f.key == nil {
		return ""
	}
	return keyOf(f.key.id, f.headers["X-Nonce"])
}

// answer is a response as a client sees it.
type answer struct {
	status   int
	code     string
	replayed bool
	request  string
	reset    int64
	limit    string
	password bool
	data     map[string]any
}

// send sends a request to a process and waits for its answer, until the client hangs
// up or the process ends. After a hang-up the handler continues.
func (env *environment) send(f *flight, hangUp time.Duration) (answer, bool) {
	ctx, cancel := context.WithCancel(as(context.Background(), f.task))
	defer cancel()
	done := make(chan answer, 1)
	lost := env.faults.losesAnswer(f)
	env.background.Go(func() {
		env.gates.pass(f.task, "begin", f.process, false)
		env.observer.begin(f)
		r := httptest.NewRequestWithContext(ctx, f.method, "https://coax.example"+f.path+f.query, bytes.NewReader(f.body))
		r.RequestURI = f.path + f.query
		r.RemoteAddr = "10.0.0.1:40000"
		r.Header.Set("X-Forwarded-For", f.address.String())
		if !f.plain {
			r.Header.Set("X-Forwarded-Proto", "https")
		}
		for name, value := range f.headers {
			r.Header.Set(name, value)
		}
		rec := httptest.NewRecorder()
		f.process.api.ServeHTTP(rec, r)
		if rec.Code == http.StatusUnauthorized {
			f.process.failed(f)
		}
		// Requests that waited for the same thing end at the same moment; the seed
		// decides which is answered first.
		env.gates.pass(f.task, "answer", f.process, false)
		if f.process.isDead() {
			return // the answer of a dead process is not received
		}
		a := read(rec)
		env.observer.answered(f, a)
		if !lost {
			done <- a
		}
		close(done)
	})
	var timeout <-chan time.Time
	if hangUp > 0 {
		timer := time.NewTimer(env.paced(hangUp))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case a, ok := <-done:
		return a, ok
	case <-f.process.ended:
		return answer{}, false
	case <-timeout:
		env.hungUp(f.task)
		return answer{}, false
	}
}

func read(rec *httptest.ResponseRecorder) answer {
	var envelope struct {
		Success bool           `json:"success"`
		Request string         `json:"request_id"`
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	}
	decoder := json.NewDecoder(rec.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&envelope); err != nil {
		return answer{status: rec.Code, code: "no envelope: " + err.Error()}
	}
	a := answer{
		status: rec.Code, code: envelope.Code, request: envelope.Request, data: envelope.Data,
		replayed: rec.Header().Get("Idempotent-Replayed") == "true", limit: rec.Header().Get("X-RateLimit-Limit"),
	}
	a.reset, _ = strconv.ParseInt(rec.Header().Get("X-RateLimit-Reset"), 10, 64)
	switch {
	case envelope.Request == "" || envelope.Request != rec.Header().Get("X-Request-Id"):
		a.code = "A8: the request id is not the same in the header"
	case envelope.Success != (envelope.Code == "OK" && rec.Code == http.StatusOK):
		a.code = "A8: success does not go with the code"
	case envelope.Message == "" || envelope.Data == nil:
		a.code = "A8: the envelope has no message or no data"
	}
	if customer, is := a.data["customer"].(map[string]any); is {
		_, a.password = customer["password"]
	}
	return a
}

func text(v any, path ...string) string {
	for _, name := range path {
		object, is := v.(map[string]any)
		if !is {
			return "missing"
		}
		if v, is = object[name]; !is {
			return "missing"
		}
	}
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

// view formats the operation in an answer as mOperation.view does.
func (a answer) view() string {
	d := a.data
	warnings := []string{}
	list, _ := d["warnings"].([]any)
	for _, warning := range list {
		warnings = append(warnings, fmt.Sprint(warning))
	}
	reason := text(d, "reason")
	if reason == "missing" {
		reason = ""
	}
	return strings.Join([]string{
		text(d, "transaction_id"), text(d, "idempotency_key"), text(d, "operation"), text(d, "status"), text(d, "channel"),
		text(d, "customer", "subscriber_id"), text(d, "customer", "name"), text(d, "customer", "mobile"), text(d, "provider_transaction_id"),
		text(d, "plan", "id"), text(d, "plan", "duration_months"), text(d, "amount"),
		text(d, "expiry", "previous"), text(d, "expiry", "new"), text(d, "expiry", "start_date"),
		text(d, "wallet", "before"), text(d, "wallet", "after"), text(d, "wallet", "charged"), text(d, "wallet", "refunded"), text(d, "wallet", "held"),
		strings.Join(warnings, ","), text(d, "created_at"), text(d, "completed_at"), reason,
	}, "|")
}

// normal formats an answer as the model predicts it.
func (a answer) normal(f *flight) string {
	switch {
	case f.kind != "" && a.isResult():
		return a.code + " " + a.view()
	case a.code == "INSUFFICIENT_BALANCE":
		return fmt.Sprintf("%s %s of %s, %s short", a.code, text(a.data, "wallet_balance"), text(a.data, "required_amount"), text(a.data, "shortfall"))
	case a.code == "DUPLICATE_REQUEST":
		return a.code + " " + text(a.data, "previous_transaction_id")
	case a.code == "OPERATION_IN_PROGRESS":
		return a.code + " " + text(a.data, "transaction_id")
	case a.code == "IP_NOT_WHITELISTED":
		return a.code + " " + text(a.data, "ip")
	case a.code != "OK":
		return a.code
	case strings.HasSuffix(f.path, "/balance"):
		return "OK " + text(a.data, "wallet_balance") + " " + text(a.data, "low_balance")
	case strings.HasSuffix(f.path, "/plans"):
		list := []string{}
		plans, _ := a.data["plans"].([]any)
		for _, p := range plans {
			list = append(list, text(p, "id")+"="+text(p, "price")+"/"+text(p, "duration"))
		}
		return "OK " + strings.Join(list, " ")
	case strings.HasSuffix(f.path, "/transaction"):
		return "OK " + text(a.data, "result_code") + " " + a.view()
	case strings.HasSuffix(f.path, "/subscription"):
		pending := []string{}
		list, _ := a.data["pending_operations"].([]any)
		for _, p := range list {
			pending = append(pending, text(p, "transaction_id")+":"+text(p, "status"))
		}
		return "OK " + strings.Join([]string{
			text(a.data, "customer", "subscriber_id"), text(a.data, "status"), text(a.data, "active"), text(a.data, "expiry_date"),
			text(a.data, "days_remaining"), text(a.data, "plan", "id"), strings.Join(pending, ","),
		}, "|")
	}
	return a.code
}

func (a answer) isResult() bool {
	return a.code == "OK" || a.code == "PENDING_REVIEW" || a.code == "PROVIDER_ERROR"
}
