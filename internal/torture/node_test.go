package torture

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// node is a node that runs coax serve, in one process after another.
type node struct {
	env       *environment
	index     int
	process   *process
	address   atomic.Pointer[string] // of its API; nil while it is down
	internal  string
	trusted   *x509.CertPool
	transport *http.Transport // of the clients
}

func newNode(env *environment, index int) *node {
	env.t.Helper()
	n := &node{env: env, index: index}
	ca, err := os.ReadFile(filepath.Join(env.folder, "ca.pem"))
	if err != nil {
		env.t.Fatal(err)
	}
	n.trusted = x509.NewCertPool()
	n.trusted.AppendCertsFromPEM(ca)
	n.transport = n.transportFrom("127.0.0.1")
	return n
}

// transportFrom returns a transport to the node, at its present address, from one of
// this machine's loopback addresses.
func (n *node) transportFrom(source string) *http.Transport {
	n.env.t.Helper()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			at := n.address.Load()
			if at == nil {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("%s is down", n.name())}
			}
			return dialerFrom(source).DialContext(ctx, "tcp", *at)
		},
		TLSClientConfig:     &tls.Config{RootCAs: n.trusted},
		MaxIdleConnsPerHost: 64,
	}
	n.env.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// dialerFrom dials from a loopback address.
func dialerFrom(source string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: timeout}
}

func (n *node) name() string { return fmt.Sprintf("node-%d", n.index) }

// launch starts the node's process, which breaks at a failpoint if one is named.
func (n *node) launch(failpoint string, sets ...string) {
	n.env.t.Helper()
	args := []string{"serve", "--config", n.env.config}
	sets = append([]string{"server.addr=127.0.0.1:0", "server.internal_addr=127.0.0.1:0"}, sets...)
	if n.env.offset != nil {
		args = []string{"demo", "--dir", n.env.folder, "--json"}
		sets = append(sets, "clock.offset="+time.Duration(n.env.offset.Load()).String(), "provider.url="+n.env.provider.url)
	}
	if n.env.store == "postgres" {
		sets = append(sets, "store.url="+n.env.storeOf(n))
	}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	n.process = launch(n.env.t, failpoint, args...)
}

// await waits until the node serves; false if it died before that.
func (n *node) await() bool {
	n.env.t.Helper()
	serves := false
	until(n.env.t, n.name()+" serves", func() bool {
		over := n.process.over()
		for line := range strings.Lines(n.process.err.String()) {
			var said struct {
				Msg          string `json:"msg"`
				Addr         string `json:"addr"`
				InternalAddr string `json:"internal_addr"`
			}
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
				n.address.Store(&said.Addr)
				n.internal = "http://" + said.InternalAddr
				serves = true
			}
		}
		return serves || over
	})
	return serves
}

// start starts the node and waits until it serves.
func (n *node) start(sets ...string) {
	n.env.t.Helper()
	n.launch("", sets...)
	if !n.await() {
		n.env.t.Fatalf("%s ended instead of serving:\n%s", n.name(), n.process.err)
	}
}

// gone notes that the process has ended.
func (n *node) gone() {
	n.env.t.Helper()
	n.address.Store(nil)
	n.process.awaitEnd()
	n.process.checkLog()
}

// kill ends the node as a power failure would.
func (n *node) kill() {
	n.env.t.Helper()
	n.process.kill()
	n.gone()
}

// terminate sends SIGTERM and requires a clean exit.
func (n *node) terminate() {
	n.env.t.Helper()
	n.process.terminate()
	n.gone()
}

func (n *node) running() bool { return n.address.Load() != nil && !n.process.over() }
