package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// These tests check the service on both sides of every limit that the contract states
// (lengths, characters, required fields), so that the two cannot diverge.

// limitsEnv is an Env with an operator without a rate limit, and the contract.
type limitsEnv struct {
	*e2e.Env
	me       e2e.Caller
	contract contracttest.Description
}

func newLimitsEnv(t *testing.T) limitsEnv {
	w := e2e.NewEnv(t)
	return limitsEnv{Env: w, me: w.NewFundedOperator("me", "100000"), contract: contracttest.Describe(t)}
}

// refuses sends a call and reports whether it was refused with a code. It advances the
// clock after a failure, so that the failed-authentication throttle does not act.
func (l limitsEnv) refuses(c e2e.Call, code fault.Code) bool {
	l.TB.Helper()
	c.As = l.me
	got := l.Send(c)
	if got.Status == http.StatusUnauthorized {
		l.Advance(5 * time.Second)
	}
	return got.Code == code
}

// rejectsField posts a body and reports whether the service rejects one of its fields. The
// body's plan does not exist, so nothing is ever sold.
func (l limitsEnv) rejectsField(path, field string, body map[string]any) bool {
	l.TB.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		l.TB.Fatal(err)
	}
	got := l.Send(e2e.Call{As: l.me, Method: http.MethodPost, Path: path, Body: string(text)})
	if got.Code != fault.InvalidPlan && got.Code != fault.ValidationError {
		l.TB.Fatalf("%s %s: %s; want it to fail at a field or at the plan", path, text, got.Raw)
	}
	fields, _ := got.Data["fields"].(map[string]any)
	return fields[field] != nil
}

// texts returns texts of this many characters: letters, digits, multi-byte letters and,
// if long enough, an e-mail address.
func texts(length int) []string {
	all := []string{strings.Repeat("a", length), strings.Repeat("7", length), strings.Repeat("अ", length)}
	if length > 10 {
		local := min(64, length-8)
		domain := []byte(strings.Repeat("b", length-local-len("@.in")))
		for i := 50; i < len(domain)-1; i += 51 {
			domain[i] = '.'
		}
		all = append(all, strings.Repeat("a", local)+"@"+string(domain)+".in")
	}
	return all
}

func TestContractLimits_Fields(t *testing.T) {
	l := newLimitsEnv(t)
	whole := map[string]map[string]any{
		"/api/v1/activate":      {"full_name": "Asha", "mobile": "9811111111", "plan_id": "NONE"},
		"/api/v1/renew":         {"subscriber_id": "100001", "mobile": "9811111111", "plan_id": "NONE"},
		"/api/v1/advance-renew": {"subscriber_id": "100001", "mobile": "9811111111", "plan_id": "NONE"},
	}
	for name, endpoint := range l.contract.Endpoints {
		method, path, _ := strings.Cut(name, " ")
		if method != http.MethodPost {
			continue
		}
		for field, text := range endpoint.Fields {
			body := func(value any) map[string]any {
				changed := map[string]any{}
				for name, value := range whole[path] {
					changed[name] = value
				}
				if field == "mobile" && path != "/api/v1/activate" && value != nil {
					delete(changed, "subscriber_id") // with it the mobile is ignored
				}
				if changed[field] = value; value == nil {
					delete(changed, field)
				}
				return changed
			}
			if l.rejectsField(path, field, body(nil)) != text.Required {
				t.Errorf("%s: %s required is %v in the contract; the service disagrees", name, field, text.Required)
			}
			if !l.rejectsField(path, field, body(7)) {
				t.Errorf("%s: %s may be a number", name, field)
			}
			taken, refused := 0, 0
			for _, length := range text.Lengths() {
				for _, candidate := range texts(length) {
					allows := text.Accepts(candidate)
					if objects := l.rejectsField(path, field, body(candidate)); objects == allows {
						t.Errorf("%s: %s of %d characters (%s…): allowed by the contract %v; rejected by the service %v",
							name, field, length, candidate[:1], allows, objects)
					}
					if allows {
						taken++
					} else {
						refused++
					}
				}
			}
			if open := field == "subscriber_id" && path != "/api/v1/activate"; taken == 0 || refused == 0 && !open {
				t.Errorf("%s: of %s, %d texts were allowed and %d not: the limit was not crossed", name, field, taken, refused)
			}
		}
	}
}

func TestContractLimits_HeadersAndParameters(t *testing.T) {
	l := newLimitsEnv(t)
	balance, activate := l.contract.Endpoints["GET /api/v1/balance"], l.contract.Endpoints["POST /api/v1/activate"]
	nonce := func(text string) e2e.Call { return e2e.Call{Path: "/api/v1/balance", Nonce: text} }
	key := func(text string) e2e.Call {
		return e2e.Call{Method: http.MethodPost, Path: "/api/v1/activate", Body: "{}", Header: http.Header{"Idempotency-Key": {text}}}
	}
	mobile := func(text string) e2e.Call { return e2e.Call{Path: "/api/v1/subscription?mobile=" + text} }
	for _, row := range []struct {
		name string
		text contracttest.Text
		ask  func(string) e2e.Call
		code fault.Code
	}{
		{"X-Nonce", balance.Headers["X-Nonce"], nonce, fault.InvalidNonce},
		{"Idempotency-Key", activate.Headers["Idempotency-Key"], key, fault.InvalidIdempotencyKey},
		{"mobile", l.contract.Endpoints["GET /api/v1/subscription"].Query["mobile"], mobile, fault.ValidationError},
	} {
		candidates := []string{}
		for i, length := range row.text.Lengths() {
			// Each nonce can be used once.
			candidates = append(candidates, strings.Repeat(string(rune('0'+i)), length))
		}
		if row.name != "mobile" {
			for c := '!'; c <= '~'; c++ { // printable ASCII
				candidates = append(candidates, "character-by-character"+string(c))
			}
		}
		taken, refused := 0, 0
		for _, candidate := range candidates {
			allows := row.text.Accepts(candidate)
			if refuses := l.refuses(row.ask(candidate), row.code); refuses == allows {
				t.Errorf("%s %q (%d): allowed by the contract %v; refused by the service %v", row.name, candidate, len(candidate), allows, refuses)
			}
			if allows {
				taken++
			} else {
				refused++
			}
		}
		if taken == 0 || refused == 0 {
			t.Errorf("%s: %d texts were allowed and %d not: the limit was not crossed", row.name, taken, refused)
		}
	}

	// The headers that the client sends match the contract and are required.
	sent := l.Request(e2e.Call{As: l.me, Path: "/api/v1/balance"}).Header
	for name, text := range balance.Headers {
		if value := sent.Get(name); !text.Accepts(value) || text.Accepts(value+"!") {
			t.Errorf("%s: the client sends %q, which the contract does not allow", name, value)
		}
		if !text.Required || !l.refuses(e2e.Call{Path: "/api/v1/balance", Drop: []string{name}}, fault.MissingAuthHeaders) {
			t.Errorf("%s may be missing", name)
		}
	}
	without := key("order-0001")
	without.Drop = []string{"Idempotency-Key"}
	if !activate.Headers["Idempotency-Key"].Required || !l.refuses(without, fault.MissingIdempotencyKey) {
		t.Error("the Idempotency-Key may be missing")
	}
	for name, endpoint := range l.contract.Endpoints {
		_, path, _ := strings.Cut(name, " ")
		for parameter, text := range endpoint.Query {
			got := l.Send(e2e.Call{As: l.me, Path: fmt.Sprintf("%s?%s=1&%s=1", path, parameter, parameter)})
			if fields, _ := got.Data["fields"].(map[string]any); got.Code != fault.ValidationError || fields[parameter] == nil || text.Required {
				t.Errorf("%s: %s twice is answered %s; want the service to know the parameter", name, parameter, got.Raw)
			}
		}
	}
}
