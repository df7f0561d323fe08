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

// The document draws lines: so long, of these characters, required or not. On
// either side of each of them the service is asked, and has to say the same. A
// line that moves in one of the two alone is noticed here.

// lines is a world with an operator who may try as much as it likes.
type lines struct {
	*e2e.Env
	me   e2e.Caller
	said contracttest.Description
}

func newLines(t *testing.T) lines {
	w := e2e.NewEnv(t)
	return lines{Env: w, me: w.NewFundedOperator("me", "100000"), said: contracttest.Describe(t)}
}

// refuse sends a call and reports whether it was refused with a code. So many
// failures in a minute would shut the caller out, so the minute passes.
func (l lines) refuses(c e2e.Call, code fault.Code) bool {
	l.TB.Helper()
	c.As = l.me
	got := l.Send(c)
	if got.Status == http.StatusUnauthorized {
		l.Advance(5 * time.Second)
	}
	return got.Code == code
}

// objects posts a body and reports whether the service objects to a field of it.
// The plan is none, so that nothing is ever sold.
func (l lines) objects(path, field string, body map[string]any) bool {
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

// texts are of so many characters: letters, digits, letters of several bytes, and
// an e-mail address, which have to be long enough for one.
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
	l := newLines(t)
	whole := map[string]map[string]any{
		"/api/v1/activate":      {"full_name": "Asha", "mobile": "9811111111", "plan_id": "NONE"},
		"/api/v1/renew":         {"subscriber_id": "100001", "mobile": "9811111111", "plan_id": "NONE"},
		"/api/v1/advance-renew": {"subscriber_id": "100001", "mobile": "9811111111", "plan_id": "NONE"},
	}
	for name, endpoint := range l.said.Endpoints {
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
					delete(changed, "subscriber_id") // beside which no mobile is looked at
				}
				if changed[field] = value; value == nil {
					delete(changed, field)
				}
				return changed
			}
			if l.objects(path, field, body(nil)) != text.Required {
				t.Errorf("%s: %s is required: %v in the document, and otherwise in the service", name, field, text.Required)
			}
			if !l.objects(path, field, body(7)) {
				t.Errorf("%s: %s may be a number", name, field)
			}
			taken, refused := 0, 0
			for _, length := range text.Lengths() {
				for _, candidate := range texts(length) {
					allows := text.Accepts(candidate)
					if objects := l.objects(path, field, body(candidate)); objects == allows {
						t.Errorf("%s: %s of %d characters (%s…): the document allows it: %v; the service objects: %v",
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
				t.Errorf("%s: of %s, %d texts were allowed and %d not: the line was not crossed", name, field, taken, refused)
			}
		}
	}
}

func TestContractLimits_HeadersAndParameters(t *testing.T) {
	l := newLines(t)
	balance, activate := l.said.Endpoints["GET /api/v1/balance"], l.said.Endpoints["POST /api/v1/activate"]
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
		{"mobile", l.said.Endpoints["GET /api/v1/subscription"].Query["mobile"], mobile, fault.ValidationError},
	} {
		candidates := []string{}
		for i, length := range row.text.Lengths() {
			// A nonce is used up, so each is another.
			candidates = append(candidates, strings.Repeat(string(rune('0'+i)), length))
		}
		if row.name != "mobile" {
			for c := '!'; c <= '~'; c++ { // what else a header can hold is no ASCII
				candidates = append(candidates, "character-by-character"+string(c))
			}
		}
		taken, refused := 0, 0
		for _, candidate := range candidates {
			allows := row.text.Accepts(candidate)
			if refuses := l.refuses(row.ask(candidate), row.code); refuses == allows {
				t.Errorf("%s %q (%d): the document allows it: %v; the service refuses: %v", row.name, candidate, len(candidate), allows, refuses)
			}
			if allows {
				taken++
			} else {
				refused++
			}
		}
		if taken == 0 || refused == 0 {
			t.Errorf("%s: %d texts were allowed and %d not: the line was not crossed", row.name, taken, refused)
		}
	}

	// What the service gives out and asks for is what the document describes.
	sent := l.Request(e2e.Call{As: l.me, Path: "/api/v1/balance"}).Header
	for name, text := range balance.Headers {
		if value := sent.Get(name); !text.Accepts(value) || text.Accepts(value+"!") {
			t.Errorf("%s: %q is sent, and not as the document has it", name, value)
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
	for name, endpoint := range l.said.Endpoints {
		_, path, _ := strings.Cut(name, " ")
		for parameter, text := range endpoint.Query {
			got := l.Send(e2e.Call{As: l.me, Path: fmt.Sprintf("%s?%s=1&%s=1", path, parameter, parameter)})
			if fields, _ := got.Data["fields"].(map[string]any); got.Code != fault.ValidationError || fields[parameter] == nil || text.Required {
				t.Errorf("%s: %s twice is answered %s; want the service to know the parameter", name, parameter, got.Raw)
			}
		}
	}
}
