package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/fault"
)

// The document draws lines: so long, of these characters, required or not. On
// either side of each of them the service is asked, and has to say the same. A
// line that moves in one of the two alone is noticed here.

// lines is a world with an operator who may try as much as it likes.
type lines struct {
	*world
	me   caller
	said contracttest.Description
}

func newLines(t *testing.T) lines {
	w := newWorld(t)
	return lines{world: w, me: w.rich("me", "100000"), said: contracttest.Describe(t)}
}

// refuse sends a call and reports whether it was refused with a code. So many
// failures in a minute would shut the caller out, so the minute passes.
func (l lines) refuses(c call, code fault.Code) bool {
	l.t.Helper()
	c.as = l.me
	got := l.send(c)
	if got.status == http.StatusUnauthorized {
		l.pass(5 * time.Second)
	}
	return got.code == code
}

// objects posts a body and reports whether the service objects to a field of it.
// The plan is none, so that nothing is ever sold.
func (l lines) objects(path, field string, body map[string]any) bool {
	l.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		l.t.Fatal(err)
	}
	got := l.send(call{as: l.me, method: http.MethodPost, path: path, body: string(text)})
	if got.code != fault.InvalidPlan && got.code != fault.ValidationError {
		l.t.Fatalf("%s %s: %s; want it to fail at a field or at the plan", path, text, got.raw)
	}
	fields, _ := got.data["fields"].(map[string]any)
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

func TestTheServiceTakesTheFieldsThatTheDocumentAllows(t *testing.T) {
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

func TestTheServiceTakesTheHeadersAndParametersThatTheDocumentAllows(t *testing.T) {
	l := newLines(t)
	balance, activate := l.said.Endpoints["GET /api/v1/balance"], l.said.Endpoints["POST /api/v1/activate"]
	nonce := func(text string) call { return call{path: "/api/v1/balance", nonce: text} }
	key := func(text string) call {
		return call{method: http.MethodPost, path: "/api/v1/activate", body: "{}", header: http.Header{"Idempotency-Key": {text}}}
	}
	mobile := func(text string) call { return call{path: "/api/v1/subscription?mobile=" + text} }
	for _, row := range []struct {
		name string
		text contracttest.Text
		ask  func(string) call
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
	sent := l.request(call{as: l.me, path: "/api/v1/balance"}).Header
	for name, text := range balance.Headers {
		if value := sent.Get(name); !text.Accepts(value) || text.Accepts(value+"!") {
			t.Errorf("%s: %q is sent, and not as the document has it", name, value)
		}
		if !text.Required || !l.refuses(call{path: "/api/v1/balance", drop: []string{name}}, fault.MissingAuthHeaders) {
			t.Errorf("%s may be missing", name)
		}
	}
	without := key("order-0001")
	without.drop = []string{"Idempotency-Key"}
	if !activate.Headers["Idempotency-Key"].Required || !l.refuses(without, fault.MissingIdempotencyKey) {
		t.Error("the Idempotency-Key may be missing")
	}
	for name, endpoint := range l.said.Endpoints {
		_, path, _ := strings.Cut(name, " ")
		for parameter, text := range endpoint.Query {
			got := l.send(call{as: l.me, path: fmt.Sprintf("%s?%s=1&%s=1", path, parameter, parameter)})
			if fields, _ := got.data["fields"].(map[string]any); got.code != fault.ValidationError || fields[parameter] == nil || text.Required {
				t.Errorf("%s: %s twice is answered %s; want the service to know the parameter", name, parameter, got.raw)
			}
		}
	}
}
