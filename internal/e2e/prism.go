package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// StartPrism starts Prism as a proxy that validates against openapi.yaml, and returns its
// address. ca is a file with the upstream's authority, if it has its own.
func StartPrism(t testing.TB, upstream, ca string) *url.URL {
	t.Helper()
	program := os.Getenv("COAX_TEST_PRISM")
	if program == "" {
		t.Skip("COAX_TEST_PRISM does not name Prism; make openapi-lint installs it")
	}
	document, err := filepath.Abs("../../../contract/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(address)
	command := exec.CommandContext(t.Context(), program, "proxy", "--host", "127.0.0.1", "--port", port, "--errors=false", document, upstream)
	if ca != "" {
		command.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+ca)
	}
	var output strings.Builder
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("Prism printed:\n%s", output.String())
		}
	})
	deadline := time.After(2 * time.Minute)
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return &url.URL{Scheme: "http", Host: address}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatal("Prism does not listen")
		}
	}
}

// CheckViolations reports what Prism says about an answer that it forwarded, and returns how
// many violations it has seen. A request that is refused for its form violates the document;
// its answer must not.
func CheckViolations(t testing.TB, response *http.Response, body []byte) int {
	t.Helper()
	text := response.Header.Get("Sl-Violations")
	if text == "" {
		return 0
	}
	what := response.Request.Method + " " + response.Request.URL.Path + ": " + response.Status + " " + string(body)
	var violations []struct {
		Location []string
		Message  string
	}
	if err := json.Unmarshal([]byte(text), &violations); err != nil {
		t.Fatalf("%s: Prism says %s", what, text)
	}
	var answer struct{ Code string }
	_ = json.Unmarshal(body, &answer)
	malformed := response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusBadRequest || answer.Code == "VALIDATION_ERROR"
	for _, v := range violations {
		if len(v.Location) == 0 || v.Location[0] != "request" || !malformed {
			t.Errorf("%s\nPrism says about %v: %s", what, v.Location, v.Message)
		}
	}
	return len(violations)
}
