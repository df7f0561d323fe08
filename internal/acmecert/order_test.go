package acmecert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
)

func TestPauseAfter_GrowsAndHeedsTheAuthority(t *testing.T) {
	limited := func(after string) error {
		return fmt.Errorf("begin an order: %w", &acme.Error{ProblemType: "urn:ietf:params:acme:error:rateLimited", Header: http.Header{"Retry-After": {after}}})
	}
	refused := errors.New("connection refused")
	for _, row := range []struct {
		failures int
		err      error
		want     time.Duration
	}{
		{1, refused, 2 * time.Minute},
		{2, refused, 4 * time.Minute},
		{5, refused, 32 * time.Minute},
		{6, refused, time.Hour},
		{1000, refused, time.Hour},
		{1, limited("7200"), 2 * time.Hour},
		{6, limited("60"), time.Hour},
		{1, limited("9999999"), 24 * time.Hour},
		{1, limited(""), 2 * time.Minute},
	} {
		if got := pauseAfter(row.failures, row.err); got != row.want {
			t.Errorf("after %d failures, the last with %v: %s; want %s", row.failures, row.err, got, row.want)
		}
	}
}

func TestSeal_RefusesUnusableCertificates(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(to *ecdsa.PrivateKey, names ...string) [][]byte {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: names}
		der, err := x509.CreateCertificate(rand.Reader, template, template, to.Public(), to)
		if err != nil {
			t.Fatal(err)
		}
		return [][]byte{der}
	}
	m := New(nil, nil, Config{Names: []string{"api.example.com", "panel.example.com"}})
	for name, chain := range map[string][][]byte{
		"no certificate": nil,
		"no DER":         {[]byte("garbage")},
		"another key":    issue(other, "api.example.com", "panel.example.com"),
		"a name missing": issue(key, "api.example.com"),
	} {
		if _, err := m.seal(chain, key); err == nil || !strings.Contains(err.Error(), "cannot be used") {
			t.Errorf("%s: %v; want it refused", name, err)
		}
	}
}

func TestPrintable_KeepsTextShortAndValid(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"two\nlines\tand\x00 a zero", "two lines and a zero"},
		{"broken \xff text", "broken  text"},
		{strings.Repeat("é", maxProblem), strings.Repeat("é", maxProblem/2) + "…"},
		{"x" + strings.Repeat("é", maxProblem), "x" + strings.Repeat("é", maxProblem/2-1) + "…"},
	} {
		if got := printable(row.text); got != row.want {
			t.Errorf("printable(%.40q…) = %.40q…; want %.40q…", row.text, got, row.want)
		}
	}
}
