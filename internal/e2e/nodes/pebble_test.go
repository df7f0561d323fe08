//go:build long

package nodes

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/program"
	"github.com/coaxhq/coax/internal/server"
)

// toolsModule pins pebble, apart from what the product is built of.
const toolsModule = "../../../tools/go.mod"

var (
	buildPebble = sync.OnceValues(func() (string, error) {
		return program.BuildPackage("pebble", "github.com/letsencrypt/pebble/v2/cmd/pebble", "-modfile="+toolsModule)
	})
	buildNames = sync.OnceValues(func() (string, error) {
		return program.BuildPackage("pebble-challtestsrv", "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv", "-modfile="+toolsModule)
	})
)

// apiName is the name that certificates are ordered for.
const apiName = "api.coax.test"

// authority is pebble, an ACME authority for tests, and a name server that it asks.
type authority struct {
	t          testing.TB
	folder     string
	config     string
	directory  string
	management string
	dns        string
	names      string // the management address of the name server
	// port is where it looks for the service, in place of 443.
	port   string
	pebble *e2e.Process
	client *http.Client
}

// newAuthority starts a name server, and prepares an authority whose certificates last so long.
func newAuthority(t testing.TB, validity time.Duration) *authority {
	t.Helper()
	a := &authority{t: t, folder: t.TempDir()}
	a.directory, a.management, a.dns, a.names = freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
	_, a.port, _ = net.SplitHostPort(freeAddress(t))
	if err := server.EnsureCertificate(a.folder, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	a.client = e2e.NewHTTPClient(t, a.caFile())
	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": a.directory, "managementListenAddress": a.management,
		"certificate": filepath.Join(a.folder, "tls.pem"), "privateKey": filepath.Join(a.folder, "tls.key"),
		"tlsPort": json.Number(a.port), "keyAlgorithm": "ecdsa",
		"profiles": map[string]any{"default": map[string]any{"description": "default", "validityPeriod": int(validity.Seconds())}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	a.config = filepath.Join(a.folder, "pebble.json")
	e2e.WriteFile(t, a.config, string(text))
	path, err := buildNames()
	if err != nil {
		t.Fatal(err)
	}
	names := e2e.LaunchCommand(t, exec.Command(path, "-management", a.names, "-dnsserver", a.dns, "-defaultIPv6", "",
		"-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""))
	t.Cleanup(names.Kill)
	awaitListener(t, a.names, names)
	return a
}

func (a *authority) caFile() string { return filepath.Join(a.folder, "ca.pem") }

// settings are those of a node that orders here.
func (a *authority) settings() []string {
	var sets []string
	for _, set := range []string{"server.acme_domains=" + apiName, "server.acme_directory=https://" + a.directory + "/dir", "server.acme_ca_file=" + a.caFile(), "server.acme_email=ops@coax.test"} {
		sets = append(sets, "--set", set)
	}
	return sets
}

// recordAccounts starts a proxy of the authority, and returns its address and what the authority
// answers to who makes an account.
func (a *authority) recordAccounts() (directory string, accounts func() []string) {
	a.t.Helper()
	var mu sync.Mutex
	var made []string
	target := &url.URL{Scheme: "https", Host: a.directory}
	// Requests are signed with the address that the directory names, so the host stays the proxy's.
	proxy := &httputil.ReverseProxy{
		Transport: a.client.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode != http.StatusCreated || !strings.Contains(r.Header.Get("Location"), "/my-account/") {
				return nil
			}
			text, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(text))
			mu.Lock()
			defer mu.Unlock()
			made = append(made, string(text))
			return err
		},
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(a.folder, "tls.pem"), filepath.Join(a.folder, "tls.key"))
	if err != nil {
		a.t.Fatal(err)
	}
	served := httptest.NewUnstartedServer(proxy)
	served.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	served.StartTLS()
	a.t.Cleanup(served.Close)
	return served.URL + "/dir", func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(made)
	}
}

// start starts the authority; it forgets everything when it is stopped.
func (a *authority) start(environ ...string) {
	a.t.Helper()
	path, err := buildPebble()
	if err != nil {
		a.t.Fatal(err)
	}
	command := exec.Command(path, "-config", a.config, "-dnsserver", a.dns, "-strict")
	command.Env = append(e2e.Environ("PEBBLE_VA_NOSLEEP=1"), environ...)
	a.pebble = e2e.LaunchCommand(a.t, command)
	a.t.Cleanup(a.pebble.Kill)
	awaitListener(a.t, a.directory, a.pebble)
	awaitListener(a.t, a.management, a.pebble)
}

func (a *authority) stop() { a.pebble.Kill() }

// pointTo makes the name lead to an address.
func (a *authority) pointTo(ip string) {
	a.t.Helper()
	for _, call := range []struct{ path, body string }{
		{"/clear-a", `{"host":"` + apiName + `."}`},
		{"/add-a", `{"host":"` + apiName + `.","addresses":["` + ip + `"]}`},
	} {
		response, err := http.Post("http://"+a.names+call.path, "application/json", strings.NewReader(call.body))
		if err != nil {
			a.t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			a.t.Fatalf("the name server answers %s with %s", call.path, response.Status)
		}
	}
}

// issued counts the certificates that the running authority has issued.
func (a *authority) issued() int {
	return strings.Count(a.pebble.Out.String(), "Issued certificate serial")
}

// roots returns the root of the running authority.
func (a *authority) roots() *x509.CertPool {
	a.t.Helper()
	response, err := a.client.Get("https://" + a.management + "/roots/0")
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		a.t.Fatalf("the authority's root: %v %s", err, text)
	}
	return pool
}

// acmeNode starts a node on an address with the authority's port.
func (a *authority) node(ip, config string, more ...string) *clusterNode {
	a.t.Helper()
	n := a.launch(ip, config, more...)
	n.await()
	return n
}

func (a *authority) launch(ip, config string, more ...string) *clusterNode {
	a.t.Helper()
	args := append([]string{"serve", "--config", config, "--set", "server.addr=" + net.JoinHostPort(ip, a.port), "--set", "server.internal_addr=127.0.0.1:0"}, a.settings()...)
	n := &clusterNode{Process: e2e.Launch(a.t, append(args, more...)...)}
	a.t.Cleanup(n.Kill)
	return n
}

// handshake connects to a node, and verifies its certificate for the name.
func (a *authority) handshake(n *clusterNode, roots *x509.CertPool) (*tls.Conn, error) {
	return tls.DialWithDialer(&net.Dialer{Timeout: 30 * time.Second}, "tcp", strings.TrimPrefix(n.base, "https://"),
		&tls.Config{RootCAs: roots, ServerName: apiName, NextProtos: []string{"http/1.1"}})
}

// serial returns the serial number of the certificate that a node serves with.
func (a *authority) serial(n *clusterNode, roots *x509.CertPool) string {
	a.t.Helper()
	conn, err := a.handshake(n, roots)
	if err != nil {
		a.t.Fatalf("connect to %s: %v\n%s", n.base, err, n.Err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// logs waits until a node's log has a text.
func (n *clusterNode) logs(text string) {
	n.TB.Helper()
	if !n.Err.WaitFor(text, n.Ended) {
		n.TB.Fatalf("the node does not log %q:\n%s", text, n.Err)
	}
}

// metric returns a metric's line.
func (n *clusterNode) metric(name string) string {
	n.TB.Helper()
	_, text := e2e.HTTPGet(n.TB, n.internal+"/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	n.TB.Fatalf("the node has no metric %s", name)
	return ""
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// awaitListener waits until a process listens.
func awaitListener(t testing.TB, address string, p *e2e.Process) {
	t.Helper()
	(&e2e.Env{TB: t}).WaitUntil("something listens on "+address, func() bool {
		select {
		case <-p.Ended:
			t.Fatalf("%s ended:\n%s%s", p.Cmd.Path, p.Out, p.Err)
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
