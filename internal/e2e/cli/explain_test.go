package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestCall_Explain(t *testing.T) {
	t.Parallel()
	p := e2e.SharedDemo(t)
	file := p.Credentials()
	explained := func(args ...string) string {
		t.Helper()
		got := e2e.Run(t, append([]string{"call", "--explain", "--credentials", file}, args...)...)
		if got.Code != e2e.ExitDone {
			t.Errorf("%q: %s; want exit 0", args, got)
		}
		cliCheckSecretHidden(t, got, p.Demo.APISecret)
		return got.Err + got.Out
	}
	e2e.CheckMentions(t, "a balance", explained("GET", "balance?b=2&a=1"),
		"1 method           GET\n", "2 path             /api/v1/balance\n", "3 canonical query  a=1&b=2\n",
		"X-Signature: ", "What came back:\nHTTP 200 OK\n", `"wallet_balance"`, "\nWhat to do next:\nNothing: it is done.")
	rejected := explained("POST", "activate", "--idempotency-key", "explain-rejected",
		"--data", `{"full_name":"Asha","mobile":"9000011717","plan_id":"BASIC-1"}`)
	e2e.CheckMentions(t, "a rejection", rejected, "Idempotency-Key: explain-rejected\n", "PROVIDER_REJECTED", "This key is used up", "provider_message says why")
	e2e.CheckMentions(t, "an unknown subscriber", explained("GET", "subscription?subscriber_id=999999"), "This operator has no such subscriber")

	wrong := e2e.RunWithEnv(t, []string{"COAX_API_SECRET=cxs_wrong"}, "call", "GET", "balance", "--explain", "--credentials", file)
	e2e.CheckMentions(t, "a wrong secret", wrong.Err, "coax sign METHOD PATH --compare FILE")
}

func TestCall_ExplainWithoutAnswer(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/renew" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	environ := []string{"COAX_BASE_URL=" + proxy.URL + "/api/v1", "COAX_API_KEY=cxk_k", "COAX_API_SECRET=cxs_s"}
	lost := e2e.RunWithEnv(t, environ, "call", "POST", "renew", "--explain", "--idempotency-key", "order-4711", "--data", "{}")
	if lost.Code != e2e.ExitRefused {
		t.Errorf("no answer: %s; want exit 1", lost)
	}
	e2e.CheckMentions(t, "no answer", lost.Err, "No answer.", "with the same idempotency key")
	foreign := e2e.RunWithEnv(t, environ, "call", "GET", "elsewhere", "--explain")
	e2e.CheckMentions(t, "a proxy's answer", foreign.Err, "HTTP 502", "not the service's", "Check base_url")
}

func TestCall_Profiles(t *testing.T) {
	t.Parallel()
	p := e2e.SharedDemo(t)
	home := t.TempDir()
	folder := filepath.Join(home, ".config", "coax")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(p.Demo.CACert)
	if err != nil {
		t.Fatal(err)
	}
	e2e.WriteFile(t, filepath.Join(folder, "shop.pem"), string(ca))
	shop := "[shop]\nbase_url = \"" + p.Demo.BaseURL + "\"\napi_key = \"" + p.Demo.APIKey + "\"\napi_secret = \"" + p.Demo.APISecret + "\"\nca_cert = \"shop.pem\"\n"
	file := e2e.WriteFile(t, filepath.Join(folder, "profiles.toml"), shop+"\n[empty]\n")
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	balance := func(environ []string, args ...string) e2e.Result {
		return e2e.RunWithEnv(t, environ, append([]string{"call", "GET", "balance"}, args...)...)
	}
	atHome := []string{"HOME=" + home}
	e2e.CheckMentions(t, "a profile", e2e.RequireOK(t, balance(atHome, "--profile", "shop")).Out, `"success": true`)
	e2e.CheckMentions(t, "a named file", e2e.RequireOK(t, balance([]string{"COAX_PROFILES=" + file}, "--profile", "shop")).Out, `"success": true`)
	e2e.RequireOK(t, e2e.RunWithEnv(t, atHome, "sign", "GET", "balance", "--profile", "shop"))

	e2e.CheckRefused(t, balance(atHome, "--profile", "shoop"), `no profile "shoop"; it has empty, shop`)
	e2e.CheckRefused(t, balance(atHome, "--profile", "empty"), "base_url is missing", "--profile")
	e2e.CheckRefused(t, balance([]string{"HOME=/none"}, "--profile", "shop"), "/none/.config/coax/profiles.toml", "[shop]")
	e2e.CheckRefused(t, balance(nil, "--profile", "shop"), "COAX_PROFILES")
	if both := balance(atHome, "--profile", "shop", "--credentials", p.Credentials()); both.Code != e2e.ExitUsage {
		t.Errorf("a profile and a file: %s; want exit 2", both)
	}
	for name, text := range map[string]string{"not TOML": "[shop", "an unknown key": shop + "secret = \"x\"\n"} {
		bad := e2e.WriteFile(t, filepath.Join(t.TempDir(), "p.toml"), text)
		if err := os.Chmod(bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got := balance([]string{"COAX_PROFILES=" + bad}, "--profile", "shop")
		if got.Code != e2e.ExitRefused || !strings.Contains(got.Err, bad) {
			t.Errorf("%s: %s; want exit 1 and the file's name", name, got)
		}
		cliCheckSecretHidden(t, got, p.Demo.APISecret)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	e2e.CheckRefused(t, balance(atHome, "--profile", "shop"), "other users", "chmod 600 "+file)
}

func TestSign_Compare(t *testing.T) {
	t.Parallel()
	environ := []string{"COAX_API_SECRET=cxs_published_test_secret_never_issued_0001"}
	const body = `{"a":1}`
	right := "POST\n/api/v1/renew\n\n1767225601\nnonce_of_16_chars\n" + "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
	compare := func(text string) e2e.Result {
		file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "signed.txt"), text)
		return e2e.RunWithEnv(t, environ, "sign", "POST", "renew", "--data", body, "--compare", file)
	}
	e2e.CheckMentions(t, "the same string", e2e.RequireOK(t, compare(right)).Out, "Your string is the same.")
	for name, tt := range map[string]struct {
		text  string
		wants []string
	}{
		"a body with a space":  {strings.Replace(right, "015abd", "115abd", 1), []string{"line 6 (body hash)", "byte 1: 1 instead of 0"}},
		"a lower-case method":  {strings.Replace(right, "POST", "post", 1), []string{"line 1 (method), byte 1: p instead of P", "upper case"}},
		"a newline at the end": {right + "\n", []string{"line 7"}},
		"carriage returns":     {strings.ReplaceAll(right, "\n", "\r\n"), []string{"line 1 (method), byte 5: ␍"}},
		"nothing":              {"", []string{"line 1"}},
	} {
		got := compare(tt.text)
		if got.Code != e2e.ExitRefused {
			t.Errorf("%s: %s; want exit 1", name, got)
		}
		e2e.CheckMentions(t, name, got.Out, tt.wants...)
	}
	missing := e2e.RunWithEnv(t, environ, "sign", "POST", "renew", "--compare", "/none/signed.txt")
	e2e.CheckRefused(t, missing, "/none/signed.txt")
}

func TestVectors_PrintAndCheck(t *testing.T) {
	t.Parallel()
	printed := e2e.RequireOK(t, e2e.Run(t, "vectors")).Out
	e2e.CheckMentions(t, "vectors", printed, "3 canonical query", "6 body sha-256", "signature  ")
	text := e2e.RequireOK(t, e2e.Run(t, "vectors", "--json")).Out
	var vectors []map[string]any
	if err := json.Unmarshal([]byte(text), &vectors); err != nil || len(vectors) < 50 {
		t.Fatalf("vectors --json prints %d vectors: %v", len(vectors), err)
	}
	check := func(change func(first map[string]any), args ...string) e2e.Result {
		var copied []map[string]any
		if err := json.Unmarshal([]byte(text), &copied); err != nil {
			t.Fatal(err)
		}
		change(copied[0])
		mine, err := json.Marshal(copied)
		if err != nil {
			t.Fatal(err)
		}
		file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "mine.json"), string(mine))
		return e2e.Run(t, append([]string{"vectors", "--check", file}, args...)...)
	}
	all := e2e.RequireOK(t, check(func(map[string]any) {}))
	e2e.CheckMentions(t, "the same vectors", all.Out, "vectors agree")
	for name, tt := range map[string]struct {
		change func(map[string]any)
		stage  string
	}{
		"a wrong query":             {func(v map[string]any) { v["canonical_query"], v["signature"] = "x", "y" }, "canonical_query"},
		"a wrong hash":              {func(v map[string]any) { v["body_sha256"] = "x" }, "body_sha256"},
		"a wrong string":            {func(v map[string]any) { v["string_to_sign"] = "x" }, "string_to_sign"},
		"a wrong signature":         {func(v map[string]any) { v["signature"] = "x" }, "signature"},
		"no signature":              {func(v map[string]any) { delete(v, "signature") }, "signature"},
		"a vector that is left out": {func(v map[string]any) { v["name"] = "another" }, "missing"},
	} {
		got := check(tt.change)
		if got.Code != e2e.ExitRefused || !strings.Contains(got.Out, tt.stage+" differs") {
			t.Errorf("%s: %s; want exit 1 and the stage %s", name, got, tt.stage)
		}
		var report struct {
			Checked int
			Failed  []struct{ Name, Stage string }
		}
		got = check(tt.change, "--json")
		if err := json.Unmarshal([]byte(got.Out), &report); err != nil || report.Checked != len(vectors) || len(report.Failed) != 1 || report.Failed[0].Stage != tt.stage {
			t.Errorf("%s: %s; want one failure at %s", name, got, tt.stage)
		}
	}
	broken := e2e.WriteFile(t, filepath.Join(t.TempDir(), "mine.json"), "{")
	e2e.CheckRefused(t, e2e.Run(t, "vectors", "--check", broken), broken, "not a JSON array")
}
