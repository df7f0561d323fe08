package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/replica"
	"github.com/coaxhq/coax/internal/store/postgres"
)

// InsecureSetting is a setting that exposes data or calls to others.
type InsecureSetting struct {
	Setting string
	Problem string
	Cure    string
	// Details are the parts of the problem, for the log.
	Details []any
	// Tolerated: strict does not refuse it.
	Tolerated bool
}

// InsecureSettings finds every insecure setting.
func (c Config) InsecureSettings() []InsecureSetting {
	var found []InsecureSetting
	for _, check := range []func(Config) *InsecureSetting{plainProvider, plainStore, openReplica, plainCollector, publicInternalListener, openKey} {
		if s := check(c); s != nil {
			found = append(found, *s)
		}
	}
	return found
}

// checkInsecureSettings logs every insecure setting; with strict, it refuses them all in
// one error instead.
func checkInsecureSettings(config Config, log *slog.Logger) error {
	var refused []error
	for _, s := range config.InsecureSettings() {
		if config.Strict && !s.Tolerated {
			refused = append(refused, fmt.Errorf("strict refuses %s: %s; %s", s.Setting, s.Problem, s.Cure))
			continue
		}
		s.log(log)
	}
	return errors.Join(refused...)
}

func (s InsecureSetting) log(log *slog.Logger) {
	log.Warn(s.Problem, append(append([]any{"setting", s.Setting}, s.Details...), "cure", s.Cure)...)
}

func plainProvider(c Config) *InsecureSetting {
	at, err := url.Parse(c.Provider.URL)
	if err != nil || at.Scheme != "http" || namesThisMachine(at.Hostname()) {
		return nil
	}
	return &InsecureSetting{
		Setting: "provider.url",
		Problem: fmt.Sprintf("the provider at %s is called over plain HTTP, so the network in between can read and change the calls", at.Host),
		Cure:    "use https://, with provider.ca if its certificate comes from an authority of your own",
		Details: []any{"host", at.Host},
	}
}

func plainStore(c Config) *InsecureSetting {
	if c.Store.Kind != "postgres" {
		return nil
	}
	hosts, err := postgres.Encryption(c.Store.URL)
	if err != nil {
		return nil // an invalid address was refused when the setting was read
	}
	var plain, unverified []string
	for _, h := range hosts {
		switch {
		case h.Local:
		case !h.Encrypted:
			plain = append(plain, h.Host)
		case !h.Verified:
			unverified = append(unverified, h.Host)
		}
	}
	const cure = "add sslmode=verify-full and sslrootcert=FILE to store.url"
	switch {
	case plain != nil:
		names := strings.Join(plain, ", ")
		return &InsecureSetting{
			Setting: "store.url",
			Problem: fmt.Sprintf("connections to PostgreSQL at %s may be without TLS, so the network in between can read and change them", names),
			Cure:    cure,
			Details: []any{"hosts", names},
		}
	case unverified != nil:
		names := strings.Join(unverified, ", ")
		return &InsecureSetting{
			Setting:   "store.url",
			Problem:   fmt.Sprintf("connections to PostgreSQL at %s are encrypted, but the server's certificate is not verified", names),
			Cure:      cure,
			Details:   []any{"hosts", names},
			Tolerated: true,
		}
	}
	return nil
}

func openReplica(c Config) *InsecureSetting {
	if c.Store.Replica == "" {
		return nil
	}
	address, err := replica.ParseAddress(c.Store.Replica)
	if err != nil || address.Insecure == "" {
		return nil
	}
	return &InsecureSetting{
		Setting: "store.replica",
		Problem: address.Insecure,
		Cure:    "for SFTP give known_hosts=FILE or host_key=KEY, for S3 an endpoint with https://",
		Details: []any{"replica", address.String()},
	}
}

func plainCollector(c Config) *InsecureSetting {
	host, plain := plainTraceHost(c)
	if !plain {
		return nil
	}
	return &InsecureSetting{
		Setting: "trace.endpoint",
		Problem: fmt.Sprintf("traces are sent to %s over plain HTTP, so the network in between can read them", host),
		Cure:    "use https://, or a collector on this machine",
		Details: []any{"host", host},
	}
}

// plainTraceHost returns the collector's host if traces go to another machine unencrypted.
func plainTraceHost(c Config) (host string, plain bool) {
	at, err := url.Parse(c.Trace.Endpoint)
	if err != nil || at.Scheme != "http" || namesThisMachine(at.Hostname()) {
		return "", false
	}
	return at.Host, true
}

func publicInternalListener(c Config) *InsecureSetting {
	host, _, err := net.SplitHostPort(c.Server.InternalAddr)
	if err != nil || !isPublic(host) {
		return nil
	}
	return &InsecureSetting{
		Setting: "server.internal_addr",
		Problem: fmt.Sprintf("the internal listener, which asks for no password, is on %s, which is or includes a public address or cannot be looked up", c.Server.InternalAddr),
		Cure:    "name a loopback or private address, such as 127.0.0.1:9443",
		Details: []any{"addr", c.Server.InternalAddr},
	}
}

func openKey(c Config) *InsecureSetting {
	mode := openKeyMode(c.Server.TLSKey)
	if mode == "" || len(c.Server.ACMEDomains) > 0 {
		return nil
	}
	return &InsecureSetting{
		Setting: "server.tls_key",
		Problem: "every user of this machine can read the TLS key",
		Cure:    "chmod 600 " + ShellQuote(c.Server.TLSKey),
		Details: []any{"file", c.Server.TLSKey, "mode", mode},
	}
}

// openKeyMode returns the mode of a key file if every user of the machine can read it,
// else "". A group may read it: that is how several services share a key.
func openKeyMode(file string) string {
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&0o004 == 0 {
		return ""
	}
	return fmt.Sprintf("%04o", info.Mode().Perm())
}

// namesThisMachine reports whether a host is localhost or a loopback address. Other names,
// also those below localhost, are not looked up: Go's resolver asks DNS for them, and what
// they resolve to can change at any time.
func namesThisMachine(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// sharedSpace are the addresses within a provider's network (RFC 6598).
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// lookUpTimeout bounds the lookup of a listener's name.
const lookUpTimeout = 2 * time.Second

// isPublic reports whether a listener on a host can be reached from other networks, as far
// as addresses tell: it is on every address, or on one that is neither loopback nor private,
// or its name cannot be looked up.
func isPublic(host string) bool {
	if host == "" {
		return true
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return !addr.IsLoopback() && !addr.IsPrivate() && !addr.IsLinkLocalUnicast() && !sharedSpace.Contains(addr)
	}
	if namesThisMachine(host) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookUpTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return true // the listener looks it up again, perhaps with success
	}
	for _, addr := range addrs {
		if isPublic(addr.String()) {
			return true
		}
	}
	return false
}
