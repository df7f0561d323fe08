//go:build long

package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
)

// Prism, which reads openapi.yaml with a validator of its own, agrees with the answers of
// every endpoint: successes and refusals.
func TestPrism_SeesNoViolation(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t)
	prism := e2e.StartPrism(t, w.Demo.BaseURL, filepath.Join(w.Folder, "ca.pem"))
	me := w.NewFundedOperator("Prism", "10000.00")
	poor := w.NewFundedOperator("Poor", "0")
	narrow := w.NewOperator("Narrow", access.PermissionsOf(access.CheckBalance))

	seen, found := 0, 0
	// send sends a call through Prism. Prism serves the paths as openapi.yaml has them; the
	// signature is about the path at the service.
	send := func(want string, c e2e.Call) map[string]any {
		t.Helper()
		request := w.Request(c)
		request.URL.Scheme, request.URL.Host, request.Host = prism.Scheme, prism.Host, ""
		request.URL.Path = strings.TrimPrefix(request.URL.Path, "/api/v1")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s %s: %d %s", request.Method, c.Path, response.StatusCode, body)
		var answer struct {
			Code string
			Data map[string]any
		}
		if err := json.Unmarshal(body, &answer); err != nil || answer.Code != want {
			t.Fatalf("%s, %v; want %s", what, err, want)
		}
		found += e2e.CheckViolations(t, response, body)
		seen++
		return answer.Data
	}
	get := func(want, path string) map[string]any {
		t.Helper()
		return send(want, e2e.Call{As: me, Path: "/api/v1" + path})
	}
	post := func(want string, as e2e.Caller, key, path, body string) map[string]any {
		t.Helper()
		return send(want, e2e.Call{As: as, Method: http.MethodPost, Path: "/api/v1" + path, Body: body, Header: http.Header{"Idempotency-Key": {key}}})
	}
	activation := func(mobile, plan string) string {
		return fmt.Sprintf(`{"full_name":"Asha Rao","mobile":"%s","plan_id":"%s"}`, mobile, plan)
	}

	get("OK", "/balance")
	get("OK", "/plans")
	send("MISSING_AUTH_HEADERS", e2e.Call{As: me, Path: "/api/v1/balance", Drop: []string{"X-Signature"}})
	send("INVALID_SIGNATURE", e2e.Call{As: me, Path: "/api/v1/balance", Signature: strings.Repeat("0", 64)})
	send("PERMISSION_DENIED", e2e.Call{As: narrow, Path: "/api/v1/plans"})

	made := post("OK", me, "prism-key-1", "/activate", activation("9812345678", "BASIC-1"))
	post("OK", me, "prism-key-1", "/activate", activation("9812345678", "BASIC-1"))
	post("IDEMPOTENCY_KEY_REUSED", me, "prism-key-1", "/activate", activation("9812345679", "BASIC-1"))
	post("SUBSCRIBER_EXISTS", me, "prism-key-2", "/activate", activation("9812345678", "BASIC-1"))
	post("VALIDATION_ERROR", me, "prism-key-3", "/activate", activation("98", "BASIC-1"))
	post("INVALID_PLAN", me, "prism-key-4", "/activate", activation("9812345680", "NONE"))
	post("PROVIDER_ERROR", me, "prism-key-5", "/activate", activation("9000010000", "BASIC-1"))
	post("PENDING_REVIEW", me, "prism-key-6", "/activate", activation("9000040000", "BASIC-1"))
	post("OPERATION_IN_PROGRESS", me, "prism-key-7", "/activate", activation("9000040000", "BASIC-1"))
	post("OK", me, "prism-key-8", "/activate", activation("9000060000", "COMBO-1"))
	post("INSUFFICIENT_BALANCE", poor, "prism-key-9", "/activate", activation("9812345681", "BASIC-1"))

	customer, _ := made["customer"].(map[string]any)
	id, _ := customer["subscriber_id"].(string)
	renewal := func(id, plan string) string { return fmt.Sprintf(`{"subscriber_id":"%s","plan_id":"%s"}`, id, plan) }
	post("PLAN_ALREADY_ACTIVE", me, "prism-key-14", "/advance-renew", renewal(id, "BASIC-1"))
	post("OK", me, "prism-key-10", "/renew", renewal(id, "BASIC-1"))
	post("DUPLICATE_REQUEST", me, "prism-key-11", "/renew", renewal(id, "BASIC-1"))
	post("SUBSCRIBER_NOT_FOUND", me, "prism-key-12", "/renew", renewal("999999", "BASIC-1"))
	post("OK", me, "prism-key-13", "/advance-renew", renewal(id, "COMBO-1"))

	get("OK", "/subscription?subscriber_id="+id)
	get("SUBSCRIBER_NOT_FOUND", "/subscription?subscriber_id=999999")
	get("VALIDATION_ERROR", "/subscription")
	for _, key := range []string{"1", "5", "6", "10", "13"} {
		get("OK", "/transaction?idempotency_key=prism-key-"+key)
	}
	get("TRANSACTION_NOT_FOUND", "/transaction?idempotency_key=prism-key-none")
	if seen < 25 || found == 0 {
		t.Errorf("%d answers went through Prism; want at least 25. It found %d malformed requests; want some", seen, found)
	}
}
