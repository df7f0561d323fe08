package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A changed CA file counts for the next connection, without a restart; a broken one is reported
// once, and the one before stays.
func TestReloadCA_FollowsTheFile(t *testing.T) {
	provider := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"components":[]}`)
	}))
	provider.Config.ErrorLog = log.New(io.Discard, "", 0)
	provider.StartTLS()
	defer provider.Close()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	other, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	encode := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
	write(encode(other))
	g := open(t, Config{URL: provider.URL, CAFile: file})
	for _, step := range []struct {
		name    string
		text    []byte
		changed bool
		err     string
		trusted bool
	}{
		{"another authority", encode(other), false, "", false},
		{"the provider's", encode(provider.Certificate().Raw), true, "", true},
		{"unchanged", encode(provider.Certificate().Raw), false, "", true},
		{"no certificate", []byte("garbage"), false, "no certificate", true},
		{"still none", []byte("garbage"), false, "", true},
		{"another authority again", encode(other), true, "", false},
	} {
		write(step.text)
		changed, err := g.ReloadCA()
		if changed != step.changed || (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s: changed %v, %v; want %v, %q", step.name, changed, err, step.changed, step.err)
		}
		if _, err := g.Catalogue(t.Context()); (err == nil) != step.trusted {
			t.Errorf("%s: the catalogue: %v; want it trusted: %v", step.name, err, step.trusted)
		}
	}
}
