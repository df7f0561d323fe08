package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/signing"
)

func TestCall_AgainstDemo(t *testing.T) {
	t.Parallel()
	p := e2e.SharedDemo(t)
	file := p.Credentials()
	for _, args := range [][]string{
		{"GET", "/api/v1/balance"}, {"get", "/api/v1/balance"}, {"GET", "balance"}, {"GET", "/api/v1/balance?unknown=a+b&x=%2f"},
	} {
		got := e2e.RequireOK(t, e2e.Run(t, append([]string{"call", "--credentials", file}, args...)...))
		e2e.CheckMentions(t, strings.Join(args, " "), got.Out, `"success": true`, `"wallet_balance": 10000.00`)
		if !json.Valid([]byte(got.Out)) {
			t.Errorf("%q prints what is no JSON: %s", args, got.Out)
		}
	}
	e2e.CheckMentions(t, "plans", e2e.RequireOK(t, e2e.Run(t, "call", "GET", "plans", "--credentials", file)).Out, "FAMILY-3", "999.00")

	included := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "balance", "-i", "--credentials", file)).Out
	e2e.CheckMentions(t, "call -i", included, "HTTP 200 OK\n", "Cache-Control: no-store\n", "X-Ratelimit-Limit: 100000\n", "\n\n{\n")

	// A refusal of the service's is an answer like any other, unless --fail.
	wrong := []string{"call", "GET", "nothing", "--credentials", file}
	e2e.CheckMentions(t, "an unknown path", e2e.RequireOK(t, e2e.Run(t, wrong...)).Out, `"code": "NOT_FOUND"`)
	for _, flag := range []string{"--fail", "-f"} {
		failed := e2e.Run(t, append(wrong, flag)...)
		if failed.Code != e2e.ExitRefused || failed.Err != "coax: the service answered 404\n" {
			t.Errorf("call %s: %s; want exit 1 and the status", flag, failed)
		}
		e2e.CheckMentions(t, "call "+flag, failed.Out, `"code": "NOT_FOUND"`)
	}
	e2e.RequireOK(t, e2e.Run(t, "call", "GET", "balance", "--fail", "--credentials", file))
}

func TestCall_CredentialsFromFileAndEnvironment(t *testing.T) {
	t.Parallel()
	p := e2e.SharedDemo(t)
	line := p.Demo
	environ := []string{"COAX_BASE_URL=" + line.BaseURL, "COAX_CA_CERT=" + line.CACert, "COAX_API_KEY=" + line.APIKey, "COAX_API_SECRET=" + line.APISecret}
	e2e.CheckMentions(t, "a call by the environment", e2e.RequireOK(t, e2e.RunWithEnv(t, environ, "call", "GET", "balance")).Out, `"success": true`)

	// The environment wins over the file, variable by variable.
	file := p.Credentials()
	another := e2e.RunWithEnv(t, []string{"COAX_API_KEY=cxk_0000000000000000000000000000dead"}, "call", "GET", "balance", "--credentials", file)
	e2e.CheckMentions(t, "a call with another key", e2e.RequireOK(t, another).Out, `"INVALID_API_KEY"`)
	another = e2e.RunWithEnv(t, []string{"COAX_API_SECRET=cxs_wrong"}, "call", "GET", "balance", "--credentials", file)
	e2e.CheckMentions(t, "a call with another secret", e2e.RequireOK(t, another).Out, `"INVALID_SIGNATURE"`)
	partial := e2e.WriteFile(t, filepath.Join(t.TempDir(), "c.json"), `{"base_url":"https://127.0.0.1:1/api/v1","api_key":"x","api_secret":"y"}`)
	e2e.CheckMentions(t, "a call by both", e2e.RequireOK(t, e2e.RunWithEnv(t, environ, "call", "GET", "balance", "--credentials", partial)).Out, `"success": true`)
	// An empty variable is none.
	e2e.CheckMentions(t, "a call beside an empty variable", e2e.RequireOK(t, e2e.RunWithEnv(t, []string{"COAX_API_KEY="}, "call", "GET", "balance", "--credentials", file)).Out, `"success": true`)

	for name, variable := range map[string]string{"base_url": "COAX_BASE_URL", "api_key": "COAX_API_KEY", "api_secret": "COAX_API_SECRET"} {
		without := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool { return strings.HasPrefix(entry, variable+"=") })
		got := e2e.RunWithEnv(t, without, "call", "GET", "balance")
		e2e.CheckRefused(t, got, name+" is missing", "--credentials", variable)
		cliCheckSecretHidden(t, got, line.APISecret)
	}
	without := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool { return strings.HasPrefix(entry, "COAX_CA_CERT=") })
	e2e.CheckRefused(t, e2e.RunWithEnv(t, without, "call", "GET", "balance"), "certificate", "COAX_CA_CERT")
	other := e2e.NewInstall(t).Folder + "/ca.pem"
	e2e.CheckRefused(t, e2e.RunWithEnv(t, append(without, "COAX_CA_CERT="+other), "call", "GET", "balance"), "does not come from the CA in "+other)
}

func cliCheckSecretHidden(t testing.TB, got e2e.Result, secret string) {
	t.Helper()
	if strings.Contains(got.Out+got.Err, secret) {
		t.Errorf("the secret is shown: %s", got)
	}
}

func TestCall_Errors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const secret = "cxs_do_not_show_me"
	credentials := func(text string) string { return e2e.WriteFile(t, filepath.Join(folder, "c.json"), text) }
	refused := func(file string, want ...string) {
		t.Helper()
		got := e2e.Run(t, "call", "GET", "balance", "--credentials", file)
		e2e.CheckRefused(t, got, want...)
		cliCheckSecretHidden(t, got, secret)
	}
	refused(filepath.Join(folder, "none.json"), "credentials", "none.json")
	refused(credentials("cxs_do_not_show_me"), "c.json", "JSON")
	refused(credentials(`{"base_url":1}`), "c.json", "JSON")
	refused(credentials(`{"base_url":"127.0.0.1","api_key":"k","api_secret":"cxs_do_not_show_me"}`), "127.0.0.1", "https://")
	refused(credentials(`{"base_url":"https://127.0.0.1:1/api/v1","api_key":"k","api_secret":"cxs_do_not_show_me"}`), "127.0.0.1:1", "refused")
	refused(credentials(`{"base_url":"https://127.0.0.1:1/api/v1","api_key":"k","api_secret":"cxs_do_not_show_me","ca_cert":"/none/ca.pem"}`), "CA certificate", "/none/ca.pem")
	refused(credentials(`{"base_url":"https://127.0.0.1:1/api/v1","api_key":"k","api_secret":"cxs_do_not_show_me","ca_cert":"`+folder+`/c.json"}`), "c.json", "PEM")

	good := credentials(`{"base_url":"https://127.0.0.1:1/api/v1","api_key":"k","api_secret":"cxs_do_not_show_me"}`)
	e2e.CheckRefused(t, e2e.Run(t, "call", "POST", "renew", "--data", "@"+folder+"/none.json", "--credentials", good), "body", "none.json")
}

// cliReceived is a request as it was received.
type cliReceived struct {
	method, path, query, body string
	header                    http.Header
}

// cliRecorder starts a server that records its requests, and returns the environment of a
// caller that uses it.
func cliRecorder(t testing.TB, answer string) (received <-chan cliReceived, environ []string) {
	t.Helper()
	requests := make(chan cliReceived, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- cliReceived{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return requests, []string{"COAX_BASE_URL=" + server.URL + "/api/v1", "COAX_API_KEY=cxk_recorded", "COAX_API_SECRET=cxs_recorded"}
}

func TestCall_SendsWhatItSigned(t *testing.T) {
	t.Parallel()
	received, environ := cliRecorder(t, "not JSON, printed as it is\n")
	const body = "{ \"name\": \"रवि\" }\r\n"
	file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "body.json"), body)

	for _, test := range []struct {
		name  string
		args  []string
		stdin string
		want  cliReceived
		key   []string
	}{
		{"a body on the command line", []string{"POST", "/api/v1/renew", "--data", body, "--idempotency-key", "order 1"}, "",
			cliReceived{method: "POST", path: "/api/v1/renew", body: body}, []string{"order 1"}},
		{"a body from a file, to the byte", []string{"post", "renew", "--data", "@" + file, "--idempotency-key", ""}, "",
			cliReceived{method: "POST", path: "/api/v1/renew", body: body}, []string{""}},
		{"a body from standard input", []string{"POST", "renew", "--data", "@-"}, body,
			cliReceived{method: "POST", path: "/api/v1/renew", body: body}, nil},
		{"a query as it was written", []string{"GET", "/api/v1/subscription?mobile=98765+43210&x=%41&&b"}, "",
			cliReceived{method: "GET", path: "/api/v1/subscription", query: "mobile=98765+43210&x=%41&&b"}, nil},
		{"an escaped path", []string{"GET", "/api/v1/a%2Fb"}, "",
			cliReceived{method: "GET", path: "/api/v1/a%2Fb"}, nil},
		{"another version", []string{"GET", "/api/v2/balance"}, "",
			cliReceived{method: "GET", path: "/api/v2/balance"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Run as a process, to give it a standard input.
			command := exec.Command(e2e.Binary(t), append([]string{"call"}, test.args...)...)
			command.Env, command.Stdin = e2e.Environ(environ...), strings.NewReader(test.stdin)
			out, err := command.CombinedOutput()
			if err != nil || string(out) != "not JSON, printed as it is\n" {
				t.Fatalf("call: %v\n%s", err, out)
			}
			got := <-received
			header := got.header
			got.header = nil
			if got.method != test.want.method || got.path != test.want.path || got.query != test.want.query || got.body != test.want.body {
				t.Errorf("sent %+v; want %+v", got, test.want)
			}
			if !slices.Equal(header.Values("Idempotency-Key"), test.key) || header.Get("X-API-Key") != "cxk_recorded" {
				t.Errorf("sent with %v; want the key and idempotency key %q", header, test.key)
			}
			signed := signing.Request{
				Method: got.method, Path: got.path, RawQuery: got.query, Timestamp: header.Get("X-Timestamp"), Nonce: header.Get("X-Nonce"), Body: []byte(got.body),
			}
			if !signed.Verify("cxs_recorded", header.Get("X-Signature")) {
				t.Errorf("what arrived was not what was signed: %+v %v", got, header)
			}
		})
	}
}
