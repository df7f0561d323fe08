package acmecert

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/crypto/acme"
)

// errLeaseLost ends an order that another node may have taken over.
var errLeaseLost = errors.New("the lease of this order was lost")

// orderUnderLease orders and stores a certificate, and extends the lease meanwhile.
func (m *Manager) orderUnderLease(ctx context.Context, claim Claim) (Issued, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	ctx, lose := context.WithCancelCause(ctx)
	extended := make(chan struct{})
	go func() {
		defer close(extended)
		m.extend(ctx, claim, lose)
	}()
	defer func() {
		lose(nil)
		<-extended
	}()
	issued, err := m.order(ctx)
	if err == nil {
		err = m.finish(ctx, claim, issued)
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errLeaseLost) {
		err = cause
	}
	return issued, err
}

// extend extends the lease until the context ends. A store that does not answer is asked again
// as long as the lease lasts.
func (m *Manager) extend(ctx context.Context, claim Claim, lose context.CancelCauseFunc) {
	ticker := time.NewTicker(leaseFor / 6)
	defer ticker.Stop()
	until := claim.Until
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		claim.Now = m.config.Now()
		claim.Until = claim.Now.Add(leaseFor)
		held, err := m.store.ExtendACMEOrder(ctx, claim)
		switch {
		case err == nil && held:
			until = claim.Until
		case err == nil || !claim.Now.Before(until):
			lose(errLeaseLost)
			return
		}
	}
}

// finish stores a certificate. The authority counts those that it has issued, so the store is
// tried until the order's time is over.
func (m *Manager) finish(ctx context.Context, claim Claim, issued Issued) error {
	for {
		claim.Now = m.config.Now()
		held, err := m.store.FinishACMEOrder(ctx, claim, issued)
		switch {
		case err == nil && held:
			return nil
		case err == nil:
			return errLeaseLost
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("store the certificate: %w", err)
		case <-time.After(time.Second):
		}
	}
}

// order gets a certificate from the authority.
func (m *Manager) order(ctx context.Context) (Issued, error) {
	client, err := m.client()
	if err != nil {
		return Issued{}, err
	}
	defer client.HTTPClient.CloseIdleConnections()
	if err := m.register(ctx, client); err != nil {
		return Issued{}, err
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(m.config.Names...))
	if err != nil {
		return Issued{}, fmt.Errorf("begin an order: %w", err)
	}
	if err := m.prove(ctx, client, order.AuthzURLs); err != nil {
		return Issued{}, err
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		return Issued{}, fmt.Errorf("wait for the order: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Issued{}, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: m.config.Names}, key)
	if err != nil {
		return Issued{}, err
	}
	chain, _, err := client.CreateCertFromOrder(ctx, order, request, true)
	if err != nil {
		return Issued{}, fmt.Errorf("get the certificate: %w", err)
	}
	return m.seal(chain, key)
}

// client returns a client of the authority without an account.
func (m *Manager) client() (*acme.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.config.Roots != nil {
		roots, err := m.config.Roots()
		if err != nil {
			return nil, err
		}
		trust.RootCAs = roots
	}
	return &acme.Client{
		DirectoryURL: m.config.Directory,
		UserAgent:    "coax",
		HTTPClient: &http.Client{
			Timeout:   time.Minute,
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, ForceAttemptHTTP2: true},
		},
		// An authority that refuses for longer is left alone until the next order.
		RetryBackoff: func(n int, _ *http.Request, response *http.Response) time.Duration {
			if n > 5 || response.StatusCode == http.StatusTooManyRequests {
				return 0
			}
			return time.Duration(n) * 500 * time.Millisecond
		},
	}, nil
}

// register gives the client the account's key, which is stored before it is used: any node has
// to answer with it.
func (m *Manager) register(ctx context.Context, client *acme.Client) error {
	id := accountID(m.config.Directory)
	sealed, err := m.store.ACMESecret(ctx, id)
	if err != nil {
		return fmt.Errorf("read the account's key: %w", err)
	}
	if sealed != nil {
		if client.Key, err = m.openAccount(sealed, id); err != nil {
			m.config.Log.Warn("the ACME account's key cannot be opened; another account is made", "error", err)
		}
	}
	if client.Key == nil {
		if client.Key, err = m.newAccount(ctx, id); err != nil {
			return err
		}
	}
	account := &acme.Account{}
	if m.config.Email != "" {
		account.Contact = []string{"mailto:" + m.config.Email}
	}
	// The authority returns the account that it has for this key, or makes one.
	if _, err := client.Register(ctx, account, acme.AcceptTOS); err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return fmt.Errorf("register at %s: %w", m.config.Directory, err)
	}
	return nil
}

func (m *Manager) newAccount(ctx context.Context, id string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	sealed, err := m.vault.SealACME(secret, id)
	if err != nil {
		return nil, err
	}
	if err := m.store.SaveACMESecret(ctx, id, sealed); err != nil {
		return nil, fmt.Errorf("store the account's key: %w", err)
	}
	return key, nil
}

func (m *Manager) openAccount(sealed []byte, id string) (crypto.Signer, error) {
	secret, err := m.vault.OpenACME(sealed, id)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(secret)
	if err != nil {
		return nil, fmt.Errorf("read the account's key: %w", err)
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the account's key is a %T", key)
	}
	return signer, nil
}

// prove proves to the authority that each name leads here. All names are tried, so that one
// error tells of all that is wrong.
func (m *Manager) prove(ctx context.Context, client *acme.Client, urls []string) error {
	var begun []string
	for _, url := range urls {
		authorization, err := client.GetAuthorization(ctx, url)
		if err != nil {
			return fmt.Errorf("read an authorization: %w", err)
		}
		if authorization.Status == acme.StatusValid {
			continue // from an earlier order
		}
		name := authorization.Identifier.Value
		challenge := tlsALPN(authorization)
		if challenge == nil {
			return fmt.Errorf("the authority does not offer TLS-ALPN-01 for %s", name)
		}
		err = m.store.SaveACMEChallenge(ctx, Challenge{
			Name: name, Account: accountID(m.config.Directory), Token: challenge.Token, Expires: m.config.Now().Add(orderTimeout),
		})
		if err != nil {
			return fmt.Errorf("store the challenge for %s: %w", name, err)
		}
		if _, err := client.Accept(ctx, challenge); err != nil {
			return fmt.Errorf("accept the challenge for %s: %w", name, err)
		}
		begun = append(begun, url)
	}
	var refused []error
	for _, url := range begun {
		if _, err := client.WaitAuthorization(ctx, url); err != nil {
			refused = append(refused, err)
		}
	}
	return errors.Join(refused...)
}

func tlsALPN(authorization *acme.Authorization) *acme.Challenge {
	for _, c := range authorization.Challenges {
		if c.Type == "tls-alpn-01" {
			return c
		}
	}
	return nil
}

// seal checks a chain, and seals it with its key.
func (m *Manager) seal(chain [][]byte, key *ecdsa.PrivateKey) (Issued, error) {
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Issued{}, err
	}
	var text bytes.Buffer
	for _, der := range chain {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	_ = pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	pair, err := tls.X509KeyPair(text.Bytes(), text.Bytes())
	if err != nil {
		return Issued{}, fmt.Errorf("the authority's certificate cannot be used: %w", err)
	}
	for _, name := range m.config.Names {
		if err := pair.Leaf.VerifyHostname(name); err != nil {
			return Issued{}, fmt.Errorf("the authority's certificate cannot be used: %w", err)
		}
	}
	sealed, err := m.vault.SealACME(text.Bytes(), m.id)
	if err != nil {
		return Issued{}, err
	}
	return Issued{Sealed: sealed, Expires: pair.Leaf.NotAfter, RenewAt: RenewAt(pair.Leaf)}, nil
}

// RenewAt returns when a certificate is renewed: once a third of its lifetime is left.
func RenewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3)
}
