package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
)

// certificatePoll is how often certificate and key are looked at for changes.
const certificatePoll = 5 * time.Second

// tlsCertificate is the TLS certificate in use, and where newer ones come from.
type tlsCertificate interface {
	get(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// leaf is nil while there is no certificate.
	leaf() *x509.Certificate
	health(now time.Time) admin.CertificateHealth
	// problem is why the newest certificate is not in use; "" if it is.
	problem() string
	// poll takes a certificate that has changed, and reload looks at once.
	poll() (taken bool, err error)
	reload() (taken bool, err error)
	// cure is what to do about one that expires.
	cure() string
}

// certificate is a TLS certificate from files.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
	failed            atomic.Pointer[string]

	// Of the goroutine that polls: what is in use, and what was found broken and how often.
	used, broken fileContents
	times        int
}

// fileContents tells contents of certificate and key apart.
type fileContents [sha256.Size]byte

func loadCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	_, err := c.reload()
	return c, err
}

// read reads certificate and key.
func (c *certificate) read() (pair tls.Certificate, contents fileContents, err error) {
	certText, certErr := os.ReadFile(c.certFile)
	keyText, keyErr := os.ReadFile(c.keyFile)
	digest := sha256.New()
	fmt.Fprintf(digest, "%d %d %v %v ", len(certText), len(keyText), certErr, keyErr)
	digest.Write(certText)
	digest.Write(keyText)
	digest.Sum(contents[:0])
	for _, err := range []error{certErr, keyErr} {
		if err != nil {
			return pair, contents, c.explain(err)
		}
	}
	if pair, err = tls.X509KeyPair(certText, keyText); err != nil {
		return pair, contents, c.explain(err)
	}
	return pair, contents, nil
}

func (c *certificate) explain(err error) error {
	return fmt.Errorf("the TLS certificate cannot be read: %w; put one at %s and its key at %s, or set server.tls_cert and server.tls_key",
		err, c.certFile, c.keyFile)
}

func (c *certificate) use(pair tls.Certificate, contents fileContents) {
	c.current.Store(&pair)
	c.used, c.broken = contents, fileContents{}
	c.failed.Store(nil)
}

func (c *certificate) fail(err error) error {
	text := err.Error()
	c.failed.Store(&text)
	return err
}

func (c *certificate) reload() (taken bool, err error) {
	pair, contents, err := c.read()
	if err != nil {
		c.broken, c.times = contents, 2
		return false, c.fail(err)
	}
	c.use(pair, contents)
	return true, nil
}

// poll compares contents, not times: a link may lead to another file, and a copy may have an
// older time. The two files are replaced one after the other, so what does not fit together is
// an error only if it is unchanged at the next poll; it is returned once.
func (c *certificate) poll() (taken bool, err error) {
	pair, contents, err := c.read()
	switch {
	case contents == c.used:
		c.broken = fileContents{}
		c.failed.Store(nil)
		return false, nil
	case err == nil:
		c.use(pair, contents)
		return true, nil
	case contents != c.broken:
		c.broken, c.times = contents, 1
		return false, nil
	case c.times == 1:
		c.times++
		return false, c.fail(err)
	}
	return false, nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

func (c *certificate) leaf() *x509.Certificate { return c.current.Load().Leaf }

func (c *certificate) problem() string {
	if text := c.failed.Load(); text != nil {
		return *text
	}
	return ""
}

func (c *certificate) cure() string { return "renew it" }

// expiryNotice is how long before its expiry a certificate counts as expiring soon; for
// short-lived ones it is a quarter of the lifetime.
const expiryNotice = 30 * 24 * time.Hour

// health returns the state of certificate and key at a time of the machine's clock, by
// which clients check them.
func (c *certificate) health(now time.Time) admin.CertificateHealth {
	found := admin.CertificateHealth{File: c.certFile, KeyFile: c.keyFile, OpenKeyMode: openKeyMode(c.keyFile), Problem: c.problem()}
	addExpiry(&found, c.leaf(), now)
	return found
}

// addExpiry adds when a certificate expires.
func addExpiry(to *admin.CertificateHealth, leaf *x509.Certificate, now time.Time) {
	notice := min(expiryNotice, leaf.NotAfter.Sub(leaf.NotBefore)/4)
	to.Expires = leaf.NotAfter
	to.Days = calendarDays(now, leaf.NotAfter)
	to.Expired = !now.Before(leaf.NotAfter)
	to.Expiring = !to.Expired && leaf.NotAfter.Sub(now) < notice
}

// calendarDays returns how many midnights of Indian time lie between two times.
func calendarDays(from, to time.Time) int {
	midnight := func(t time.Time) time.Time {
		year, month, day := t.In(subscription.IST).Date()
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	return int(midnight(to).Sub(midnight(from)) / (24 * time.Hour))
}

// openCertificate takes the certificate to serve with, from where the settings say.
func (n *Node) openCertificate(ctx context.Context) (err error) {
	if len(n.Config.Server.ACMEDomains) > 0 {
		n.certificate, err = n.openOrderedCertificate(ctx)
	} else {
		n.certificate, err = loadCertificate(n.Config.Server.TLSCert, n.Config.Server.TLSKey)
	}
	if err != nil {
		return err
	}
	n.metrics.CertificateExpires(func() time.Time {
		if leaf := n.certificate.leaf(); leaf != nil {
			return leaf.NotAfter
		}
		return time.Unix(0, 0)
	})
	n.metrics.CertificateProblem(func() bool { return n.certificate.problem() != "" })
	n.reportExpiry(time.Now()) // Open has logged the key's mode
	return nil
}

// reportCertificate logs what is wrong with certificate and key.
func (n *Node) reportCertificate(now time.Time) {
	n.reportExpiry(now)
	if s := openKey(n.Config); s != nil {
		s.log(n.log)
	}
}

// reportExpiry logs that the certificate has expired, or expires soon.
func (n *Node) reportExpiry(now time.Time) {
	health := n.certificate.health(now)
	switch {
	case health.Expired:
		n.log.Error("the TLS certificate has expired, and clients refuse it", "file", health.File, "expired_at", health.Expires, "cure", n.certificate.cure())
	case health.Expiring:
		n.log.Warn("the TLS certificate expires soon", "file", health.File, "expires_at", health.Expires, "days_left", health.Days, "cure", n.certificate.cure())
	}
}

// watchCertificate reloads the certificate when its files have changed and on SIGHUP, and logs
// its problems then and every day. If the new one cannot be read, the old one stays in use.
func (n *Node) watchCertificate(ctx context.Context, hangup <-chan os.Signal, polls, daily <-chan time.Time) {
	for {
		var taken bool
		var err error
		select {
		case <-ctx.Done():
			return
		case now := <-daily:
			n.reportCertificate(now)
			continue
		case <-polls:
			n.reloadProviderCA()
			taken, err = n.certificate.poll()
		case <-hangup:
			if err := n.Security.Reopen(); err != nil {
				n.log.Error("log.security_file was not opened again; the old one stays in use", "error", err)
			}
			n.reloadProviderCA()
			taken, err = n.certificate.reload()
		}
		switch {
		case err != nil:
			n.log.Error("the new certificate was not taken; the old one stays", "error", err)
		case taken:
			n.log.Info("the certificate was read again", "expires_at", n.certificate.leaf().NotAfter)
			n.reportCertificate(time.Now())
		}
	}
}

// reloadProviderCA trusts what provider.ca has now.
func (n *Node) reloadProviderCA() {
	switch changed, err := n.provider.ReloadCA(); {
	case err != nil:
		n.log.Error("the new provider.ca was not taken; the old one stays", "error", err)
	case changed:
		n.log.Info("provider.ca was read again")
	}
}
