// Package acmecert orders the service's TLS certificate from an authority with ACME and
// TLS-ALPN-01, and renews it. All nodes share one certificate through the store, where its key
// is sealed. It does not listen: the listener asks Manager.GetCertificate, also for the
// authority's validation connections, which any node answers.
package acmecert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
)

const (
	// pollEvery is how often a node looks whether there is a newer certificate, or one to order.
	pollEvery = 5 * time.Second
	// leaseFor is how long a node may order without extending its lease: after its death,
	// another one waits as long.
	leaseFor = time.Minute
	// orderTimeout bounds one try to get a certificate.
	orderTimeout = 5 * time.Minute
	// firstPause is the pause after a failed order. It doubles with each one, so that there are
	// at most five in the first hour, which is what public authorities allow.
	firstPause = 2 * time.Minute
	maxPause   = time.Hour
	// maxProblem limits a stored problem, in bytes.
	maxProblem = 1000
)

// State is what the store knows of a certificate.
type State struct {
	// Version grows with each certificate; 0 means there is none yet.
	Version          int64
	Expires, RenewAt time.Time
	Node             string
	LeaseUntil       time.Time
	Failures         int
	Problem          string
	NextTry          time.Time
}

// Due reports whether the certificate should be ordered now, by any node.
func (s State) Due(now time.Time) bool {
	return !now.Before(s.RenewAt) && !now.Before(s.NextTry) && !now.Before(s.LeaseUntil)
}

// Claim is a node's lease on an order.
type Claim struct {
	ID, Node   string
	Now, Until time.Time
}

// Issued is a new certificate, sealed.
type Issued struct {
	Sealed           []byte
	Expires, RenewAt time.Time
}

// Challenge is what an authority looks for at a name until it expires. Account is the id of the
// sealed account key.
type Challenge struct {
	Name, Account, Token string
	Expires              time.Time
}

// Store is what nodes share. Times are those of the machines' clocks.
type Store interface {
	ACMEState(ctx context.Context, id string) (State, error)
	// ACMECertificates returns the ids of the certificates that have not expired.
	ACMECertificates(ctx context.Context, now time.Time) ([]string, error)
	// ACMESecret returns a sealed secret; nil if there is none.
	ACMESecret(ctx context.Context, id string) ([]byte, error)
	SaveACMESecret(ctx context.Context, id string, sealed []byte) error
	// ClaimACMEOrder takes the lease if the certificate is due.
	ClaimACMEOrder(ctx context.Context, c Claim) (claimed bool, err error)
	ExtendACMEOrder(ctx context.Context, c Claim) (held bool, err error)
	// FinishACMEOrder stores the certificate and ends the lease, if the caller still has it.
	FinishACMEOrder(ctx context.Context, c Claim, issued Issued) (held bool, err error)
	// FailACMEOrder ends the lease. Without a problem the order was given up, and did not fail.
	FailACMEOrder(ctx context.Context, c Claim, problem string, nextTry time.Time) error
	// RetryACMEOrder ends the pause after a failed order.
	RetryACMEOrder(ctx context.Context, id string) error
	// DropACMECertificate makes a certificate due that cannot be used, if it is still this version.
	DropACMECertificate(ctx context.Context, id string, version int64) error
	// TakeOverACMEOrders ends all leases. The caller must know that no other node is running.
	TakeOverACMEOrders(ctx context.Context) error
	SaveACMEChallenge(ctx context.Context, c Challenge) error
	// ACMEChallenge returns the token to answer with at a name, and the sealed account key.
	ACMEChallenge(ctx context.Context, name string, now time.Time) (c Challenge, sealed []byte, found bool, err error)
}

// Vault seals private keys under the master key, each for its id.
type Vault interface {
	SealACME(secret []byte, id string) ([]byte, error)
	OpenACME(sealed []byte, id string) ([]byte, error)
}

// Config is what to order, and from whom.
type Config struct {
	// Names are the names in the certificate, in lower case.
	Names     []string
	Email     string
	Directory string
	// Roots reads the authorities that are accepted for the directory's own certificate; nil
	// for the system's.
	Roots func() (*x509.CertPool, error)
	// Node names this process.
	Node string
	Now  func() time.Time
	Log  *slog.Logger
}

// Manager holds the certificate that a node serves with.
type Manager struct {
	store  Store
	vault  Vault
	config Config
	id     string
	// current is nil until there is a certificate.
	current atomic.Pointer[held]
	problem atomic.Pointer[string]
	retry   chan struct{}
	// storeProblem is the last one that Run has logged, so that each is logged once.
	storeProblem string
}

// held is a certificate with its id and version. The id is another one's while the names that
// are configured have none of their own.
type held struct {
	id      string
	version int64
	pair    tls.Certificate
}

// New returns a Manager; Load gives it the certificate that the store has.
func New(store Store, vault Vault, config Config) *Manager {
	return &Manager{store: store, vault: vault, config: config, id: CertificateID(config.Directory, config.Names), retry: make(chan struct{}, 1)}
}

// CertificateID identifies the certificate of an authority for some names.
func CertificateID(directory string, names []string) string {
	return "certificate " + directory + " " + strings.Join(slices.Sorted(slices.Values(names)), ",")
}

// accountID identifies the account key for an authority.
func accountID(directory string) string { return "account " + directory }

// namesIn returns the names in a certificate's id.
func namesIn(id string) []string {
	return strings.Split(id[strings.LastIndex(id, " ")+1:], ",")
}

// Current returns the certificate in use; nil if there is none yet.
func (m *Manager) Current() *tls.Certificate {
	if h := m.current.Load(); h != nil {
		return &h.pair
	}
	return nil
}

// Problem returns why the last order failed; "" if it did not.
func (m *Manager) Problem() string {
	if text := m.problem.Load(); text != nil {
		return *text
	}
	return ""
}

// errNone is the error of handshakes before the first certificate.
var errNone = errors.New("there is no TLS certificate yet: the first one is being ordered")

// GetCertificate returns the certificate, whichever name the client asks for. An authority's
// validation connection, told by its protocol, gets the answer to the challenge for the name.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.ALPNProto {
		return m.answerChallenge(hello.Context(), strings.ToLower(strings.TrimSuffix(hello.ServerName, ".")))
	}
	if c := m.Current(); c != nil {
		return c, nil
	}
	return nil, errNone
}

// answerChallenge reads the challenge from the store, where the ordering node has put it.
func (m *Manager) answerChallenge(ctx context.Context, name string) (*tls.Certificate, error) {
	challenge, sealed, found, err := m.store.ACMEChallenge(ctx, name, m.config.Now())
	if err != nil {
		m.config.Log.Warn("an authority's validation connection was not answered", "name", name, "error", err)
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("no certificate is being ordered for %q", name)
	}
	key, err := m.openAccount(sealed, challenge.Account)
	if err != nil {
		return nil, err
	}
	answer, err := (&acme.Client{Key: key}).TLSALPN01ChallengeCert(challenge.Token, name)
	if err != nil {
		return nil, fmt.Errorf("answer the challenge for %s: %w", name, err)
	}
	return &answer, nil
}

// Load takes the certificate that the store has. Without one for exactly these names it takes
// another that has not expired and has most of them, so that a name can be added without a gap.
func (m *Manager) Load(ctx context.Context) error {
	state, err := m.store.ACMEState(ctx, m.id)
	if err != nil {
		return err
	}
	m.problem.Store(&state.Problem)
	if state.Version > 0 && m.take(ctx, state.Version) == nil && m.config.Now().Before(state.Expires) {
		return nil
	}
	ids, err := m.store.ACMECertificates(ctx, m.config.Now())
	if err != nil {
		return err
	}
	var best *held
	for _, id := range ids {
		pair, err := m.read(ctx, id)
		if err == nil && m.covered(id) > 0 && (best == nil || m.covered(id) > m.covered(best.id)) {
			best = &held{id, 0, pair}
		}
	}
	if best != nil {
		m.current.Store(best)
		return nil
	}
	if m.Current() != nil {
		return nil // expired, which tells clients more than none
	}
	m.config.Log.Warn("there is no TLS certificate yet: clients are refused until the first one is ordered",
		"names", m.config.Names, "directory", m.config.Directory)
	return nil
}

// covered returns how many of the configured names another certificate has.
func (m *Manager) covered(id string) (count int) {
	for _, name := range namesIn(id) {
		if slices.Contains(m.config.Names, name) {
			count++
		}
	}
	return count
}

// read reads a certificate from the store.
func (m *Manager) read(ctx context.Context, id string) (tls.Certificate, error) {
	sealed, err := m.store.ACMESecret(ctx, id)
	if err != nil {
		return tls.Certificate{}, err
	}
	text, err := m.vault.OpenACME(sealed, id)
	if err != nil {
		return tls.Certificate{}, &unusableError{err}
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return tls.Certificate{}, &unusableError{err}
	}
	return pair, nil
}

// unusableError is the error of a certificate that is in the store and cannot be opened.
type unusableError struct{ err error }

func (e *unusableError) Error() string { return e.err.Error() }

func (e *unusableError) Unwrap() error { return e.err }

// take makes the store's certificate the current one.
func (m *Manager) take(ctx context.Context, version int64) error {
	pair, err := m.read(ctx, m.id)
	if err != nil {
		return err
	}
	m.current.Store(&held{m.id, version, pair})
	return nil
}

// RetryNow orders now, if a certificate is due and only the pause after a failed order is in
// the way.
func (m *Manager) RetryNow() {
	select {
	case m.retry <- struct{}{}:
	default:
	}
}

// Run keeps the certificate current until the context ends.
func (m *Manager) Run(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if err := m.step(ctx); err != nil && ctx.Err() == nil {
			if text := err.Error(); text != m.storeProblem {
				m.config.Log.Warn("look for a newer TLS certificate in the store", "error", err)
				m.storeProblem = text
			}
		} else {
			m.storeProblem = ""
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-m.retry:
			if err := m.store.RetryACMEOrder(ctx, m.id); err != nil {
				m.config.Log.Warn("end the pause after a failed order", "error", err)
			}
		}
	}
}

// step takes a newer certificate, or orders one that is due.
func (m *Manager) step(ctx context.Context) error {
	state, err := m.store.ACMEState(ctx, m.id)
	if err != nil {
		return err
	}
	m.problem.Store(&state.Problem)
	if have := m.current.Load(); state.Version > 0 && (have == nil || have.id != m.id || have.version != state.Version) {
		err := m.take(ctx, state.Version)
		var unusable *unusableError
		switch {
		case err == nil:
			m.config.Log.Info("a newer TLS certificate was taken from the store", "names", m.config.Names, "expires_at", state.Expires)
		case !errors.As(err, &unusable):
			return err
		case m.config.Now().Before(state.RenewAt):
			m.config.Log.Error("the TLS certificate in the store cannot be used; another one is ordered", "error", err)
			return m.store.DropACMECertificate(ctx, m.id, state.Version)
		}
	}
	now := m.config.Now()
	if !state.Due(now) {
		return nil
	}
	claim := Claim{ID: m.id, Node: m.config.Node, Now: now, Until: now.Add(leaseFor)}
	claimed, err := m.store.ClaimACMEOrder(ctx, claim)
	if err != nil || !claimed {
		return err
	}
	return m.orderClaimed(ctx, claim, state.Failures)
}

// orderClaimed orders under a lease, and records how it ended.
func (m *Manager) orderClaimed(ctx context.Context, claim Claim, failures int) error {
	m.config.Log.Info("ordering a TLS certificate", "names", m.config.Names, "directory", m.config.Directory)
	issued, err := m.orderUnderLease(ctx, claim)
	if err == nil {
		err := m.Load(ctx)
		m.config.Log.Info("a TLS certificate was ordered", "names", m.config.Names, "expires_at", issued.Expires, "renewed_from", issued.RenewAt)
		return err
	}
	// Also while the node stops: another one need not wait for the end of the lease.
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if ctx.Err() != nil {
		return m.store.FailACMEOrder(recording, claim, "", time.Time{})
	}
	nextTry := m.config.Now().Add(pauseAfter(failures+1, err))
	problem := printable(err.Error())
	m.problem.Store(&problem)
	details := []any{"names", m.config.Names, "directory", m.config.Directory, "error", problem, "failures", failures + 1, "next_try_at", nextTry}
	if c := m.Current(); c != nil {
		details = append(details, "served_until", c.Leaf.NotAfter)
	}
	m.config.Log.Error("the TLS certificate could not be ordered", details...)
	return m.store.FailACMEOrder(recording, claim, problem, nextTry)
}

// pauseAfter returns how long to wait after some failures in a row, the last with err.
func pauseAfter(failures int, err error) time.Duration {
	pause := maxPause
	if failures < 10 {
		pause = min(maxPause, firstPause<<(failures-1))
	}
	var refused *acme.Error
	if errors.As(err, &refused) {
		if after, limited := acme.RateLimit(refused); limited {
			pause = min(max(pause, after), 24*time.Hour)
		}
	}
	return pause
}

// printable makes an authority's text fit for the store and the log.
func printable(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(strings.ReplaceAll(text, "\x00", "")), " "), "")
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return text
}
