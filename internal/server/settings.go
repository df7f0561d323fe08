package server

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/subscription"
)

// Config is the checked configuration of a node.
type Config struct {
	// Maintenance switches maintenance mode on when the node starts.
	Maintenance bool
	// Strict refuses to start with an insecure setting.
	Strict bool

	Server struct {
		Addr                     string
		PlainAddr                string
		InternalAddr             string
		TrustedProxies           access.TrustedProxies
		TLSCert                  string
		TLSKey                   string
		MaxConnections           int
		MaxConnectionsPerNetwork int
		MaxConnectionsPerAddress int
		Profiling                bool
		HSTSIncludeSubdomains    bool
	}
	Store   StoreConfig
	Secrets struct {
		MasterKeyFile string
	}
	Provider struct {
		Name      string
		URL       string
		Timeout   time.Duration
		CA        string
		TokenFile string
	}
	Review struct {
		FirstCheck  time.Duration
		MaxInterval time.Duration
		RefundAfter time.Duration
	}
	Catalogue struct {
		Refresh time.Duration
		MaxAge  time.Duration
	}
	Clock struct {
		Offset time.Duration
	}
	Rules struct {
		ActivationTerm subscription.ActivationTerm
	}
	Limits struct {
		FailedAuthPerMinute int
	}
	Panel struct {
		Idle      time.Duration
		Absolute  time.Duration
		StaffTOTP bool
		Origin    string
	}
	RequestLog struct {
		Keep time.Duration
	}
	Approval struct {
		Above        money.Amount
		Window       time.Duration
		NewLoginWait time.Duration
		PriceChange  int
	}
	Plans struct {
		MaxMonths int
	}
	Audit struct {
		Every time.Duration
	}
	Log struct {
		Level string
		// SecurityFile is where security events go; empty is the ordinary log.
		SecurityFile string
	}
}

// setting is one key of the configuration.
type setting struct {
	Key     string
	Default string
	Doc     string
	// path is true if the value is a file, relative to the configuration's folder.
	path bool
	// number, list and boolean say how the value is written in TOML.
	number, list, boolean bool
	Read                  func(*Config, string) error
}

// parts splits a key; a top-level key has no section.
func (s setting) parts() (section, name string) {
	section, name, found := strings.Cut(s.Key, ".")
	if !found {
		return "", section
	}
	return section, name
}

// DefaultAddr is the default of server.addr.
const DefaultAddr = "127.0.0.1:8443"

// Settings are all keys, in the order of the file.
var Settings = []setting{
	// Top-level keys come before the first section, as TOML requires.
	{Key: "maintenance", Default: "false", boolean: true, Doc: "start in maintenance: no new operations on any node until `coax admin maintenance off`",
		Read: boolean(func(c *Config) *bool { return &c.Maintenance })},
	{Key: "strict", Default: "false", boolean: true, Doc: "refuse to start with an insecure setting instead of logging a warning: an unencrypted provider or database on another machine, a public internal listener, a world-readable TLS key",
		Read: boolean(func(c *Config) *bool { return &c.Strict })},

	{Key: "server.addr", Default: DefaultAddr, Doc: "HTTPS listener for the API and the pages",
		Read: address(func(c *Config) *string { return &c.Server.Addr })},
	{Key: "server.plain_addr", Default: "", Doc: "plain HTTP listener: everyone but a trusted proxy that ended TLS gets 403 HTTPS_REQUIRED; empty = none",
		Read: optionalAddress(func(c *Config) *string { return &c.Server.PlainAddr })},
	{Key: "server.internal_addr", Default: "127.0.0.1:9443", Doc: "/healthz, /readyz and /metrics, never the API; keep it private",
		Read: address(func(c *Config) *string { return &c.Server.InternalAddr })},
	{Key: "server.trusted_proxies", Default: "", list: true, Doc: "addresses and ranges (CIDR) of proxies that may say, with X-Forwarded-For and -Proto, who called and how",
		Read: readTrustedProxies},
	{Key: "server.tls_cert", Default: "tls.pem", path: true, Doc: "certificate chain in PEM; read again on SIGHUP",
		Read: text(func(c *Config) *string { return &c.Server.TLSCert })},
	{Key: "server.tls_key", Default: "tls.key", path: true, Doc: "the certificate's private key in PEM",
		Read: text(func(c *Config) *string { return &c.Server.TLSKey })},
	{Key: "server.max_connections", Default: "4096", number: true, Doc: "connections open at once; beyond that, the one that has waited longest without sending a request is closed for a new one",
		Read: number(1, 1_000_000, func(c *Config) *int { return &c.Server.MaxConnections })},
	{Key: "server.max_connections_per_network", Default: "1024", number: true, Doc: "connections open at once from one network (IPv4 /24, IPv6 /64) that is not a trusted proxy's; never less than for one address",
		Read: number(1, 1_000_000, func(c *Config) *int { return &c.Server.MaxConnectionsPerNetwork })},
	{Key: "server.max_connections_per_address", Default: "256", number: true, Doc: "connections open at once from one address that is not a trusted proxy's",
		Read: number(1, 1_000_000, func(c *Config) *int { return &c.Server.MaxConnectionsPerAddress })},
	{Key: "server.hsts_include_subdomains", Default: "false", boolean: true, Doc: "browsers use HTTPS only with every name below the service's too: includeSubDomains in Strict-Transport-Security",
		Read: boolean(func(c *Config) *bool { return &c.Server.HSTSIncludeSubdomains })},
	{Key: "server.profiling", Default: "false", boolean: true, Doc: "profiles of this process under /debug/pprof/ on server.internal_addr; taking one slows the node down",
		Read: boolean(func(c *Config) *bool { return &c.Server.Profiling })},

	{Key: "store.url", Default: "sqlite:data/coax.db", path: true, Doc: "sqlite:PATH for one node, postgres://USER:PASSWORD@HOST,HOST/DATABASE for several",
		Read: readStoreURL},

	{Key: "secrets.master_key_file", Default: "master.key", path: true, Doc: "seals the API secrets; keep a copy elsewhere. The environment's COAX_MASTER_KEY wins over the file",
		Read: text(func(c *Config) *string { return &c.Secrets.MasterKeyFile })},

	{Key: "provider.name", Default: "simulator", Doc: "the provider's name, as answers show it",
		Read: required(func(c *Config) *string { return &c.Provider.Name })},
	{Key: "provider.url", Default: "", Doc: "base address of the provider",
		Read: readProviderURL},
	{Key: "provider.timeout", Default: "20s", Doc: "how long one provider call may take",
		Read: duration(time.Millisecond, 10*time.Minute, func(c *Config) *time.Duration { return &c.Provider.Timeout })},
	{Key: "provider.ca", Default: "", path: true, Doc: "CA in PEM that the provider's certificate must come from; empty = the system's",
		Read: text(func(c *Config) *string { return &c.Provider.CA })},
	{Key: "provider.token_file", Default: "", path: true, Doc: "file with the token the provider wants; empty = none",
		Read: text(func(c *Config) *string { return &c.Provider.TokenFile })},

	{Key: "review.first_check", Default: "10s", Doc: "time from an unknown outcome to the first status check",
		Read: duration(0, 24*time.Hour, func(c *Config) *time.Duration { return &c.Review.FirstCheck })},
	{Key: "review.max_interval", Default: "10m", Doc: "longest pause between two status checks",
		Read: duration(time.Millisecond, 24*time.Hour, func(c *Config) *time.Duration { return &c.Review.MaxInterval })},
	{Key: "review.refund_after", Default: "2m", Doc: "how long the provider must not know an operation before it counts as not carried out",
		Read: duration(0, 30*24*time.Hour, func(c *Config) *time.Duration { return &c.Review.RefundAfter })},

	{Key: "catalogue.refresh", Default: "5m", Doc: "how often our plans are compared with what the provider sells",
		Read: duration(time.Millisecond, 24*time.Hour, func(c *Config) *time.Duration { return &c.Catalogue.Refresh })},
	{Key: "catalogue.max_age", Default: "30m", Doc: "how old the last good comparison may be; beyond that nothing is sold (503 PLANS_UNAVAILABLE)",
		Read: duration(time.Millisecond, 30*24*time.Hour, func(c *Config) *time.Duration { return &c.Catalogue.MaxAge })},

	{Key: "clock.offset", Default: "0s", Doc: "added to the clock, to try what happens later; demo takes it, serve refuses it",
		Read: duration(-10*365*24*time.Hour, 10*365*24*time.Hour, func(c *Config) *time.Duration { return &c.Clock.Offset })},

	{Key: "rules.activation_term", Default: "30d", Doc: "how long an activation lasts: 30d, or plan for the plan's months of 30 days",
		Read: readActivationTerm},

	{Key: "limits.failed_auth_per_minute", Default: "30", number: true, Doc: "how often one address (of IPv6: one /64) may fail to authenticate; then it gets 429 TOO_MANY_FAILED_ATTEMPTS",
		Read: number(1, 1_000_000, func(c *Config) *int { return &c.Limits.FailedAuthPerMinute })},

	{Key: "panel.idle", Default: "30m", Doc: "how long a person stays signed in to the pages without using them",
		Read: duration(2*time.Minute, 24*time.Hour, func(c *Config) *time.Duration { return &c.Panel.Idle })},
	{Key: "panel.absolute", Default: "12h", Doc: "how long a person stays signed in to the pages at most",
		Read: duration(2*time.Minute, 30*24*time.Hour, func(c *Config) *time.Duration { return &c.Panel.Absolute })},
	{Key: "panel.staff_totp", Default: "true", boolean: true, Doc: "staff who move money or see secrets must have a second factor: codes from an app on their telephone, or a passkey",
		Read: boolean(func(c *Config) *bool { return &c.Panel.StaffTOTP })},
	{Key: "panel.origin", Default: "", Doc: "address under which people reach the pages, such as https://panel.example.com, to which passkeys are bound; empty = the host that the browser asks for",
		Read: readOrigin},
	{Key: "request_log.keep", Default: "720h", Doc: "how long operators can look their API calls up; 0s = calls are not kept",
		Read: duration(0, 366*24*time.Hour, func(c *Config) *time.Duration { return &c.RequestLog.Keep })},
	{Key: "approval.above", Default: "50000.00", Doc: "amount in rupees above which the console moves money only after a second person has agreed, alone or as a sum within approval.window; 0 = always",
		Read: readApprovalAbove},
	{Key: "approval.window", Default: "24h", Doc: "how long an amount counts towards approval.above: what one person moved alone within it, and what was moved alone for one operator",
		Read: duration(time.Minute, 31*24*time.Hour, func(c *Config) *time.Duration { return &c.Approval.Window })},
	{Key: "approval.new_login_wait", Default: "24h", Doc: "how long a login that was made, raised or reset in the console cannot approve; 0s = it can at once",
		Read: duration(0, 30*24*time.Hour, func(c *Config) *time.Duration { return &c.Approval.NewLoginWait })},
	{Key: "approval.price_change", Default: "20", number: true, Doc: "percent by which the console changes a plan's price within approval.window before a second person is needed; 0 = any change",
		Read: number(0, 100, func(c *Config) *int { return &c.Approval.PriceChange })},
	{Key: "plans.max_months", Default: "24", number: true, Doc: "longest term that a plan can be set to, in months",
		Read: number(1, 120, func(c *Config) *int { return &c.Plans.MaxMonths })},

	{Key: "audit.every", Default: "0s", Doc: "how long a node pauses between two audits of the whole store beside its work, such as 1m; 0s = none",
		Read: duration(0, 30*24*time.Hour, func(c *Config) *time.Duration { return &c.Audit.Every })},

	{Key: "log.level", Default: "info", Doc: "debug, info, warn or error",
		Read: oneOf([]string{"debug", "info", "warn", "error"}, func(c *Config) *string { return &c.Log.Level })},
	{Key: "log.security_file", Default: "", path: true, Doc: "file that security events are appended to, one JSON object a line; opened again on SIGHUP. Empty = they are in the ordinary log",
		Read: text(func(c *Config) *string { return &c.Log.SecurityFile })},
}

func text(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*field(c) = value
		return nil
	}
}

func required(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		if strings.TrimSpace(value) == "" {
			return errors.New("it must not be empty")
		}
		*field(c) = value
		return nil
	}
}

func oneOf(allowed []string, field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		for _, one := range allowed {
			if value == one {
				*field(c) = value
				return nil
			}
		}
		return fmt.Errorf("%q is not one of %s", value, strings.Join(allowed, ", "))
	}
}

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, value string) error {
		switch value {
		case "true":
			*field(c) = true
		case "false":
			*field(c) = false
		default:
			return fmt.Errorf("%q is neither true nor false", value)
		}
		return nil
	}
}

func address(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		_, port, err := net.SplitHostPort(value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return fmt.Errorf("%q is not HOST:PORT, such as 127.0.0.1:8443", value)
		}
		*field(c) = value
		return nil
	}
}

func optionalAddress(field func(*Config) *string) func(*Config, string) error {
	read := address(field)
	return func(c *Config, value string) error {
		if value == "" {
			*field(c) = ""
			return nil
		}
		return read(c, value)
	}
}

func number(low, high int, field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a whole number from %d to %d", value, low, high)
		}
		*field(c) = n
		return nil
	}
}

func duration(low, high time.Duration, field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%q is not a duration, such as 500ms, 20s, 5m or 72h", value)
		}
		if d < low || d > high {
			return fmt.Errorf("%s is outside %s to %s", d, low, high)
		}
		*field(c) = d
		return nil
	}
}

func readTrustedProxies(c *Config, value string) error {
	var parts []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	proxies, err := access.ParseTrustedProxies(parts)
	if err != nil {
		return err
	}
	c.Server.TrustedProxies = proxies
	return nil
}

func readStoreURL(c *Config, value string) error {
	c.Store.URL = value
	switch {
	case strings.HasPrefix(value, "sqlite:"):
		c.Store.Kind, c.Store.Path = "sqlite", strings.TrimPrefix(value, "sqlite:")
		if c.Store.Path == "" {
			return errors.New("sqlite: is not followed by a path, such as sqlite:data/coax.db")
		}
	case strings.HasPrefix(value, "postgres://"), strings.HasPrefix(value, "postgresql://"):
		c.Store.Kind = "postgres"
		return postgres.CheckAddress(value)
	default:
		return errors.New("it begins with neither sqlite: nor postgres://; write sqlite:PATH or postgres://USER@HOST/DATABASE")
	}
	return nil
}

func readProviderURL(c *Config, value string) error {
	if value != "" {
		at, err := url.Parse(value)
		if err != nil || (at.Scheme != "http" && at.Scheme != "https") || at.Host == "" {
			return fmt.Errorf("%q is not an address such as https://provider.example", value)
		}
	}
	c.Provider.URL = value
	return nil
}

func readOrigin(c *Config, text string) error {
	if text == "" {
		c.Panel.Origin = ""
		return nil
	}
	site, ok := login.SiteOf(text)
	if !ok {
		return errors.New("give https:// and a host name, such as https://panel.example.com; an IP address does not do")
	}
	c.Panel.Origin = site.Origin
	return nil
}

func readActivationTerm(c *Config, value string) error {
	switch term := subscription.ActivationTerm(value); term {
	case subscription.ThirtyDays, subscription.PlanTerm:
		c.Rules.ActivationTerm = term
		return nil
	}
	return fmt.Errorf("%q is neither 30d nor plan", value)
}

func readApprovalAbove(c *Config, value string) error {
	above, err := money.Parse(value)
	if err != nil || above.IsNegative() {
		return fmt.Errorf("%q is not an amount of rupees from zero up, such as 50000.00", value)
	}
	c.Approval.Above = above
	return nil
}

// StoreConfig is where the store is.
type StoreConfig struct {
	// Kind is sqlite or postgres; Path is the SQLite file's.
	Kind string
	Path string
	URL  string
	// SQLiteDefault is the default path of a SQLite store, if Kind is postgres; New allows
	// an empty store on PostgreSQL although that file has operators.
	SQLiteDefault string
	New           bool
}

// absolute resolves a setting's path against folder. The path of store.url follows its
// scheme.
func (s setting) absolute(value, folder string) string {
	if !s.path || value == "" {
		return value
	}
	scheme := ""
	if s.Key == "store.url" {
		if !strings.HasPrefix(value, "sqlite:") {
			return value
		}
		scheme, value = "sqlite:", strings.TrimPrefix(value, "sqlite:")
	}
	if value == "" || filepath.IsAbs(value) {
		return scheme + value
	}
	return scheme + filepath.Join(folder, value)
}

// WithoutSettings returns an environment without the variables that set Coax's settings
// or its master key, for a process that must not work on the caller's store.
func WithoutSettings(environ []string) []string {
	ours := map[string]bool{MasterKeyVariable: true}
	for _, s := range Settings {
		ours[EnvironmentName(s.Key)] = true
	}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return ours[name]
	})
}
