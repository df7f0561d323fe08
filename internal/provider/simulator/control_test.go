package simulator

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOutcomeFor_SixthDigitOf90000(t *testing.T) {
	tests := map[string]Outcome{
		"9000001234": Success, "9000011234": Reject, "9000021234": TimeoutApplied, "9000031234": TimeoutNotApplied,
		"9000041234": GatewayError, "9000051234": WrongReference, "9000061234": AddonFails, "9000071234": Slow,
		"9000081234": Unknowable, "9000091234": ResetApplied,
		"9812345678": Success, "8000011234": Success, "9000111234": Success, "900001123": Success, "90000112345": Success,
		"90000x1234": Success, "90000": Success, "": Success,
	}
	for mobile, want := range tests {
		if got := OutcomeFor(mobile); got != want {
			t.Errorf("OutcomeFor(%q) = %s; want %s", mobile, got, want)
		}
	}
}

func TestOutcomes_Names(t *testing.T) {
	want := "success, reject, timeout_applied, timeout_not_applied, gateway_error, wrong_reference, addon_fails, slow, unknowable, reset_applied"
	if got := names(); got != want {
		t.Errorf("the outcomes are %s; want %s", got, want)
	}
}

func TestControl_InvalidCommands(t *testing.T) {
	s := newSimulator(t, Config{})
	tests := []struct{ name, method, path, body, want string }{
		{"a script for no mobile", "POST", "/control/script", `{"outcomes":["reject"]}`, "ten digits"},
		{"a script for a short mobile", "POST", "/control/script", `{"mobile":"981234567","outcomes":["reject"]}`, "ten digits"},
		{"a script without outcomes", "POST", "/control/script", `{"mobile":"9812345678"}`, "outcomes must be a list"},
		{"a script with an unknown outcome", "POST", "/control/script", `{"mobile":"9812345678","outcomes":["reject","explode"]}`, "explode"},
		{"a script with a number", "POST", "/control/script", `{"mobile":"9812345678","outcomes":[1]}`, "JSON"},
		{"a misspelt name", "POST", "/control/script", `{"mobile":"9812345678","outcome":["reject"]}`, "outcome"},
		{"two commands", "POST", "/control/script", `{"mobile":"9812345678","outcomes":["reject"]}{}`, "follows"},
		{"no JSON", "POST", "/control/script", `reject`, "JSON"},
		{"nothing", "POST", "/control/status", ``, "JSON"},
		{"an empty status", "POST", "/control/status", `{}`, "mode, catalogue or reversals"},
		{"an unknown mode", "POST", "/control/status", `{"mode":"sideways"}`, "sideways"},
		{"a good mode beside a wrong catalogue", "POST", "/control/status", `{"mode":"down","catalogue":"slow"}`, "slow"},
		{"an unknown component", "POST", "/control/components", `{"code":"TV-X","sellable":false}`, "TV-X"},
		{"a component without sellable", "POST", "/control/components", `{"code":"TV-BASIC"}`, "sellable"},
		{"calls by reference", "GET", "/control/calls?reference=CX1", ``, "mobile=NUMBER"},
		{"calls of an empty mobile", "GET", "/control/calls?mobile=", ``, "mobile=NUMBER"},
		{"the wrong method", "GET", "/control/script", ``, "wants POST"},
		{"an unknown path", "POST", "/control/explode", `{}`, "no /control/explode"},
		{"a body that is too large", "POST", "/control/script", strings.Repeat(" ", maxBody+1), "larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(s, tt.method, tt.path, tt.body)
			if got.code < 400 || got.code > 499 || !strings.HasPrefix(got.text, `{"error":"`) || !strings.Contains(got.text, tt.want) {
				t.Errorf("got %+v; want a 4xx that says %q", got, tt.want)
			}
		})
	}
	renew(s, "CX1", "9812345678").check(t, 200, `"status":"applied"`)
}

func TestControl_ModeAndCatalogueAreIndependent(t *testing.T) {
	s := newSimulator(t, Config{})
	catalogue := func() reply { return ask(s, "GET", "/v1/catalogue", "") }
	catalogue().check(t, 200, `{"code":"TV-BASIC","name":"Basic television","role":"main"}`, `"TV-FAMILY"`, `{"code":"OTT-PLUS","name":"Streaming pack","role":"addon"}`)

	ask(s, "POST", "/control/status", `{"catalogue":"down"}`).check(t, 200, `{"catalogue":"down","mode":"up"}`)
	catalogue().check(t, 503)
	renew(s, "CX1", "9812345678").check(t, 200, `"status":"applied"`)

	ask(s, "POST", "/control/status", `{"mode":"down"}`).check(t, 200, `{"catalogue":"down","mode":"down"}`)
	for _, path := range []string{"/v1/catalogue", "/v1/status?reference=CX1", "/v1/nowhere"} {
		if got := ask(s, "GET", path, ""); !got.dropped {
			t.Errorf("GET %s while down = %+v; want no answer", path, got)
		}
	}
	if got := renew(s, "CX2", "9812345678"); !got.dropped {
		t.Errorf("an order while down = %+v; want no answer", got)
	}

	ask(s, "POST", "/control/status", `{"mode":"up","catalogue":"up"}`).check(t, 200)
	catalogue().check(t, 200)
	ask(s, "GET", "/v1/status?reference=CX2", "").check(t, 200, `"unknown_reference"`)
}

func TestControl_WithdrawnComponent(t *testing.T) {
	s := newSimulator(t, Config{})
	ask(s, "POST", "/control/components", `{"code":"TV-BASIC","sellable":false}`).check(t, 200)
	if got := ask(s, "GET", "/v1/catalogue", ""); strings.Contains(got.text, "TV-BASIC") || !strings.Contains(got.text, "TV-FAMILY") {
		t.Errorf("the catalogue is %s; want TV-FAMILY and no TV-BASIC", got.text)
	}
	renew(s, "CX1", "9812345678").check(t, 200, `"rejected"`, "not for sale")
	ask(s, "POST", "/control/components", `{"code":"TV-BASIC","sellable":true}`).check(t, 200)
	renew(s, "CX2", "9812345678").check(t, 200, `"applied"`)
	renew(s, "CX1", "9812345678").check(t, 200, `"rejected"`)
}

func TestScript_EmptyEndsScript(t *testing.T) {
	s := newSimulator(t, Config{})
	ask(s, "POST", "/control/script", `{"mobile":"9812345678","outcomes":["reject","reject"]}`).check(t, 200)
	renew(s, "CX1", "9812345678").check(t, 200, `"rejected"`)
	ask(s, "POST", "/control/script", `{"mobile":"9812345678","outcomes":[]}`).check(t, 200)
	renew(s, "CX2", "9812345678").check(t, 200, `"applied"`)
}

func TestScript_OverridesNumber(t *testing.T) {
	s := newSimulator(t, Config{})
	ask(s, "POST", "/control/script", `{"mobile":"9000011111","outcomes":["success"]}`).check(t, 200)
	renew(s, "CX1", "9000011111").check(t, 200, `"applied"`)
	renew(s, "CX2", "9000011111").check(t, 200, `"rejected"`)
}

func TestCalls_Fields(t *testing.T) {
	at := time.Date(2027, 3, 1, 6, 30, 0, 0, time.UTC)
	s := newSimulator(t, Config{Now: func() time.Time { return at }})
	activation := strings.Replace(orderFor("CX1", "9812345678", "TV-FAMILY"), "{", `{"name":"A","password":"hunter2",`, 1)
	ask(s, "POST", "/v1/activate", activation).check(t, 200, `"applied"`)
	ask(s, "POST", "/v1/activate", activation).check(t, 200, `"applied"`)
	ask(s, "GET", "/v1/status?reference=CX1", "").check(t, 200, `"applied"`)
	ask(s, "POST", "/v1/void", `{"reference":"CX1"}`).check(t, 200, `"applied"`)
	ask(s, "POST", "/v1/advance-renew", orderFor("CX2", "9000041111", "TV-BASIC")).check(t, 503)
	ask(s, "GET", "/v1/status?reference=CX2", "").check(t, 200, `"unknown_reference"`)
	ask(s, "GET", "/v1/catalogue", "").check(t, 200)

	first := listed(t, s, "?mobile=9812345678")
	want := map[string]any{
		"reference": "CX1", "kind": "activate", "component": "TV-FAMILY", "applied": true, "mobile": "9812345678",
		"subscriber_id": "100234", "outcome": "success", "answer": "applied", "transaction_id": "SIM-00000001",
		"months": 1.0, "start_date": "2027-03-01", "expires_at": "2027-03-31T12:00:00+05:30", "password_given": true,
		"at": "2027-03-01T06:30:00Z",
	}
	if len(first) != 4 || !reflect.DeepEqual(first[0], want) {
		t.Errorf("the calls about 9812345678 are %v; want four, the first %v", first, want)
	}
	var listedCalls []string
	for _, call := range append(first, listed(t, s, "?mobile=9000041111")...) {
		listedCalls = append(listedCalls, fmt.Sprintf("%v %v %v %v", call["kind"], call["component"], call["applied"], call["answer"]))
	}
	wantCalls := []string{
		"activate TV-FAMILY true applied",
		"activate TV-FAMILY false applied",
		"status TV-FAMILY false applied",
		"void TV-FAMILY false applied",
		"advance_renew TV-BASIC false 503",
		"status TV-BASIC false unknown_reference",
	}
	if !slices.Equal(listedCalls, wantCalls) {
		t.Errorf("the calls are %q; want %q", listedCalls, wantCalls)
	}
	if all := listed(t, s, ""); len(all) != 7 || all[6]["kind"] != "catalogue" {
		t.Errorf("all calls are %v; want seven, the catalogue last", all)
	}
	if none := ask(s, "GET", "/control/calls?mobile=9899999999", ""); none.text != "[]" {
		t.Errorf("the calls of an unknown mobile are %s; want []", none.text)
	}
	if strings.Contains(ask(s, "GET", "/control/calls", "").text, "hunter2") {
		t.Error("the password was stored")
	}
}

func TestProtocol_InvalidRequests(t *testing.T) {
	s := newSimulator(t, Config{})
	tests := []struct {
		name, method, path, body string
		code                     int
	}{
		{"no JSON", "POST", "/v1/renew", `reference=CX1`, 400},
		{"no reference", "POST", "/v1/renew", `{}`, 400},
		{"a reference that is a number", "POST", "/v1/renew", `{"reference":1}`, 400},
		{"void without a reference", "POST", "/v1/void", `{}`, 400},
		{"status without a reference", "GET", "/v1/status", ``, 400},
		{"status of two references", "GET", "/v1/status?reference=CX1&reference=CX2", ``, 400},
		{"another method", "GET", "/v1/renew", ``, 405},
		{"another path", "POST", "/v1/explode", `{}`, 404},
		{"a body that is too large", "POST", "/v1/renew", strings.Repeat(" ", maxBody+1), 413},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(s, tt.method, tt.path, tt.body)
			got.check(t, tt.code, `{"error":"`)
			if strings.Contains(got.text, `"status"`) {
				t.Errorf("got %s, which reads like an answer", got.text)
			}
		})
	}
	form := httptest.NewRequest("POST", "/v1/renew", strings.NewReader(orderFor("CX1", "9812345678", "TV-BASIC")))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	serve(s, form).check(t, 415)
	if effects := s.Effects(); len(effects) != 0 {
		t.Errorf("they had effects: %v", effects)
	}
}

func TestOrder_InvalidFieldsAreRejected(t *testing.T) {
	s := newSimulator(t, Config{})
	tests := map[string][2]string{
		"no subscriber":  {`"100234"`, `""`},
		"a short mobile": {"9812345678", "981234567"},
		"no months":      {`"months":1`, `"months":0`},
		"no such day":    {"2027-03-01", "2027-02-30"},
		"no such time":   {"2027-03-31T12:00:00+05:30", "2027-03-31 12:00:00"},
	}
	for name, change := range tests {
		body := strings.Replace(orderFor("CX-"+name, "9812345678", "TV-BASIC"), change[0], change[1], 1)
		ask(s, "POST", "/v1/renew", body).check(t, 200, `"rejected"`, `"message":"`)
	}
}

func TestToken_IsRequired(t *testing.T) {
	s := newSimulator(t, Config{Token: "t0ken"})
	for _, header := range []string{"", "t0ken", "Bearer other", "bearer t0ken"} {
		request := httptest.NewRequest("GET", "/v1/catalogue", nil)
		request.Header.Set("Authorization", header)
		serve(s, request).check(t, 401)
	}
	request := httptest.NewRequest("GET", "/v1/catalogue", nil)
	request.Header.Set("Authorization", "Bearer t0ken")
	serve(s, request).check(t, 200)
	ask(s, "GET", "/control/calls", "").check(t, 200)
}
