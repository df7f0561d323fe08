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

	"golang.org/x/crypto/acme"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/replica"
	"github.com/coaxhq/coax/internal/retention"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/subscription"
)

// Config is the checked configuration of a node.
type Config struct {
	// Maintenance switches maintenance mode on when the node starts.
	Maintenance bool
	// Strict refuses to start with an insecure setting.
	Strict bool
	// Portable are the settings that an installation takes over which is restored elsewhere.
	Portable map[string]string

	Server struct {
		Addr                     string
		PlainAddr                string
		InternalAddr             string
		TrustedProxies           access.TrustedProxies
		TLSCert                  string
		TLSKey                   string
		ACMEDomains              []string
		ACMEEmail                string
		ACMEDirectory            string
		ACMECAFile               string
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
	// Retention is how long rows are kept that only people look at; zero is for good.
	Retention retention.Config
	// PersonalData is how long after its last operation a subscriber cannot be forgotten.
	PersonalData time.Duration
	// ReversalAge is how long after its success an operation can be reversed.
	ReversalAge time.Duration
	Approval    struct {
		Above        money.Amount
		Window       time.Duration
		NewLoginWait time.Duration
		PriceChange  int
	}
	Plans struct {
		MaxMonths int
	}
	// Payments are the MSO's bank details.
	Payments admin.BankDetails
	Audit    struct {
		Every time.Duration
	}
	Backup struct {
		// Folder is where backups are looked for; empty is nowhere.
		Folder string
	}
	Log struct {
		Level string
		// SecurityFile is where security events go; empty is the ordinary log.
		SecurityFile string
	}
	Trace struct {
		// Endpoint is where spans are posted to; empty is off.
		Endpoint    string
		Ratio       float64
		HeadersFile string
		TrustParent bool
	}
}

// setting is one key of the configuration.
type setting struct {
	Key     string
	Default string
	Doc     string
	// path is true if the value is a file, relative to the configuration's folder.
	path bool
	// number, decimal, list and boolean say how the value is written in TOML.
	number, decimal, list, boolean bool
	// choices are all values, if there are few.
	choices []string
	// mask hides the password in a value; nil for a setting that has none.
	mask func(string) string
	Read func(*Config, string) error
}

// Choices returns the values of a setting that has few; nil for any other.
func (s setting) Choices() []string {
	if s.boolean {
		return []string{"true", "false"}
	}
	return s.choices
}

// Shown returns a value without its password.
func (s setting) Shown(value string) string {
	if s.mask == nil || value == "" {
		return value
	}
	return s.mask(value)
}

// Variable returns the environment variable of the setting.
func (s setting) Variable() string { return EnvironmentName(s.Key) }

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

var (
	replicaModes = []string{"async", "sync"}
	logLevels    = []string{"debug", "info", "warn", "error"}
)

// Settings are all keys, in the order of the file.
var Settings = append([]setting{
	// Top-level keys come before the first section, as TOML requires.
	{Key: "maintenance", Default: "false", boolean: true, Doc: "start in maintenance: no new operations on any node until `coax admin maintenance off`",
		Read: boolean(func(c *Config) *bool { return &c.Maintenance })},
	{Key: "strict", Default: "false", boolean: true, Doc: "refuse to start with an insecure setting instead of logging a warning: an unencrypted provider, database or trace collector on another machine, a public internal listener, a world-readable TLS key",
		Read: boolean(func(c *Config) *bool { return &c.Strict })},

	{Key: "server.addr", Default: DefaultAddr, Doc: "HTTPS listener for the API and the pages",
		Read: address(func(c *Config) *string { return &c.Server.Addr })},
	{Key: "server.plain_addr", Default: "", Doc: "plain HTTP listener: everyone but a trusted proxy that ended TLS gets 403 HTTPS_REQUIRED; empty = none",
		Read: optionalAddress(func(c *Config) *string { return &c.Server.PlainAddr })},
	{Key: "server.internal_addr", Default: "127.0.0.1:9443", Doc: "/healthz, /readyz and /metrics, never the API; keep it private",
		Read: address(func(c *Config) *string { return &c.Server.InternalAddr })},
	{Key: "server.trusted_proxies", Default: "", list: true, Doc: "addresses and ranges (CIDR) of proxies that may say, with X-Forwarded-For and -Proto, who called and how",
		Read: readTrustedProxies},
	{Key: "server.tls_cert", Default: "tls.pem", path: true, Doc: "certificate chain in PEM; read again when it changes, and on SIGHUP",
		Read: text(func(c *Config) *string { return &c.Server.TLSCert })},
	{Key: "server.tls_key", Default: "tls.key", path: true, Doc: "the certificate's private key in PEM",
		Read: text(func(c *Config) *string { return &c.Server.TLSKey })},
	{Key: "server.acme_domains", Default: "", list: true, Doc: "host names for which the service orders its certificate itself (ACME, TLS-ALPN-01), in place of server.tls_cert and server.tls_key; setting it accepts the authority's terms of service. Empty = none",
		Read: readACMEDomains},
	{Key: "server.acme_email", Default: "", Doc: "address that the authority may write to; empty = none",
		Read: readACMEEmail},
	{Key: "server.acme_directory", Default: acme.LetsEncryptURL, Doc: "address of the authority's ACME directory",
		Read: readACMEDirectory},
	{Key: "server.acme_ca_file", Default: "", path: true, Doc: "CA in PEM that the certificate of server.acme_directory itself must come from, for an authority of your own; empty = the system's",
		Read: text(func(c *Config) *string { return &c.Server.ACMECAFile })},
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

	{Key: "store.url", Default: "sqlite:data/coax.db", path: true, mask: maskStoreURL, Doc: "sqlite:PATH for one node, postgres://USER:PASSWORD@HOST,HOST/DATABASE for several",
		Read: readStoreURL},

	{Key: "store.mark_file", Default: "store.mark", path: true, Doc: "file in which a node keeps what it has marked last in the store, so that a store restored from an older copy is noticed; outside the store's folder, of each node alone, and in no backup",
		Read: required(func(c *Config) *string { return &c.Store.MarkFile })},
	{Key: "store.replica", Default: "", mask: replica.Redact, Doc: "a second place for a SQLite store, to which every commit is copied: file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER; empty = none",
		Read: readReplica},
	{Key: "store.replica_mode", Default: "async", choices: replicaModes, Doc: "async: the service does not wait for the replica; sync: nothing is answered before the replica has it",
		Read: oneOf(replicaModes, func(c *Config) *string { return &c.Store.ReplicaMode })},

	{Key: "secrets.master_key_file", Default: "master.key", path: true, Doc: "seals the API secrets; keep a copy elsewhere; read again on SIGHUP. The environment's COAX_MASTER_KEY wins over the file",
		Read: text(func(c *Config) *string { return &c.Secrets.MasterKeyFile })},

	{Key: "provider.name", Default: "simulator", Doc: "the provider's name, as answers show it",
		Read: required(func(c *Config) *string { return &c.Provider.Name })},
	{Key: "provider.url", Default: "", mask: maskUser, Doc: "base address of the provider",
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

	{Key: "rules.activation_term", Default: "30d", choices: []string{string(subscription.ThirtyDays), string(subscription.PlanTerm)}, Doc: "how long an activation lasts: 30d, or plan for the plan's months of 30 days",
		Read: readActivationTerm},

	{Key: "limits.failed_auth_per_minute", Default: "30", number: true, Doc: "how often one address (of IPv6: one /64) may fail to authenticate; then it gets 429 TOO_MANY_FAILED_ATTEMPTS",
		Read: number(1, 1_000_000, func(c *Config) *int { return &c.Limits.FailedAuthPerMinute })},

	{Key: "panel.idle", Default: "30m", Doc: "how long a person stays signed in to the pages without using them",
		Read: duration(2*time.Minute, 24*time.Hour, func(c *Config) *time.Duration { return &c.Panel.Idle })},
	{Key: "panel.absolute", Default: "12h", Doc: "how long a person stays signed in to the pages at most",
		Read: duration(2*time.Minute, 30*24*time.Hour, func(c *Config) *time.Duration { return &c.Panel.Absolute })},
	{Key: "panel.staff_totp", Default: "true", boolean: true, Doc: "staff who move money or see secrets must have a second factor: codes from an app on their telephone, or a passkey",
		Read: boolean(func(c *Config) *bool { return &c.Panel.StaffTOTP })},
	{Key: "panel.origin", Default: "", Doc: "address under which people reach the pages, such as https://panel.example.com, to which passkeys are bound and with which links to receipts begin; empty = the host that the browser asks for",
		Read: readOrigin},
	{Key: "request_log.keep", Default: "720h", Doc: "how long operators can look their API calls up; 0s = calls are not kept",
		Read: duration(0, 366*24*time.Hour, func(c *Config) *time.Duration { return &c.RequestLog.Keep })},
	{Key: "retention.provider_calls", Default: "0s", Doc: "how long what the provider was asked and said about an uneventful operation is kept, such as 9600h (400 days), at least 2160h (90 days); 0s = for good",
		Read: keep(retention.ProviderCalls, func(c *retention.Config) *time.Duration { return &c.ProviderCalls })},
	{Key: "retention.operation_events", Default: "0s", Doc: "how long the steps of an uneventful operation are kept, at least 2160h (90 days); 0s = for good",
		Read: keep(retention.OperationEvents, func(c *retention.Config) *time.Duration { return &c.OperationEvents })},
	{Key: "retention.bulk_jobs", Default: "0s", Doc: "how long finished bulk renewals are kept with their rows, at least 720h (30 days); 0s = for good",
		Read: keep(retention.BulkJobs, func(c *retention.Config) *time.Duration { return &c.BulkJobs })},
	{Key: "retention.personal_data", Default: "0s", Doc: "how long after its last cycle and operation a subscriber cannot be forgotten, as the law may demand of invoices; 0s = it can at once",
		Read: duration(0, 100*366*24*time.Hour, func(c *Config) *time.Duration { return &c.PersonalData })},
	{Key: "approval.above", Default: "50000.00", Doc: "amount in rupees above which the console moves money only after a second person has agreed, alone or as a sum within approval.window; 0 = always",
		Read: readApprovalAbove},
	{Key: "approval.window", Default: "24h", Doc: "how long an amount counts towards approval.above: what one person moved alone within it, and what was moved alone for one operator",
		Read: duration(time.Minute, 31*24*time.Hour, func(c *Config) *time.Duration { return &c.Approval.Window })},
	{Key: "approval.new_login_wait", Default: "24h", Doc: "how long a login that was made, raised or reset in the console cannot approve; 0s = it can at once",
		Read: duration(0, 30*24*time.Hour, func(c *Config) *time.Duration { return &c.Approval.NewLoginWait })},
	{Key: "approval.price_change", Default: "20", number: true, Doc: "percent by which the console changes a plan's price within approval.window before a second person is needed; 0 = any change",
		Read: number(0, 100, func(c *Config) *int { return &c.Approval.PriceChange })},
	{Key: "reversal.max_age", Default: "72h", Doc: "how long after its success staff can reverse an operation",
		Read: duration(time.Minute, 31*24*time.Hour, func(c *Config) *time.Duration { return &c.ReversalAge })},
	{Key: "plans.max_months", Default: "24", number: true, Doc: "longest term that a plan can be set to, in months",
		Read: number(1, 120, func(c *Config) *int { return &c.Plans.MaxMonths })},

	{Key: "audit.every", Default: "0s", Doc: "how long a node pauses between two audits of the whole store beside its work, such as 1m; 0s = none",
		Read: duration(0, 30*24*time.Hour, func(c *Config) *time.Duration { return &c.Audit.Every })},

	{Key: "backup.folder", Default: "", path: true, Doc: "folder of this store's backups: the metrics and coax doctor tell how old the newest is; coax backup is given its folder itself. Empty = they do not look",
		Read: text(func(c *Config) *string { return &c.Backup.Folder })},

	{Key: "log.level", Default: "info", choices: logLevels, Doc: "debug, info, warn or error",
		Read: oneOf(logLevels, func(c *Config) *string { return &c.Log.Level })},
	{Key: "log.security_file", Default: "", path: true, Doc: "file that security events are appended to, one JSON object a line; opened again on SIGHUP. Empty = they are in the ordinary log",
		Read: text(func(c *Config) *string { return &c.Log.SecurityFile })},

	{Key: "trace.endpoint", Default: "", mask: maskUser, Doc: "collector that traces are sent to, by OTLP over HTTP, such as http://127.0.0.1:4318 (then with the path /v1/traces) or the whole address; empty = no traces",
		Read: readTraceEndpoint},
	{Key: "trace.ratio", Default: "1", decimal: true, Doc: "share of requests that are traced, from 0 to 1",
		Read: readTraceRatio},
	{Key: "trace.headers_file", Default: "", path: true, Doc: "file with headers for the collector, such as a token: NAME: VALUE, one a line; empty = none",
		Read: text(func(c *Config) *string { return &c.Trace.HeadersFile })},
	{Key: "trace.trust_parent", Default: "false", boolean: true, Doc: "a request with a traceparent header is part of that trace, which decides whether it is recorded; false: its own trace links to that one",
		Read: boolean(func(c *Config) *bool { return &c.Trace.TrustParent })},
}, paymentSettings...)

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

func readReplica(c *Config, value string) error {
	c.Store.Replica = value
	if value == "" {
		return nil
	}
	_, err := replica.ParseAddress(value)
	return err
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
			return fmt.Errorf("%q is not an address such as https://provider.example", maskUser(value))
		}
	}
	c.Provider.URL = value
	return nil
}

// maskUser removes the user and password of an address, also of an invalid one.
func maskUser(value string) string {
	at := strings.LastIndex(value, "@")
	if at < 0 {
		return value
	}
	scheme, _, found := strings.Cut(value[:at], "://")
	if !found {
		return value[at+1:]
	}
	return scheme + "://" + value[at+1:]
}

func maskStoreURL(value string) string {
	if strings.HasPrefix(value, "sqlite:") {
		return value
	}
	return postgres.Redact(value)
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
