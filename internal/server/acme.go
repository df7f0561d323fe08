package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/acmecert"
	"github.com/coaxhq/coax/internal/admin"
)

// maxACMEDomains is how many names public authorities put into one certificate.
const maxACMEDomains = 100

// hostName is a DNS name in lower case.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

func readACMEDomains(c *Config, value string) error {
	c.Server.ACMEDomains = nil
	for name := range strings.SplitSeq(value, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case name == "":
			continue
		case strings.HasPrefix(name, "*."):
			return fmt.Errorf("%q has a wildcard, and TLS-ALPN-01 proves single names only: list each name", name)
		case len(name) > 253 || !hostName.MatchString(name):
			return fmt.Errorf("%q is not a host name such as api.example.com (other scripts as xn--…)", name)
		case !slices.Contains(c.Server.ACMEDomains, name):
			c.Server.ACMEDomains = append(c.Server.ACMEDomains, name)
		}
	}
	if len(c.Server.ACMEDomains) > maxACMEDomains {
		return fmt.Errorf("%d names are too many for one certificate; name at most %d", len(c.Server.ACMEDomains), maxACMEDomains)
	}
	return nil
}

func readACMEEmail(c *Config, value string) error {
	if value != "" {
		at, err := mail.ParseAddress(value)
		if err != nil || at.Address != value {
			return fmt.Errorf("%q is not an address such as ops@example.com", value)
		}
	}
	c.Server.ACMEEmail = value
	return nil
}

func readACMEDirectory(c *Config, value string) error {
	at, err := url.Parse(value)
	if err != nil || at.Scheme != "https" || at.Host == "" || at.User != nil || strings.ContainsAny(value, " \t\n") {
		return errors.New("give the https:// address of an ACME directory, such as https://acme.example/directory")
	}
	c.Server.ACMEDirectory = value
	return nil
}

// readRoots reads the authorities in a PEM file.
func readRoots(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("there is no certificate in %s", file)
	}
	return roots, nil
}

// orderedCertificate is the certificate that the nodes order themselves.
type orderedCertificate struct{ manager *acmecert.Manager }

// openOrderedCertificate takes the certificate that the store has.
func (n *Node) openOrderedCertificate(ctx context.Context) (*orderedCertificate, error) {
	config := acmecert.Config{
		Names: n.Config.Server.ACMEDomains, Email: n.Config.Server.ACMEEmail, Directory: n.Config.Server.ACMEDirectory,
		Node: n.name, Log: n.log,
		// Authorities and clients go by the machine's clock.
		Now: func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
	}
	if file := n.Config.Server.ACMECAFile; file != "" {
		config.Roots = func() (*x509.CertPool, error) {
			roots, err := readRoots(file)
			if err != nil {
				return nil, fmt.Errorf("server.acme_ca_file: %w", err)
			}
			return roots, nil
		}
	}
	manager := acmecert.New(n.Store, n.Vault, config)
	if err := manager.Load(ctx); err != nil {
		return nil, fmt.Errorf("read the TLS certificate: %w", err)
	}
	return &orderedCertificate{manager}, nil
}

func (c *orderedCertificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.manager.GetCertificate(hello)
}

func (c *orderedCertificate) leaf() *x509.Certificate {
	if pair := c.manager.Current(); pair != nil {
		return pair.Leaf
	}
	return nil
}

func (c *orderedCertificate) health(now time.Time) admin.CertificateHealth {
	found := admin.CertificateHealth{File: "the one of server.acme_domains", Missing: true, Problem: c.manager.Problem()}
	if leaf := c.leaf(); leaf != nil {
		found.Missing = false
		addExpiry(&found, leaf, now)
	}
	return found
}

func (c *orderedCertificate) problem() string { return c.manager.Problem() }

// poll does nothing: the manager has a loop of its own.
func (c *orderedCertificate) poll() (taken bool, err error) { return false, nil }

func (c *orderedCertificate) reload() (taken bool, err error) {
	c.manager.RetryNow()
	return false, nil
}

func (c *orderedCertificate) cure() string {
	return "see in the log why it is not renewed, or ask `coax doctor`"
}
