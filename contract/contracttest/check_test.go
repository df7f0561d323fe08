package contracttest

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
)

func TestViolations_NameTheDefect(t *testing.T) {
	header := func(name string, values ...string) func(*response) {
		return func(r *response) {
			r.header = canonical(r.header)
			delete(r.header, name)
			if values != nil {
				r.header[name] = values
			}
		}
	}
	body := func(old, replacement string) func(*response) {
		return func(r *response) {
			if !bytes.Contains(r.body, []byte(old)) {
				panic(old + " is not in the body")
			}
			r.body = bytes.Replace(r.body, []byte(old), []byte(replacement), 1)
		}
	}
	end := func(after, with string) func(*response) {
		return func(r *response) {
			begin, _, found := bytes.Cut(r.body, []byte(after))
			if !found {
				panic(after + " is not in the body")
			}
			r.body = slices.Concat(begin, []byte(after+with))
		}
	}
	to := func(method, path string) func(*response) {
		return func(r *response) { r.method, r.path = method, path }
	}
	status := func(status int) func(*response) { return func(r *response) { r.status = status } }
	text := func(text string) func(*response) { return func(r *response) { r.body = []byte(text) } }

	tests := []struct {
		name   string
		of     string // a recorded answer
		change func(*response)
		want   string // part of a violation; empty: there is none
	}{
		{"the query is no part of the path", "balance", to("GET", "/api/v1/balance?x=1"), ""},
		{"a header may be spelled as net/http does", "balance", header("X-Ratelimit-Limit", "60"), ""},
		{"an unknown path is not found", "not-found", to("DELETE", "/"), ""},
		{"a closing slash is another path", "not-found", to("GET", "/api/v1/balance/"), ""},
		{"a path without the prefix is another path", "not-found", to("GET", "/balance"), ""},
		{"any path may be throttled", "too-many-failed-attempts", to("PUT", "/x"), ""},
		{"a wrong method may be throttled", "too-many-failed-attempts", to("PUT", "/api/v1/plans"), ""},

		{"a path of the document is found", "not-found", to("GET", "/api/v1/balance"), "the status is not documented"},
		{"a wrong method is not a wrong path", "not-found", to("DELETE", "/api/v1/balance"), "the status is not documented"},
		{"a right method is not refused", "method-not-allowed-post", to("GET", "/api/v1/balance"), "the status is not documented"},
		{"a wrong path has no right method", "method-not-allowed-post", to("GET", "/api/v1/wallet"), "the status is not documented"},
		{"an undocumented status", "balance", status(201), "the status is not documented"},
		{"an account is checked on known paths only", "lco-inactive", to("GET", "/x"), `the code "LCO_INACTIVE" is not documented`},
		{"an operator's rate is counted on known paths only", "rate-limited", to("GET", "/x"), `the code "RATE_LIMITED" is not documented`},
		{"another path's answer", "balance", to("GET", "/api/v1/plans"), "missing propert"},

		{"a code of another status", "invalid-nonce", body("INVALID_NONCE", "LCO_INACTIVE"), `the code "LCO_INACTIVE" is not documented`},
		{"a status of another code", "invalid-nonce", status(403), `the code "INVALID_NONCE" is not documented`},
		{"a code of another path", "subscriber-exists", to("POST", "/api/v1/renew"), `the code "SUBSCRIBER_EXISTS" is not documented`},
		{"an active plan can be renewed", "plan-already-active", to("POST", "/api/v1/renew"), `the code "PLAN_ALREADY_ACTIVE" is not documented`},
		{"an activation needs no subscriber", "subscriber-not-found-renew", to("POST", "/api/v1/activate"), "the status is not documented"},
		{"a wallet has no prices", "service-unavailable", func(r *response) {
			to("GET", "/api/v1/balance")(r)
			body("SERVICE_UNAVAILABLE", "PLANS_UNAVAILABLE")(r)
		}, `the code "PLANS_UNAVAILABLE" is not documented`},
		{"details of another code", "timestamp-expired", body("TIMESTAMP_EXPIRED", "INVALID_NONCE"), "additional properties 'server_time'"},
		{"details that are missing", "invalid-nonce", body("INVALID_NONCE", "TIMESTAMP_EXPIRED"), "missing property 'server_time'"},
		{"a refusal that claims success", "invalid-nonce", body(`"success":false`, `"success":true`), "/success"},
		{"no message", "not-found", body("There is no such endpoint.", ""), "/message"},
		{"another request's id", "not-found", header("X-Request-Id", "req_00"), "X-Request-Id says req_00"},
		{"an id of another form", "not-found", header("X-Request-Id", "req-00"), "header X-Request-Id"},

		{"Retry-After without 429", "service-unavailable", header("Retry-After", "5"), "Retry-After is not documented"},
		{"429 without Retry-After", "rate-limited", header("Retry-After"), "there is no header Retry-After"},
		{"no time to wait", "rate-limited", header("Retry-After", "0"), "header Retry-After"},
		{"Retry-After as a date", "rate-limited", header("Retry-After", "Mon, 01 Mar 2027 06:30:00 GMT"), "header Retry-After"},
		{"Allow without 405", "not-found", header("Allow", "GET"), "Allow is not documented"},
		{"405 without Allow", "method-not-allowed-post", header("Allow"), "there is no header Allow"},
		{"Allow with the wrong method", "method-not-allowed-post", header("Allow", "POST"), "the path takes GET"},
		{"Allow with one method too many", "method-not-allowed-post", header("Allow", "GET, POST"), "header Allow"},
		{"an answer that may be kept", "plans", header("Cache-Control", "max-age=300"), "header Cache-Control"},
		{"an undocumented header", "balance", header("Server", "coax"), "Server is not documented"},
		{"another content type", "balance", header("Content-Type", "text/plain; charset=utf-8"), "Content-Type"},
		{"another charset", "balance", header("Content-Type", "application/json; charset=latin1"), "Content-Type"},
		{"more than a charset", "balance", header("Content-Type", "application/json; charset=utf-8; v=1"), "Content-Type"},
		{"no charset", "balance", header("Content-Type", "application/json"), "Content-Type"},

		{"an answer that was not counted", "balance", header("X-Ratelimit-Reset"), "of the rate headers there are only"},
		{"an answer without a trace of counting", "balance", func(r *response) {
			for _, name := range rateHeaders {
				header(name)(r)
			}
		}, "of the rate headers there are only []"},
		{"a refused permission that was not counted", "permission-denied", header("X-Ratelimit-Limit"), "of the rate headers there are only"},
		{"a refusal before the rate was counted", "lco-inactive", func(r *response) {
			for _, name := range rateHeaders {
				header(name, "1")(r)
			}
		}, "never reached the rate check"},
		{"an unavailable service may have counted or not", "service-unavailable-activate", func(r *response) {
			for _, name := range rateHeaders {
				header(name)(r)
			}
		}, ""},
		{"an unavailable service with some of the rate headers", "service-unavailable-activate", header("X-Ratelimit-Limit"), "of the rate headers there are only"},
		{"more left than there is", "balance", header("X-Ratelimit-Remaining", "61"), "61 requests are left of 60"},
		{"less than nothing left", "rate-limited", header("X-Ratelimit-Remaining", "-1"), "header X-Ratelimit-Remaining"},

		{"no body", "balance", text(""), "unexpected end of JSON"},
		{"a body broken off", "balance", func(r *response) { r.body = r.body[:len(r.body)-1] }, "the body"},
		{"something after the body", "balance", func(r *response) { r.body = append(bytes.Clone(r.body), '{', '}') }, "after top-level value"},
		{"a comma too many", "balance", body(`"data":{`, `"data":{,`), "invalid character ','"},
		{"a list", "balance", text("[]"), "is not documented"},
		{"a name twice", "balance", body(`"code":"OK"`, `"code":"OK","code":"OK"`), "/code is there twice"},
		{"a name twice, further down", "plans", body(`"duration":1`, `"duration":1,"duration":1`), "/data/plans/0/duration is there twice"},
		{"not UTF-8", "balance", body("The wallet", "The \xff wallet"), "not UTF-8"},
		{"an amount without decimals", "balance", body(`:10000.00`, `:10000`), "/data/wallet_balance"},
		{"an amount with one decimal", "plans", body("499.00", "499.0"), "/data/plans/1/price"},
		{"a plan for nothing", "plans", body("499.00", "0.00"), "/data/plans/1/price"},
		{"a plan of another type", "plans", body(`"combo"`, `"bundle"`), "/data/plans/1/type"},
		{"an integer with decimals", "balance", body(`"lco_id":1`, `"lco_id":1.0`), "/data/lco_id"},
		{"another currency", "balance", body(`"INR"`, `"EUR"`), "/data/currency"},
		{"a time without an offset", "balance", body(`+05:30"`, `"`), "/data/as_of"},
		{"a time in another zone", "balance", body(`+05:30"`, `Z"`), "/data/as_of"},

		{"another endpoint's operation", "renew", to("POST", "/api/v1/advance-renew"), "/data/operation"},
		{"an operation of the panel, answered here", "renew", body(`"api"`, `"web"`), "/data/channel"},
		{"an operation of the panel, looked up", "transaction-renew", body(`"api"`, `"web"`), ""},
		{"a success with another status", "renew", body(`"status":"success"`, `"status":"needs_review"`), "/data/status"},
		{"a success whose money is held", "renew", body(`"held":false`, `"held":true`), "/data/wallet/held"},
		{"a success without an expiry", "activate", body(`"new":"`, `"new":null,"old":"`), "/data/expiry/new"},
		{"an activation with a previous expiry", "activate", body(`"previous":null`, `"previous":"2027-03-01 12:00:00"`), "/data/expiry/previous"},
		{"a booked cycle without a beginning", "advance-renew", body(`"start_date":"`, `"start_date":null,"x":"`), "/data/expiry/start_date"},
		{"a renewal with a beginning", "transaction-renew", body(`"start_date":null`, `"start_date":"2027-03-01"`), "/data/expiry/start_date"},
		{"a review that is over", "activate-in-review", body(`"completed_at":null`, `"completed_at":"2027-03-01 12:00:00"`), "/data/completed_at"},
		{"a review that was charged", "activate-in-review", body(`"charged":0.00`, `"charged":199.00`), "/data/wallet/charged"},
		{"a failure that was not refunded", "renew-failed", body(`"refunded":true`, `"refunded":false`), "/data/wallet/refunded"},
		{"a failure without a reason", "renew-failed", body(`"reason":`, `"because":`), "missing property 'reason'"},
		{"a failure for another reason", "renew-failed", body("PROVIDER_REJECTED", "BAD_LUCK"), "/data/reason"},
		{"a failure with a new expiry", "transaction-renew-failed", body(`"new":null`, `"new":"2027-03-01 12:00:00"`), "/data/expiry/new"},
		{"an unknown warning", "activate-addon-failed", body("COMBO_SECONDARY_FAILED", "COMBO_FAILED"), "/data/warnings/0"},
		{"a warning in a review", "activate-in-review", body(`"warnings":[]`, `"warnings":["COMBO_SECONDARY_FAILED"]`), "/data/warnings"},
		{"a result that is not the status's", "transaction-renew", body(`"result_code":"OK"`, `"result_code":"PENDING_REVIEW"`), "/data/result_code"},
		{"processing is not answered", "request-in-progress", status(202), `the code "REQUEST_IN_PROGRESS" is not documented`},

		{"a replay", "activate-password-given", header("Idempotent-Replayed", "true"), ""},
		{"a replay with a password", "activate", header("Idempotent-Replayed", "true"), "data.customer.password is in a replay"},
		{"a review's replay with a password", "activate-in-review", header("Idempotent-Replayed", "true"), "data.customer.password is in a replay"},
		{"a replay header that is false", "activate-replayed", header("Idempotent-Replayed", "false"), "header Idempotent-Replayed"},
		{"a replayed look-up", "transaction-activate", header("Idempotent-Replayed", "true"), "Idempotent-Replayed is not documented"},
		{"a replayed refusal", "request-in-progress", header("Idempotent-Replayed", "true"), "Idempotent-Replayed is not documented"},
		{"a password in a renewal", "renew", body(`"mobile":`, `"password":"abcdefghjkmn","mobile":`), "additional properties 'password'"},
		{"a password in a failed activation", "activate-failed", body(`"mobile":`, `"password":"abcdefghjkmn","mobile":`), "additional properties 'password'"},
		{"a password in a look-up", "transaction-activate", body(`"mobile":`, `"password":"abcdefghjkmn","mobile":`), "additional properties 'password'"},
		{"a password of another form", "activate", body(`"password":"`, `"password":"l`), "/data/customer/password"},

		{"active and not active", "subscription-active", body(`"active":true`, `"active":false`), "/data/active"},
		{"active and over", "subscription-active", body(`"days_remaining":`, `"days_remaining":0,"x":`), "/data/days_remaining"},
		{"pending without an operation", "subscription-pending", end(`"pending_operations":[`, `]}}`), "/data/pending_operations"},
		{"pending and renewed", "subscription-pending", body(`"operation":"activate"`, `"operation":"renew"`), "/data/pending_operations/0/operation"},
		{"a settled operation that is pending", "subscription-pending", body(`"needs_review"`, `"success"`), "/data/pending_operations/0/status"},

		{"another endpoint's field", "validation-error-renew", body(`"subscriber_id"`, `"full_name"`), "value must be one of 'subscriber_id', 'mobile', 'plan_id'"},
		{"no field at all", "validation-error-renew", end(`"fields":{`, `}}}`), "/data/fields"},
		{"a transaction of another form", "duplicate-request-renew", body(`"previous_transaction_id":"CX`, `"previous_transaction_id":"TX`), "/data/previous_transaction_id"},
		{"a shortfall of nothing", "insufficient-balance", body(`"shortfall":49.50`, `"shortfall":0.00`), "/data/shortfall"},

		{"HEAD with a body", "method-not-allowed-head", text("{}"), "HEAD has a body"},
		{"HEAD without an id", "method-not-allowed-head", header("X-Request-Id"), "there is no header X-Request-Id"},
		{"HEAD with the wrong method", "method-not-allowed-head", header("Allow", "POST"), "the path takes GET"},
	}
	recorded := recorded(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, found := recorded[tt.of]
			if !found {
				t.Fatalf("nothing was recorded as %q", tt.of)
			}
			tt.change(&r)
			err := Violations(r.method, r.path, r.status, r.header, r.body)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("found %v; want something with %q", err, tt.want)
			}
		})
	}
}

// A look-up has several schemas. The violations are those of the closest one.
func TestViolations_AreOfClosestSchema(t *testing.T) {
	r := recorded(t)["transaction-renew"]
	r.body = bytes.Replace(r.body, []byte(`"held":false`), []byte(`"held":true`), 1)
	doc := publishedDocument(t)
	found := doc.check(r)
	if len(found) != 1 || !strings.Contains(found[0], "/data/wallet/held") {
		t.Errorf("found %q; want only the violation of held", found)
	}
}

// fakeTB counts failures.
type fakeTB struct {
	testing.TB
	failed int
}

func (f *fakeTB) Helper()               {}
func (f *fakeTB) Errorf(string, ...any) { f.failed++ }

func TestCheck_FailsTheTest(t *testing.T) {
	r := recorded(t)["balance"]
	f := &fakeTB{TB: t}
	if Check(f, r.method, r.path, r.status, r.header, r.body); f.failed != 0 {
		t.Error("Check failed for an answer that is right")
	}
	if Check(f, r.method, r.path, http.StatusTeapot, r.header, r.body); f.failed != 1 {
		t.Error("Check did not fail for a status that is wrong")
	}
}

func TestCheckPrinted_FailsTheTest(t *testing.T) {
	all := recorded(t)
	for name, r := range all {
		if r.method == http.MethodHead {
			continue // nothing is printed of it
		}
		f := &fakeTB{TB: t}
		if CheckPrinted(f, r.method, r.path, r.body); f.failed != 0 {
			t.Errorf("%s: CheckPrinted failed for a body that is right", name)
		}
	}
	balance := all["balance"]
	for name, change := range map[string]func(*response){
		"another endpoint's body": func(r *response) { r.path = "/api/v1/plans" },
		"an unknown code":         func(r *response) { r.body = bytes.Replace(r.body, []byte(`"OK"`), []byte(`"FINE"`), 1) },
		"a field too many":        func(r *response) { r.body = bytes.Replace(r.body, []byte(`"data":{`), []byte(`"data":{"x":1,`), 1) },
		"no JSON":                 func(r *response) { r.body = []byte("OK") },
	} {
		r := balance
		change(&r)
		f := &fakeTB{TB: t}
		if CheckPrinted(f, r.method, r.path, r.body); f.failed != 1 {
			t.Errorf("%s: CheckPrinted did not fail", name)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := load(contract.OpenAPI); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, name := range []string{"balance", "plans", "invalid-nonce", "activate", "subscription-pending", "transaction-activate", "transaction-advance-renew-processing"} {
		r := recorded(b)[name]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Check(b, r.method, r.path, r.status, r.header, r.body)
			}
		})
	}
}
