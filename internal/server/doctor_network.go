package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// dialTimeout bounds a connection to a listener of this machine.
const dialTimeout = 2 * time.Second

// checkProvider asks the provider what a node asks it: the status of a reference that does not
// exist, and the catalogue. Both change nothing there.
func (d *doctor) checkProvider(ctx context.Context) []Diagnosis {
	l := lines{check: "provider"}
	config := d.config
	if config.Provider.URL == "" {
		l.warn("mend the configuration first", "not checked: provider.url is not set")
		return l.all
	}
	config.Provider.Timeout = min(config.Provider.Timeout, d.timeout*4/10) // it is called twice
	provider, err := OpenProvider(config, nil)
	if err != nil {
		l.problem("the service does not start with this", "%v", err)
		return l.all
	}
	defer provider.Close()
	began := time.Now()
	if err := provider.Probe(ctx); err != nil {
		l.problem(providerCure(err.Error()), "%s: %v", config.Provider.URL, err)
		return l.all
	}
	took := time.Since(began).Round(time.Millisecond)
	components, err := provider.Catalogue(ctx)
	switch {
	case err != nil:
		l.problem("ask the provider; once prices are older than catalogue.max_age nothing is sold (PLANS_UNAVAILABLE)", "%s answers, but %v", config.Provider.URL, err)
	case len(components) == 0:
		l.warn("ask the provider: no plan can be sold", "%s answers, and its catalogue is empty", config.Provider.URL)
	default:
		l.ok("%s answers (%s), and sells %d components", config.Provider.URL, took, len(components))
	}
	return l.all
}

func providerCure(failure string) string {
	switch {
	case strings.Contains(failure, "certificate"):
		return "see that provider.url has the name in the provider's certificate; if its authority is not a public one, name it in provider.ca"
	case strings.Contains(failure, "HTTP 401"), strings.Contains(failure, "HTTP 403"):
		return "put the token that the provider has given you into the file of provider.token_file"
	case strings.Contains(failure, "no connection"):
		return "see that provider.url is right, the provider runs, and a firewall lets this machine through; orders are refused meanwhile, and nothing is lost"
	}
	return "see that provider.url is the address of a provider of this protocol, and ask the provider"
}

// nodeState is what answers where a node of this configuration would.
type nodeState struct {
	// ready and reason are those of /readyz; answered is false if nothing listens there.
	answered, ready bool
	reason          string
	// foreign: what answers is no node.
	foreign bool
	// holder is the process that serves from the folder of a SQLite store; 0 if none is known.
	holder string
}

func (n nodeState) running() bool { return n.answered && !n.foreign || n.holder != "" }

// localAddress is a listener's address as this machine dials it; "" if the port is not known.
func localAddress(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "0" {
		return ""
	}
	if everyAddress(host) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// findNode asks server.internal_addr whether a node is ready.
func findNode(ctx context.Context, config Config) nodeState {
	var n nodeState
	if config.Store.Kind == "sqlite" {
		n.holder = lockHolder(config.Store.Path + ".lock")
	}
	addr := localAddress(config.Server.InternalAddr)
	if addr == "" {
		return n
	}
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return n
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy of the environment
	response, err := client.Do(request)
	if err != nil {
		n.answered = !errors.Is(err, syscall.ECONNREFUSED) && listens(ctx, addr)
		n.foreign = n.answered
		return n
	}
	defer response.Body.Close()
	var said struct {
		OK     *bool  `json:"ok"`
		Reason string `json:"reason"`
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	n.answered = true
	n.foreign = json.Unmarshal(text, &said) != nil || said.OK == nil
	n.ready, n.reason = !n.foreign && *said.OK, said.Reason
	return n
}

// NodeReady asks the node of a configuration whether it is ready to serve; nil if it is.
func NodeReady(ctx context.Context, config Config) error {
	switch n := findNode(ctx, config); {
	case n.ready:
		return nil
	case !n.answered:
		return fmt.Errorf("no node answers at %s (server.internal_addr)", config.Server.InternalAddr)
	case n.foreign:
		return fmt.Errorf("another program answers at %s (server.internal_addr)", config.Server.InternalAddr)
	default:
		return fmt.Errorf("the node is not ready: %s", n.reason)
	}
}

func listens(ctx context.Context, addr string) bool {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// lockLine is a line of /proc/locks: the process and the file's inode.
var lockLine = regexp.MustCompile(`(?m)^\d+: FLOCK +ADVISORY +WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) `)

// lockHolder returns the process that has locked a file; "" if none has or it cannot be told.
// It does not try the lock, which would keep out a node that starts at this moment.
func lockHolder(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	locks, err := os.ReadFile("/proc/locks")
	owner, ownerErr := os.ReadFile(path) // the number of a process that may have ended
	if !ok || err != nil || ownerErr != nil {
		return ""
	}
	for _, match := range lockLine.FindAllStringSubmatch(string(locks), -1) {
		if match[2] == fmt.Sprint(stat.Ino) && match[1] == strings.TrimSpace(string(owner)) {
			return match[1]
		}
	}
	return ""
}

// checkNode says whether a node of this configuration runs here.
func (d *doctor) checkNode(ctx context.Context) []Diagnosis {
	l := lines{check: "node"}
	n, internal := d.node(), d.config.Server.InternalAddr
	const other = "see with which settings it was started: `--set` and the environment win over the file"
	switch {
	case n.foreign:
		l.problem("end it, or choose another server.internal_addr", "another program answers at %s (server.internal_addr)", internal)
	case n.ready:
		l.ok("it runs, and is ready")
		d.checkServed(ctx, &l)
	case n.answered && n.reason == "draining":
		l.warn("", "it is stopping")
	case n.answered:
		l.problem("see the lines above, and the node's log (`journalctl -u coax`)", "it runs and is not ready: %s", n.reason)
	case n.holder != "":
		l.warn(other, "process %s serves from the store's folder, and does not answer at %s (server.internal_addr)", n.holder, internal)
	case localAddress(internal) == "":
		l.warn("give server.internal_addr a port", "not checked: the port of server.internal_addr is any free one")
	default:
		l.warn("`systemctl start coax`", "none runs: nothing answers at %s (server.internal_addr)", internal)
		d.checkPortsFree(ctx, &l)
	}
	return l.all
}

// checkPortsFree finds programs that would keep a node from listening.
func (d *doctor) checkPortsFree(ctx context.Context, l *lines) {
	for _, listener := range []struct{ key, addr string }{{"server.addr", d.config.Server.Addr}, {"server.plain_addr", d.config.Server.PlainAddr}} {
		if addr := localAddress(listener.addr); addr != "" && listens(ctx, addr) {
			l.problem("end it, or choose another "+listener.key, "another program listens at %s (%s)", listener.addr, listener.key)
		}
	}
}

// checkServed looks at the HTTPS listener of a node that runs, and compares its certificate
// with the file.
func (d *doctor) checkServed(ctx context.Context, l *lines) {
	addr := localAddress(d.config.Server.Addr)
	if state, err := d.store(); addr == "" || len(d.config.Server.ACMEDomains) > 0 && (err != nil || state.acme.Version == 0) {
		return // not known, or refused until the first certificate is there
	}
	// The certificate is compared, not verified.
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: &tls.Config{InsecureSkipVerify: true}}
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		l.problem("see with which settings the node was started: `--set` and the environment win over the file", "nothing speaks HTTPS at %s (server.addr): %v", d.config.Server.Addr, err)
		return
	}
	defer conn.Close()
	served := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if len(d.config.Server.ACMEDomains) > 0 {
		if state, err := d.store(); err == nil && state.acme.Version > 0 && !served.NotAfter.Equal(state.acme.Expires) {
			l.warn("wait for some seconds, and look at the node's log", "the node still serves another certificate than the store has, until %s", indian(served.NotAfter))
		}
		return
	}
	cert, err := loadCertificate(d.config.Server.TLSCert, d.config.Server.TLSKey)
	if err == nil && !bytes.Equal(served.Raw, cert.current.Load().Leaf.Raw) {
		l.warn("`systemctl reload coax`", "the node still serves another certificate than %s has, until %s", cert.certFile, indian(served.NotAfter))
	}
}
