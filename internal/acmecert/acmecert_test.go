package acmecert_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/acmecert"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
)

// directory is an address at which nothing listens.
const directory = "https://127.0.0.1:1/directory"

// installation is a store with its master key, and a clock.
type installation struct {
	*testing.T
	store *sqlite.DB
	vault *access.Vault
	now   time.Time
	node  int
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	text, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	vault, err := access.OpenVault(text)
	if err != nil {
		t.Fatal(err)
	}
	return &installation{T: t, store: sqlitetest.New(t), vault: vault, now: time.Now().UTC().Truncate(time.Millisecond)}
}

func (i *installation) must(err error) {
	i.Helper()
	if err != nil {
		i.Fatal(err)
	}
}

// manager returns the manager of another node, which logs to log.
func (i *installation) manager(log chan<- string, names ...string) *acmecert.Manager {
	i.Helper()
	i.node++
	now := i.now
	m := acmecert.New(i.store, i.vault, acmecert.Config{
		Names: names, Directory: directory, Node: fmt.Sprint("node-", i.node), Now: func() time.Time { return now },
		Log: slog.New(slog.NewTextHandler(lines{log}, nil)),
	})
	i.must(m.Load(i.Context()))
	return m
}

// lines passes log lines on, if there is a channel for them.
type lines struct{ to chan<- string }

func (l lines) Write(line []byte) (int, error) {
	if l.to != nil {
		l.to <- string(line)
	}
	return len(line), nil
}

var serials atomic.Int64

// bundle makes a certificate for names, with its key.
func (i *installation) bundle(from, until time.Time, names ...string) (text []byte, leaf *x509.Certificate) {
	i.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serials.Add(1)), NotBefore: from, NotAfter: until, DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	i.must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	i.must(err)
	leaf, err = x509.ParseCertificate(der)
	i.must(err)
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...), leaf
}

// issue stores a certificate of 90 days, of which this many are over, as the node that ordered it.
func (i *installation) issue(age int, names ...string) *x509.Certificate {
	i.Helper()
	from := i.now.AddDate(0, 0, -age)
	text, leaf := i.bundle(from, from.AddDate(0, 0, 90), names...)
	id := acmecert.CertificateID(directory, names)
	sealed, err := i.vault.SealACME(text, id)
	i.must(err)
	i.finish(id, acmecert.Issued{Sealed: sealed, Expires: leaf.NotAfter, RenewAt: acmecert.RenewAt(leaf)})
	return leaf
}

func (i *installation) finish(id string, issued acmecert.Issued) {
	i.Helper()
	claim := acmecert.Claim{ID: id, Node: "issuer", Now: i.now, Until: i.now.Add(time.Minute)}
	claimed, err := i.store.ClaimACMEOrder(i.Context(), claim)
	i.must(err)
	held, err := i.store.FinishACMEOrder(i.Context(), claim, issued)
	i.must(err)
	if !claimed || !held {
		i.Fatalf("the certificate was not stored: claimed %v, held %v", claimed, held)
	}
}

// handshake connects to a listener of the manager.
func handshake(t *testing.T, m *acmecert.Manager, config *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	config.InsecureSkipVerify = true
	go func() {
		protocols := []string{"http/1.1", acme.ALPNProto}
		_ = tls.Server(server, &tls.Config{GetCertificate: m.GetCertificate, NextProtos: protocols}).HandshakeContext(context.WithoutCancel(t.Context()))
		_ = server.Close()
	}()
	conn := tls.Client(client, config)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

func TestManager_ServesStoredCertificateToAnyName(t *testing.T) {
	i := newInstallation(t)
	none := i.manager(nil, "api.example.com")
	if got, err := handshake(t, none, &tls.Config{ServerName: "api.example.com"}); err == nil {
		t.Errorf("without a certificate %v is served", got.Subject)
	}
	want := i.issue(0, "api.example.com", "panel.example.com")
	m := i.manager(nil, "panel.example.com", "api.example.com")
	for _, config := range []*tls.Config{
		{ServerName: "api.example.com"}, {ServerName: "panel.example.com"}, {ServerName: "other.example.com"}, {},
		{ServerName: "api.example.com", NextProtos: []string{"http/1.1"}},
		{ServerName: "api.example.com", NextProtos: []string{"http/1.1", acme.ALPNProto}},
	} {
		if got, err := handshake(t, m, config); err != nil || !got.Equal(want) {
			t.Errorf("a client that asks for %q (%q) gets %v, %v", config.ServerName, config.NextProtos, got, err)
		}
	}
}

func TestManager_AddedNameKeepsOldCertificate(t *testing.T) {
	i := newInstallation(t)
	i.issue(0, "old.example.com")
	one := i.issue(0, "api.example.com")
	two := i.issue(0, "api.example.com", "panel.example.com")
	for _, row := range []struct {
		names []string
		want  *x509.Certificate
	}{
		{[]string{"api.example.com"}, one},
		{[]string{"api.example.com", "new.example.com"}, two}, // both have one of the names; the later in order
		{[]string{"api.example.com", "panel.example.com", "new.example.com"}, two},
		{[]string{"new.example.com"}, nil},
	} {
		got := i.manager(nil, row.names...).Current()
		switch {
		case row.want == nil && got != nil:
			t.Errorf("for %q: %q", row.names, got.Leaf.DNSNames)
		case row.want != nil && (got == nil || got.Leaf.DNSNames[0] != row.want.DNSNames[0]):
			t.Errorf("for %q: %v; want %q", row.names, got, row.want.DNSNames)
		}
	}
}

// Any node answers the authority, with what the ordering one has stored.
func TestManager_AnswersChallengeOfOtherNode(t *testing.T) {
	i := newInstallation(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	i.must(err)
	sealed, err := i.vault.SealACME(secret, "account "+directory)
	i.must(err)
	i.must(i.store.SaveACMESecret(t.Context(), "account "+directory, sealed))
	i.must(i.store.SaveACMEChallenge(t.Context(), acmecert.Challenge{
		Name: "api.example.com", Account: "account " + directory, Token: "token-1", Expires: i.now.Add(time.Minute),
	}))
	m := i.manager(nil, "api.example.com")

	validation := func(name string) (*x509.Certificate, error) {
		return handshake(t, m, &tls.Config{ServerName: name, NextProtos: []string{acme.ALPNProto}})
	}
	got, err := validation("API.example.com")
	i.must(err)
	response, err := (&acme.Client{Key: key}).HTTP01ChallengeResponse("token-1")
	i.must(err)
	sum := sha256.Sum256([]byte(response))
	want, err := asn1.Marshal(sum[:])
	i.must(err)
	found := false
	for _, extension := range got.Extensions {
		found = found || extension.Critical && extension.Id.String() == "1.3.6.1.5.5.7.1.31" && bytes.Equal(extension.Value, want)
	}
	if !found || len(got.DNSNames) != 1 || got.DNSNames[0] != "api.example.com" {
		t.Errorf("the answer for %q has the extensions %v", got.DNSNames, got.Extensions)
	}
	if got, err := validation("other.example.com"); err == nil {
		t.Errorf("a name without a challenge gets %v", got.Subject)
	}
	if got, err := handshake(t, m, &tls.Config{ServerName: "api.example.com", NextProtos: []string{"http/1.1"}}); err == nil {
		t.Errorf("a client gets %v, and there is no certificate", got.Subject)
	}

	// An account that is put into another row does not open.
	i.must(i.store.SaveACMESecret(t.Context(), "account other", sealed))
	i.must(i.store.SaveACMEChallenge(t.Context(), acmecert.Challenge{Name: "api.example.com", Account: "account other", Token: "token-1", Expires: i.now.Add(time.Minute)}))
	if got, err := validation("api.example.com"); err == nil {
		t.Errorf("with the key of another row it gets %v", got.Subject)
	}
}

// run runs a manager until the test ends. line waits for a line of its log.
func (i *installation) run(names ...string) (m *acmecert.Manager, line func(part string) string) {
	i.Helper()
	log := make(chan string, 100)
	m = i.manager(log, names...)
	ctx, stop := context.WithCancel(i.Context())
	ended := make(chan struct{})
	go func() { m.Run(ctx); close(ended) }()
	i.Cleanup(func() { stop(); <-ended })
	return m, func(part string) string {
		i.Helper()
		timeout := time.After(time.Minute)
		for {
			select {
			case text := <-log:
				if strings.Contains(text, part) {
					return text
				}
			case <-timeout:
				i.Fatalf("the log does not say %q", part)
			}
		}
	}
}

func (i *installation) awaitFailures(count int) acmecert.State {
	i.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		state, err := i.store.ACMEState(i.Context(), acmecert.CertificateID(directory, []string{"api.example.com"}))
		i.must(err)
		if state.Failures == count {
			return state
		}
	}
	i.Fatalf("%d failures are not recorded", count)
	return acmecert.State{}
}

func TestManager_FailedRenewalKeepsCertificate(t *testing.T) {
	i := newInstallation(t)
	want := i.issue(61, "api.example.com")
	m, line := i.run("api.example.com")
	for n, pause := range []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
		text := line("could not be ordered")
		if !strings.Contains(text, "connection refused") || !strings.Contains(text, "served_until=") {
			t.Errorf("the log says %s", text)
		}
		state := i.awaitFailures(n + 1)
		if !strings.Contains(state.Problem, "connection refused") || !state.NextTry.Equal(i.now.Add(pause)) || !state.LeaseUntil.IsZero() {
			t.Errorf("after failure %d: %+v; want the next try after %s", n+1, state, pause)
		}
		if m.Problem() == "" || !m.Current().Leaf.Equal(want) {
			t.Errorf("after failure %d: problem %q, serving %v", n+1, m.Problem(), m.Current().Leaf.DNSNames)
		}
		m.RetryNow()
	}
}

func TestManager_NotDueIsNotOrdered(t *testing.T) {
	i := newInstallation(t)
	i.issue(59, "api.example.com")
	m, _ := i.run("api.example.com")
	second := i.issueAgain("api.example.com")
	m.RetryNow()
	for deadline := time.Now().Add(time.Minute); !m.Current().Leaf.Equal(second); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the newer certificate was not taken")
		}
	}
	if m.Problem() != "" {
		t.Errorf("it was ordered: %s", m.Problem())
	}
}

// issueAgain replaces a certificate as a node whose clock is ahead: by that clock it is due,
// by the clock of the others it never is.
func (i *installation) issueAgain(names ...string) *x509.Certificate {
	i.Helper()
	i.now = i.now.AddDate(0, 0, 10)
	return i.issue(10, names...)
}

// A certificate that was sealed under a lost key is ordered again.
func TestManager_UnusableCertificateIsOrderedAgain(t *testing.T) {
	i := newInstallation(t)
	id := acmecert.CertificateID(directory, []string{"api.example.com"})
	i.finish(id, acmecert.Issued{Sealed: []byte("garbage"), Expires: i.now.AddDate(0, 0, 90), RenewAt: i.now.AddDate(0, 0, 60)})
	m, line := i.run("api.example.com")
	line("cannot be used")
	m.RetryNow()
	line("could not be ordered")
}
