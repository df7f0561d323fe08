//go:build long

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
)

// node is a place for coax serve: the process in it changes.
type node struct {
	w         *world
	index     int
	process   *process
	address   atomic.Pointer[string] // of its API; nil while it is down
	internal  string
	trusted   *x509.CertPool
	transport *http.Transport // of the clients
}

func newNode(w *world, index int) *node {
	w.t.Helper()
	n := &node{w: w, index: index}
	ca, err := os.ReadFile(filepath.Join(w.folder, "ca.pem"))
	if err != nil {
		w.t.Fatal(err)
	}
	n.trusted = x509.NewCertPool()
	n.trusted.AppendCertsFromPEM(ca)
	n.transport = n.transportFrom("127.0.0.1")
	return n
}

// transportFrom is a way to the node, wherever it is at the moment, for somebody
// whom it sees under an address of this machine's own.
func (n *node) transportFrom(source string) *http.Transport {
	n.w.t.Helper()
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
	n.w.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// dialerFrom dials from one of the many addresses that every machine has for
// itself.
func dialerFrom(source string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: patience}
}

func (n *node) name() string { return fmt.Sprintf("node-%d", n.index) }

// launch starts the node's process, which breaks at a failpoint if one is named.
func (n *node) launch(failpoint string, sets ...string) {
	n.w.t.Helper()
	args := []string{"serve", "--config", n.w.config}
	sets = append([]string{"server.addr=127.0.0.1:0", "server.internal_addr=127.0.0.1:0"}, sets...)
	if n.w.store == "postgres" {
		sets = append(sets, "store.url="+n.w.storeOf(n))
	}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	n.process = launch(n.w.t, failpoint, args...)
}

// await waits until the node serves; false if it died before that.
func (n *node) await() bool {
	n.w.t.Helper()
	serves := false
	until(n.w.t, n.name()+" serves", func() bool {
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

// start starts the node and demands that it serves.
func (n *node) start(sets ...string) {
	n.w.t.Helper()
	n.launch("", sets...)
	if !n.await() {
		n.w.t.Fatalf("%s ended instead of serving:\n%s", n.name(), n.process.err)
	}
}

// gone notes that the process has ended.
func (n *node) gone() {
	n.w.t.Helper()
	n.address.Store(nil)
	n.process.awaitEnd()
	n.process.sound()
}

// kill ends the node as a power failure would.
func (n *node) kill() {
	n.w.t.Helper()
	n.process.kill()
	n.gone()
}

// terminate asks the node to end, and demands that it does so well.
func (n *node) terminate() {
	n.w.t.Helper()
	n.process.terminate()
	n.gone()
}

func (n *node) running() bool { return n.address.Load() != nil && !n.process.over() }
