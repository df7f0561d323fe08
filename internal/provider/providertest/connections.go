package providertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// checkNothingSent makes every call without a connection: an order is rejected,
// because it cannot have been carried out; the status of an earlier order stays
// unknown.
func checkNothingSent(t *testing.T, provider operation.Provider) {
	t.Helper()
	answers := concurrently(len(calls), func(i int) operation.Reply {
		return calls[i].do(provider, sample(calls[i].kind, "CX1", "9812345678"))
	})
	for i, c := range calls {
		wanted := unknown
		if c.isOrder() {
			wanted = notSent
		}
		wanted.check(t, c.name, answers[i])
	}
}

// connections checks that a failed connection counts as nothing sent.
func connections(t *testing.T, connect Connect) {
	t.Run("refused, at once", func(t *testing.T) {
		t.Parallel()
		// An address that no other test listens on.
		checkNothingSent(t, connect(t, Link{URL: "http://127.77.1.9:9", Timeout: longTimeout}))
	})
	t.Run("no such host", func(t *testing.T) {
		t.Parallel()
		checkNothingSent(t, connect(t, Link{URL: "http://provider.invalid", Timeout: shortTimeout}))
	})
	t.Run("plain HTTP where TLS is expected", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil, func(x *exchange) { x.hangUp() })
		checkNothingSent(t, connect(t, Link{URL: "https://" + s.address(), Timeout: longTimeout}))
		if _, requests := s.counts("CX1"); requests != 0 {
			t.Errorf("%d requests arrived unencrypted", requests)
		}
	})
	t.Run("a TLS handshake that is never answered", func(t *testing.T) {
		t.Parallel()
		s := serveRaw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
		checkNothingSent(t, connect(t, Link{URL: "https://" + s.address(), Timeout: shortTimeout}))
	})
	t.Run("a TLS handshake that is cut off", func(t *testing.T) {
		t.Parallel()
		s := serveRaw(t, reset)
		checkNothingSent(t, connect(t, Link{URL: "https://" + s.address(), Timeout: longTimeout}))
	})
	t.Run("closed after the connection: unknown outcome", func(t *testing.T) {
		t.Parallel()
		s := serveRaw(t, func(conn net.Conn) { _ = conn.Close() })
		provider := connect(t, Link{URL: "http://" + s.address(), Timeout: longTimeout})
		for _, c := range calls {
			unknown.check(t, c.name, c.do(provider, sample(c.kind, "CX1", "9812345678")))
		}
	})
}

// certificates checks that nothing is sent to a server without a valid
// certificate.
func certificates(t *testing.T, connect Connect) {
	trusted, other := newAuthority(t), newAuthority(t)
	confirms := func(x *exchange) {
		x.send(good(appliedTo(sample(operation.Renew, "CX1", "9812345678")).String()).bytes())
	}
	link := func(s *server) Link {
		return Link{URL: "https://" + s.address(), CAFile: trusted.file, Timeout: longTimeout}
	}

	for version, name := range map[uint16]string{tls.VersionTLS12: "TLS 1.2", tls.VersionTLS13: "TLS 1.3"} {
		t.Run("the right authority, "+name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &tls.Config{
				Certificates: []tls.Certificate{trusted.issue(t, "127.0.0.1", 2100)}, MinVersion: version, MaxVersion: version,
			}, confirms)
			provider := connect(t, link(s))
			for _, c := range calls {
				confirmed.check(t, c.name, c.do(provider, sample(c.kind, "CX1", "9812345678")))
			}
		})
	}

	refused := []struct {
		name   string
		server *tls.Config
	}{
		{"another authority", &tls.Config{Certificates: []tls.Certificate{other.issue(t, "127.0.0.1", 2100)}}},
		{"another host", &tls.Config{Certificates: []tls.Certificate{trusted.issue(t, "127.0.0.2", 2100)}}},
		{"expired", &tls.Config{Certificates: []tls.Certificate{trusted.issue(t, "127.0.0.1", 2001)}}},
		{"TLS 1.1 at most", &tls.Config{
			Certificates: []tls.Certificate{trusted.issue(t, "127.0.0.1", 2100)},
			MinVersion:   tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
		}},
		{"requires a client certificate, TLS 1.2", &tls.Config{
			Certificates: []tls.Certificate{trusted.issue(t, "127.0.0.1", 2100)},
			ClientAuth:   tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12,
		}},
	}
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.server, confirms)
			checkNothingSent(t, connect(t, link(s)))
			if _, requests := s.counts("CX1"); requests != 0 {
				t.Errorf("%d requests arrived", requests)
			}
		})
	}

	// In TLS 1.3 the client completes the handshake and sends its request before
	// it learns that the server refused it.
	t.Run("requires a client certificate, TLS 1.3", func(t *testing.T) {
		t.Parallel()
		s := serve(t, &tls.Config{
			Certificates: []tls.Certificate{trusted.issue(t, "127.0.0.1", 2100)},
			ClientAuth:   tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13,
		}, confirms)
		provider := connect(t, link(s))
		for _, c := range calls {
			unknown.check(t, c.name, c.do(provider, sample(c.kind, "CX1", "9812345678")))
		}
	})
}

// authority is a certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

func newAuthority(t testing.TB) *authority {
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "Authority for tests"},
		NotBefore:             time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &authority{certificate: certificate, key: key, file: file}
}

// issue makes a certificate for an address, valid until the given year begins.
func (a *authority) issue(t testing.TB, address string, until int) tls.Certificate {
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "provider"},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(until, 1, 1, 0, 0, 0, 0, time.UTC),
		IPAddresses:  []net.IP{net.ParseIP(address)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
