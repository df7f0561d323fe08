package certify

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/certify/line"
	"github.com/coaxhq/coax/internal/server"
)

// startProxy lets a session listen; it answers every order with 503.
func startProxy(t *testing.T) *session {
	t.Helper()
	p := newTestSession(t, Story{Name: "plain", Line: []step{{Fault: line.Fault{Do: line.Replace, Status: 503, Body: json.RawMessage(`""`)}}}})
	if err := server.EnsureCertificate(p.service.folder, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	certificate, err := pair(p.service.folder, "tls")
	if err != nil {
		t.Fatal(err)
	}
	if p.proxy.server, p.proxy.url, err = listen(p.proxy, certificate); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.proxy.server.Close() })
	return p
}

// send sends bytes to the proxy and returns what a report says of them.
func send(t *testing.T, p *session, raw string) ([]finding, Result) {
	t.Helper()
	began := time.Now()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.proxy.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("answered %v: %v", answer, err)
	}
	exchanges, err := p.proxy.seen()
	if err != nil || len(exchanges) != 1 {
		t.Fatalf("%d exchanges: %v", len(exchanges), err)
	}
	c := &checker{session: p, exchanges: exchanges}
	c.secrets()
	return c.found, p.result(c.found, exchanges, began, time.Second)
}

const testSignature = "3b1f0c9a5d7e46a28f90b1c2d3e4f5061728394a5b6c7d8e9f00112233445566"

func request(p *session, target, headers, body string) string {
	key, _ := p.account.key()
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nx-signature:  %s\r\nX-Nonce: n1\r\nIdempotency-Key: %s\r\n%sContent-Length: %d\r\n\r\n%s",
		target, key, testSignature, p.orders[0].key, headers, len(body), body)
}

func TestRequests_AreBytesSentWithSecretsMasked(t *testing.T) {
	for name, test := range map[string]struct {
		headers, body, shown string
		escaped              bool
	}{
		"text":     {"X-Odd:   two  spaces\t\r\n", "{\"full_name\":\"Söhne \\/ \\\"x\\\"\",\n \"password\": \"s3cret\\\"rest-of-it\"}", "{\"full_name\":\"Söhne \\/ \\\"x\\\"\",\n \"password\": \"…\"}", false},
		"not text": {"", "{\"full_name\":\"\xff\xfe \\/ \x00 \\u00e9\"}", `{"full_name":"\xff\xfe \\/ \x00 \\u00e9"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t)
			key, secret := p.account.key()
			raw := request(p, "/api/v1/renew", test.headers, test.body)
			found, r := send(t, p, raw)
			want := strings.NewReplacer(key, key[:8]+"…", testSignature, testSignature[:8]+"…", test.body, test.shown).Replace(raw)
			if len(found) > 0 || len(r.Requests) != 1 || r.Requests[0].Text != want || r.Requests[0].Escaped != test.escaped {
				t.Errorf("found %v, and the request reads\n%+v; want\n%q", found, r.Requests, want)
			}
			requireMasked(t, r, secret, key, testSignature, "s3cret", "rest-of-it")
		})
	}
}

// requireMasked checks that neither the JSON nor the page of a report has any of the texts.
func requireMasked(t *testing.T, r Result, hidden ...string) {
	t.Helper()
	report, err := NewReport([]Result{r}, "1.2.3", time.Now(), []string{"adapter"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	page, err := report.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range hidden {
		one = strings.TrimPrefix(one, "cxs_")
		if bytes.Contains(text, []byte(one)) || bytes.Contains(page, []byte(one)) || strings.Contains(html.UnescapeString(string(page)), one) {
			t.Errorf("the report has %q", one)
		}
	}
}

func TestRequests_WithSecretAreFoundAndMasked(t *testing.T) {
	for name, test := range map[string]struct {
		make func(p *session, key, secret string) string
		part string
	}{
		"URL": {func(p *session, _, secret string) string { return request(p, "/api/v1/renew?secret="+secret, "", "{}") }, "URL"},
		"header": {func(p *session, _, secret string) string {
			return request(p, "/api/v1/renew", "X-API-Secret: "+secret+"\r\n", "{}")
		}, "headers"},
		"basic authentication": {func(p *session, key, secret string) string {
			return request(p, "/api/v1/renew", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(key+":"+secret))+"\r\n", "{}")
		}, "headers"},
		"body": {func(p *session, _, secret string) string {
			return request(p, "/api/v1/renew", "", `{"secret":"`+strings.ToUpper(secret)+`"}`)
		}, "body"},
		"body in two chunks": {func(p *session, key, secret string) string {
			return fmt.Sprintf("POST /api/v1/renew HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nIdempotency-Key: %s\r\nTransfer-Encoding: chunked\r\n\r\na\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
				key, p.orders[0].key, secret[:10], len(secret)-10, secret[10:])
		}, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t)
			key, secret := p.account.key()
			found, r := send(t, p, test.make(p, key, secret))
			if len(found) != 1 || found[0].fault != LeakedSecret || !strings.Contains(found[0].text, "POST /api/v1/renew has the API secret in its "+test.part) {
				t.Errorf("found %+v; want the secret in the %s", found, test.part)
			}
			if name != "body in two chunks" {
				requireMasked(t, r, secret, strings.ToUpper(secret), key, base64.StdEncoding.EncodeToString([]byte(key + ":" + secret))[60:100])
			}
		})
	}
}

// A program prints its whole order, and ends without an answer: the report quotes its output.
func TestReport_SecretInLogIsMasked(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a crash":                        `echo "X-Signature=` + testSignature + ` $order" >&2; exit 3`,
		"a line that is no outcome":      `echo "log: $order"; ` + answer,
		"an outcome with a secret in it": `echo "{\"id\":\"plain/1\",\"outcome\":\"failed\",\"code\":\"$secret\"}"`,
		"a secret where the text is cut": `printf '%*s%s\n' 270 '' "$secret" >&2; exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTestSession(t, Story{Name: "plain", Limit: 60})
			p.orders[0].body = []byte(`{"full_name":"Asha","password":"s3cret"}`)
			playScript(t, p, script)
			key, secret := p.account.key()
			c := &checker{session: p}
			for _, text := range append(p.problems, p.crash) {
				c.find(BrokeProtocol, "%s", text)
			}
			c.secrets()
			r := p.result(c.found, nil, time.Now(), time.Second)
			if !strings.Contains(fmt.Sprint(r), LeakedSecret) {
				t.Errorf("the leak is not found: %+v", r)
			}
			requireMasked(t, r, secret, strings.TrimPrefix(secret, "cxs_")[:12], key, testSignature, "s3cret")
		})
	}
}

func testReport(t *testing.T) (Report, string) {
	t.Helper()
	r, err := NewReport([]Result{
		{Name: "lost-answer", Fault: ChargedTwice, Explanation: `</script><script>alert("x")</script>`, Requests: []Request{{Text: "POST <b>"}}, Page: "/docs/guide#retries"},
		{Name: "plain", Passed: true, Happened: []string{"not text: \xff"}},
	}, "1.2.3", time.Date(2026, 11, 18, 10, 0, 0, 0, time.UTC), []string{"php", "adapter.php"})
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return r, string(page)
}

func TestReportHTML_ContainsReportAndDigest(t *testing.T) {
	r, text := testReport(t)
	_, rest, _ := strings.Cut(text, `<script type="application/json" id="report">`)
	embedded, _, found := strings.Cut(rest, "</script>")
	if !found {
		t.Fatalf("the page has no report:\n%s", text)
	}
	if r.Digest != digestOf([]byte(embedded)) {
		t.Errorf("the digest is %s; that of the page's data is %s", r.Digest, digestOf([]byte(embedded)))
	}
	for _, want := range []string{r.Digest, "1 of 2 stories failed", "2026-11-18T10:00:00Z", "1.2.3", "php adapter.php", html.EscapeString(`</script><script>alert("x")`)} {
		if !strings.Contains(text, want) && !strings.Contains(html.UnescapeString(text), html.UnescapeString(want)) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(text, `<script>alert`) || strings.Contains(text, "POST <b>") {
		t.Error("the page does not escape what a program sent")
	}
	var again Report
	if err := json.Unmarshal([]byte(embedded), &again); err != nil || again.Failed != 1 || again.Passed != 1 || again.Digest != "" {
		t.Errorf("the embedded report reads %+v, %v", again, err)
	}
	if strings.Contains(text, "http://") || strings.Contains(text, "https://") || strings.Contains(text, "<a ") {
		t.Error("the page refers to another address")
	}
}

func TestVerify_FindsChangedPages(t *testing.T) {
	r, page := testReport(t)
	passing, err := NewReport([]Result{{Name: "lost-answer", Passed: true}, {Name: "plain", Passed: true}}, "1.2.3", time.Now(), []string{"php", "adapter.php"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		page, version string
		compared      bool
		err           error
	}{
		"as written":                     {page, "1.2.3", true, nil},
		"by another version":             {page, "1.2.4", false, nil},
		"other text":                     {strings.Replace(page, "1 of 2 stories failed", "All 2 stories passed", 1), "1.2.3", true, ErrShown},
		"more text":                      {page + "<p>Certified.</p>", "1.2.3", true, ErrShown},
		"other data":                     {strings.Replace(page, `"failed":1`, `"failed":0`, 1), "1.2.3", false, ErrDigest},
		"other data, by another version": {strings.Replace(page, `"failed":1`, `"failed":0`, 1), "1.2.4", false, ErrDigest},
		"another digest":                 {strings.ReplaceAll(page, r.Digest, passing.Digest), "1.2.3", false, ErrDigest},
		"another file":                   {"<html>hello</html>", "1.2.3", false, ErrNoReport},
		"data that is no report":         {`<script type="application/json" id="report">[1]</script>`, "1.2.3", false, ErrNoReport},
	} {
		got, compared, err := Verify([]byte(test.page), test.version)
		if !errors.Is(err, test.err) || compared != test.compared {
			t.Errorf("%s: compared %v, %v; want %v, %v", name, compared, err, test.compared, test.err)
		}
		if err == nil && (got.Digest != r.Digest || got.Failed != 1) {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}
