package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/acme"
)

// Finding is one thing that is wrong with the configuration.
type Finding struct {
	// Warning: serve starts all the same.
	Warning bool `json:"warning"`
	// Where is a file with its line, an environment variable or a flag; File and Line are set
	// if it is in the file.
	Where   string `json:"where"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
	Cure    string `json:"cure,omitempty"`
}

// Text says where it is and what is wrong.
func (f Finding) Text() string {
	if f.Key == "" || strings.HasSuffix(f.Where, " "+f.Key) { // a flag has its key
		return f.Where + ": " + f.Problem
	}
	return f.Where + ": " + f.Key + ": " + f.Problem
}

// CheckConfig reads a configuration as serve does, and returns everything that is wrong with
// it: what serve refuses before it opens the store, and what it would warn about. It needs
// neither the store nor the provider.
func CheckConfig(from Sources) []Finding {
	l := load(from)
	var found []Finding
	for _, problem := range l.problems {
		found = append(found, findingOf(problem, from.File))
	}
	for _, c := range slices.Concat(combinations, paymentCombinations) {
		if l.unread || l.anyInvalid(c.keys) {
			continue
		}
		if problem, cure := c.check(l.config); problem != "" {
			found = append(found, l.finding(c.keys[0], c.warning, problem, cure))
		}
	}
	for _, s := range l.config.InsecureSettings() {
		if !l.unread && l.invalid[s.Setting] == nil {
			found = append(found, l.finding(s.Setting, !l.config.Strict || s.Tolerated, s.Problem, s.Cure))
		}
	}
	found = append(found, strayVariables(from.Environ)...)
	for i := range found {
		if found[i].Where == "" {
			found[i].Where, found[i].File = from.File, from.File // a setting that nobody has given
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		if (a.File == "") != (b.File == "") {
			return len(b.File) - len(a.File)
		}
		if (a.Line == 0) != (b.Line == 0) {
			return b.Line - a.Line
		}
		return a.Line - b.Line
	})
	return found
}

func (l loaded) anyInvalid(keys []string) bool {
	for _, key := range keys {
		if l.invalid[key] != nil {
			return true
		}
	}
	return false
}

func (l loaded) finding(key string, warning bool, problem, cure string) Finding {
	f := Finding{Warning: warning, Key: key, Problem: problem, Cure: cure}
	f.at(l.given[key].where)
	return f
}

func (f *Finding) at(where Place) {
	if where != (Place{}) {
		f.Where, f.File, f.Line = where.String(), where.File, where.Line
	}
}

func findingOf(problem error, file string) Finding {
	var syntax *syntaxError
	if errors.As(problem, &syntax) {
		return Finding{Where: fmt.Sprintf("%s:%d", syntax.file, syntax.row), File: syntax.file, Line: syntax.row,
			Problem: fmt.Sprintf("column %d: %s", syntax.column, syntax.message), Cure: "mend the line; nothing else of the file was read"}
	}
	var at *ConfigError
	if !errors.As(problem, &at) {
		return Finding{Where: file, File: file, Problem: problem.Error()}
	}
	f := Finding{Key: at.Key, Problem: at.Err.Error()}
	f.at(at.Where)
	if s := FindSetting(at.Key); s != nil {
		f.Cure = "meaning: " + s.Doc
		if s.Default != "" {
			f.Cure += " (default " + s.Default + ")"
		}
	}
	return f
}

// strayVariables warns of variables that look like mistyped settings in a section that is
// mistyped, too. They may be another program's, so serve ignores them.
func strayVariables(environ []string) (found []Finding) {
	known := map[string]bool{MasterKeyVariable: true}
	for _, s := range Settings {
		known[s.Variable()] = true
	}
	_, refused := readEnvironment(environ)
	for _, problem := range refused {
		var at *ConfigError
		if errors.As(problem, &at) {
			known[at.Where.Name] = true
		}
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if known[name] {
			continue
		}
		if near := similarVariables(name); len(near) > 0 {
			found = append(found, Finding{Warning: true, Where: name, Problem: "it is no setting, and is ignored",
				Cure: "is " + strings.Join(near, " or ") + " meant?"})
		}
	}
	return found
}

// combination is a rule about the values of several settings, or one that only serve has. It
// is checked if all of them could be read, and reported at the first.
type combination struct {
	keys    []string
	warning bool
	// check returns "" if nothing is wrong.
	check func(Config) (problem, cure string)
}

var combinations = []combination{
	{keys: []string{"provider.url"}, check: func(c Config) (string, string) {
		if c.Provider.URL != "" {
			return "", ""
		}
		return "it is not set", "give the provider's address, such as https://provider.example (`coax simulator` runs one to try)"
	}},
	{keys: []string{"provider.url"}, check: func(c Config) (string, string) {
		at, err := url.Parse(c.Provider.URL)
		if err != nil || at.User == nil && at.RawQuery == "" && at.Fragment == "" {
			return "", ""
		}
		return "it has a user, a password, or something behind ? or #", "write the address alone; a token goes into the file of provider.token_file"
	}},
	{keys: []string{"provider.token_file", "provider.url"}, check: func(c Config) (string, string) {
		at, err := url.Parse(c.Provider.URL)
		if err != nil || c.Provider.TokenFile == "" || at.Scheme != "http" || namesThisMachine(at.Hostname()) {
			return "", ""
		}
		return "the provider's token would travel unencrypted to " + at.Host, "use https:// in provider.url"
	}},
	{keys: []string{"trace.headers_file", "trace.endpoint"}, check: func(c Config) (string, string) {
		if _, err := traceHeaders(c); err != nil {
			return err.Error(), "write NAME: VALUE, one header a line, such as Authorization: Bearer TOKEN, into a file that the service can read"
		}
		if host, plain := plainTraceHost(c); plain && c.Trace.HeadersFile != "" {
			return "the collector's headers would travel unencrypted to " + host, "use https:// in trace.endpoint"
		}
		return "", ""
	}},
	{keys: []string{"clock.offset"}, check: func(c Config) (string, string) {
		if c.Clock.Offset == 0 {
			return "", ""
		}
		return "it is for demo only, and serve refuses it: a service with a wrong clock would set wrong expiries", "remove it"
	}},
	{keys: []string{"server.acme_domains", "server.addr"}, warning: true, check: func(c Config) (string, string) {
		_, port, err := net.SplitHostPort(c.Server.Addr)
		if len(c.Server.ACMEDomains) == 0 || err != nil || port == "443" {
			return "", ""
		}
		return fmt.Sprintf("the authority connects to port 443 of each name, and server.addr is %s", c.Server.Addr),
			"forward port 443 to it, or listen on port 443"
	}},
	{keys: []string{"server.acme_email", "server.acme_domains"}, warning: true, check: func(c Config) (string, string) {
		return withoutDomains(c, c.Server.ACMEEmail != "")
	}},
	{keys: []string{"server.acme_directory", "server.acme_domains"}, warning: true, check: func(c Config) (string, string) {
		return withoutDomains(c, c.Server.ACMEDirectory != acme.LetsEncryptURL)
	}},
	{keys: []string{"server.acme_ca_file", "server.acme_domains"}, warning: true, check: func(c Config) (string, string) {
		return withoutDomains(c, c.Server.ACMECAFile != "")
	}},
	{keys: []string{"server.acme_ca_file"}, check: func(c Config) (string, string) {
		if c.Server.ACMECAFile == "" {
			return "", ""
		}
		if _, err := readRoots(c.Server.ACMECAFile); err != nil {
			return err.Error(), "name the file with the authority's root certificate, in PEM"
		}
		return "", ""
	}},
	{keys: []string{"server.internal_addr", "server.addr"}, check: func(c Config) (string, string) {
		return sameListener(c.Server.InternalAddr, c.Server.Addr, "server.addr")
	}},
	{keys: []string{"server.plain_addr", "server.addr"}, check: func(c Config) (string, string) {
		return sameListener(c.Server.PlainAddr, c.Server.Addr, "server.addr")
	}},
	{keys: []string{"server.plain_addr", "server.internal_addr"}, check: func(c Config) (string, string) {
		return sameListener(c.Server.PlainAddr, c.Server.InternalAddr, "server.internal_addr")
	}},
	{keys: []string{"server.plain_addr", "server.trusted_proxies"}, warning: true, check: func(c Config) (string, string) {
		if c.Server.PlainAddr == "" || len(c.Server.TrustedProxies) > 0 {
			return "", ""
		}
		return "no proxy is trusted, so this listener answers every request with 403 HTTPS_REQUIRED",
			"name the proxy that ends TLS in server.trusted_proxies, or remove the listener"
	}},
	{keys: []string{"catalogue.refresh", "catalogue.max_age"}, warning: true, check: func(c Config) (string, string) {
		if c.Catalogue.Refresh < c.Catalogue.MaxAge {
			return "", ""
		}
		return fmt.Sprintf("prices are verified every %s and count for %s only, so plans cannot be bought in between (PLANS_UNAVAILABLE)", c.Catalogue.Refresh, c.Catalogue.MaxAge),
			"make it much shorter than catalogue.max_age"
	}},
	{keys: []string{"review.first_check", "review.max_interval"}, warning: true, check: func(c Config) (string, string) {
		if c.Review.FirstCheck <= c.Review.MaxInterval {
			return "", ""
		}
		return fmt.Sprintf("the first status check comes after %s, later than any other (review.max_interval is %s)", c.Review.FirstCheck, c.Review.MaxInterval),
			"make it shorter than review.max_interval"
	}},
	{keys: []string{"panel.idle", "panel.absolute"}, warning: true, check: func(c Config) (string, string) {
		if c.Panel.Idle <= c.Panel.Absolute {
			return "", ""
		}
		return fmt.Sprintf("it has no effect: sessions end after %s (panel.absolute) at the latest", c.Panel.Absolute), "make it shorter than panel.absolute"
	}},
	{keys: []string{"server.max_connections_per_address", "server.max_connections"}, warning: true, check: func(c Config) (string, string) {
		if c.Server.MaxConnectionsPerAddress <= c.Server.MaxConnections {
			return "", ""
		}
		return fmt.Sprintf("it has no effect: there are at most %d connections (server.max_connections)", c.Server.MaxConnections), "make it at most server.max_connections"
	}},
	{keys: []string{"store.mark_file", "store.url"}, warning: true, check: func(c Config) (string, string) {
		if c.Store.Kind != "sqlite" || filepath.Dir(c.Store.MarkFile) != filepath.Dir(c.Store.Path) {
			return "", ""
		}
		return "it is in the folder of the store: whoever puts the whole folder back from a copy puts the mark back, too, and the restore is not noticed",
			"name a file outside of " + filepath.Dir(c.Store.Path)
	}},
	{keys: []string{"store.replica", "store.url"}, warning: true, check: func(c Config) (string, string) {
		folder, isFolder := strings.CutPrefix(c.Store.Replica, "file://")
		data, err := filepath.Abs(filepath.Dir(c.Store.Path))
		if !isFolder || c.Store.Kind != "sqlite" || err != nil || !strings.HasPrefix(filepath.Clean(folder)+"/", data+"/") {
			return "", ""
		}
		return "it is in the folder of the store, and is lost with it", "name a folder on another disk or machine"
	}},
	{keys: []string{"store.replica_mode", "store.replica"}, warning: true, check: func(c Config) (string, string) {
		if c.Store.Replica != "" || c.Store.ReplicaMode == "async" {
			return "", ""
		}
		return "it has no effect: store.replica is not set", "set store.replica, or remove it"
	}},
}

// withoutDomains finds a setting that is given and has no effect.
func withoutDomains(c Config, given bool) (problem, cure string) {
	if !given || len(c.Server.ACMEDomains) > 0 {
		return "", ""
	}
	return "it has no effect: server.acme_domains is not set", "set server.acme_domains, or remove it"
}

// sameListener finds two listeners that cannot both be opened.
func sameListener(addr, other, otherKey string) (problem, cure string) {
	host, port, err := net.SplitHostPort(addr)
	otherHost, otherPort, otherErr := net.SplitHostPort(other)
	if err != nil || otherErr != nil || port == "0" || port != otherPort || host != otherHost && !everyAddress(host) && !everyAddress(otherHost) {
		return "", ""
	}
	return fmt.Sprintf("it is the port of %s, too, and only one of them can listen there", otherKey), "give it another port"
}

func everyAddress(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}
