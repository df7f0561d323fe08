package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
)

// certificate is the TLS certificate in use.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

func loadCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	return c, c.reload()
}

func (c *certificate) reload() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("the TLS certificate cannot be read: %w; put one at %s and its key at %s, or set server.tls_cert and server.tls_key",
			err, c.certFile, c.keyFile)
	}
	c.current.Store(&pair)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

func (c *certificate) expires() time.Time { return c.current.Load().Leaf.NotAfter }

// expiryNotice is how long before its expiry a certificate counts as expiring soon; for
// short-lived ones it is a quarter of the lifetime.
const expiryNotice = 30 * 24 * time.Hour

// health returns the state of certificate and key at a time of the machine's clock, by
// which clients check them.
func (c *certificate) health(now time.Time) admin.CertificateHealth {
	leaf := c.current.Load().Leaf
	notice := min(expiryNotice, leaf.NotAfter.Sub(leaf.NotBefore)/4)
	found := admin.CertificateHealth{
		File: c.certFile, Expires: leaf.NotAfter, KeyFile: c.keyFile,
		Days:    calendarDays(now, leaf.NotAfter),
		Expired: !now.Before(leaf.NotAfter),
	}
	found.Expiring = !found.Expired && leaf.NotAfter.Sub(now) < notice
	found.OpenKeyMode = openKeyMode(c.keyFile)
	return found
}

// calendarDays returns how many midnights of Indian time lie between two times.
func calendarDays(from, to time.Time) int {
	midnight := func(t time.Time) time.Time {
		year, month, day := t.In(subscription.IST).Date()
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	return int(midnight(to).Sub(midnight(from)) / (24 * time.Hour))
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
	const cure = "renew it, and reload the service (SIGHUP)"
	switch {
	case health.Expired:
		n.log.Error("the TLS certificate has expired, and clients refuse it", "file", health.File, "expired_at", health.Expires, "cure", cure)
	case health.Expiring:
		n.log.Warn("the TLS certificate expires soon", "file", health.File, "expires_at", health.Expires, "days_left", health.Days, "cure", cure)
	}
}

// watchCertificate reloads the certificate on SIGHUP, and logs its problems then and every
// day. If the new one cannot be read, the old one stays in use.
func (n *Node) watchCertificate(ctx context.Context, hangup <-chan os.Signal, daily <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-daily:
			n.reportCertificate(now)
		case <-hangup:
			if err := n.Security.Reopen(); err != nil {
				n.log.Error("log.security_file was not opened again; the old one stays in use", "error", err)
			}
			if err := n.certificate.reload(); err != nil {
				n.log.Error("the new certificate was not taken; the old one stays", "error", err)
				continue
			}
			n.log.Info("the certificate was read again")
			n.reportCertificate(time.Now())
		}
	}
}
