//go:build long

package torture

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
)

const (
	floodTotal      = 512 // connections in all
	floodPerAddress = 64
	floodFailures   = 30 // failed authentications of an address in a minute
	floodMemory     = 512 << 20
	// floodKept is how many more files and goroutines a node may have than at its
	// start: eight store readers with up to three files each, and a connection to the
	// provider. A flood's leftovers would be hundreds.
	floodKept = 30
)

// floodTest is a node with low limits, and a regular client that keeps calling.
type floodTest struct {
	*environment
	n      *node
	signer *client.Client
	served atomic.Int64
	before gauges
	stop   func()
	// transports are all transports that may keep a connection.
	transports []*http.Transport
}

func newFloodTest(t *testing.T) *floodTest {
	t.Helper()
	b := &floodTest{environment: newEnvironment(t, "sqlite", 1)}
	b.n = b.nodes[0]
	b.n.start(
		fmt.Sprintf("server.max_connections=%d", floodTotal),
		fmt.Sprintf("server.max_connections_per_address=%d", floodPerAddress),
		fmt.Sprintf("limits.failed_auth_per_minute=%d", floodFailures),
	)
	b.signer = b.newClient(false)
	// The gauges of a warm node without connections.
	warm := b.newClient(true)
	for range 20 {
		b.request(warm)
	}
	until(t, "its connections are closed", func() bool { b.closeIdle(); return b.gauges().connections == 0 })
	b.before = b.gauges()

	done := make(chan struct{})
	var calling sync.WaitGroup
	fresh := b.newClient(false)
	calling.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				b.request(fresh)
			}
		}
	})
	b.stop = sync.OnceFunc(func() { close(done); calling.Wait() })
	t.Cleanup(b.stop)
	return b
}

// newClient returns a regular client, which keeps its connection or opens a new one for
// every request.
func (b *floodTest) newClient(keeps bool) *client.Client {
	b.t.Helper()
	transport := b.from("127.0.0.1")
	transport.DisableKeepAlives = !keeps
	c, err := client.New(client.Config{
		BaseURL: "https://127.0.0.1:1/api/v1", Key: b.operators[0].key, Secret: client.Secret(b.operators[0].secret),
		// An idle connection may be closed just when it is used; clients retry then.
		HTTP: &http.Client{Transport: transport, Timeout: timeout}, Retry: client.Retry{Attempts: 3, Pause: 10 * time.Millisecond},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// from returns a transport to the node from a source address.
func (b *floodTest) from(source string) *http.Transport {
	b.t.Helper()
	transport := b.n.transportFrom(source)
	b.transports = append(b.transports, transport)
	return transport
}

// closeIdle closes idle connections. A connection becomes idle only a moment after its
// use, so callers repeat this until none is left.
func (b *floodTest) closeIdle() {
	for _, transport := range b.transports {
		transport.CloseIdleConnections()
	}
}

func (b *floodTest) request(as *client.Client) {
	b.t.Helper()
	if _, err := as.Balance(context.Background()); err != nil {
		b.t.Errorf("a regular client is not served: %v", err)
		return
	}
	b.served.Add(1)
}

// requireServed waits until the regular client was served a number of times.
func (b *floodTest) requireServed(times int64) {
	b.t.Helper()
	target := b.served.Load() + times
	until(b.t, "the regular client was served", func() bool { return b.served.Load() >= target || b.t.Failed() })
	if has := b.gauges(); has.resident > floodMemory {
		b.t.Errorf("the node takes %d bytes of memory", has.resident)
	}
}

// requireRecovered requires that connections, goroutines and files of the node are back
// to where they were before the flood.
func (b *floodTest) requireRecovered() {
	b.t.Helper()
	b.stop()
	var has gauges
	rid := within(timeout, 2*time.Millisecond, func() bool {
		b.closeIdle()
		has = b.gauges()
		return has.connections == 0 && has.goroutines <= b.before.goroutines+floodKept && has.files <= b.before.files+floodKept
	})
	if !rid {
		b.t.Fatalf("the node does not release everything: it had %+v, and has %+v", b.before, has)
	}
	if has.resident > floodMemory {
		b.t.Errorf("the node takes %d bytes of memory", has.resident)
	}
	b.t.Logf("before: %+v; after: %+v; regular requests served: %d", b.before, has, b.served.Load())
	b.request(b.newClient(true))
	b.n.terminate()
	if out, err := run(b.t, "audit", "--config", b.config); err != nil {
		b.t.Errorf("%v\n%s", err, out)
	}
}

// gauges are values of a node's /metrics.
type gauges struct {
	goroutines, files, connections, resident, droppedTotal, droppedAddress int64
}

func (b *floodTest) gauges() gauges {
	b.t.Helper()
	// A kept connection would itself be counted.
	request, err := http.NewRequest(http.MethodGet, b.n.internal+"/metrics", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	var g gauges
	into := map[string]*int64{
		"go_goroutines": &g.goroutines, "process_open_fds": &g.files, "process_resident_memory_bytes": &g.resident,
		"coax_http_connections": &g.connections,
		`coax_http_connections_dropped_total{reason="total",state="waiting"}`:   &g.droppedTotal,
		`coax_http_connections_dropped_total{reason="address",state="waiting"}`: &g.droppedAddress,
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if target := into[name]; target != nil {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.t.Fatal(err)
			}
			*target = int64(value)
		}
	}
	return g
}

// opening is what a slow client sends before it gets slow.
type opening func(b *floodTest, raw net.Conn) (net.Conn, string, error)

// openings cover where a client can be slow: before its first byte, in the handshake, in
// the request line, in the headers and in the body.
var openings = []opening{
	func(_ *floodTest, raw net.Conn) (net.Conn, string, error) { return raw, "", nil },
	func(_ *floodTest, raw net.Conn) (net.Conn, string, error) { return raw, "\x16\x03\x01", nil },
	secured("GET /api/v1/bal"),
	secured("GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\nX-Api-Key: "),
	func(b *floodTest, raw net.Conn) (net.Conn, string, error) {
		request, err := b.signer.Sign(context.Background(), http.MethodPost, "activate", []byte(strings.Repeat(" ", 1000)))
		if err != nil {
			return nil, "", err
		}
		head := "POST /api/v1/activate HTTP/1.1\r\nHost: coax\r\nContent-Length: 1000\r\nIdempotency-Key: slow-body\r\n"
		for name, values := range request.Header {
			head += name + ": " + values[0] + "\r\n"
		}
		return secured(head+"\r\n")(b, raw)
	},
}

func secured(head string) opening {
	return func(b *floodTest, raw net.Conn) (net.Conn, string, error) {
		conn := tls.Client(raw, &tls.Config{RootCAs: b.n.trusted, ServerName: "127.0.0.1"})
		return conn, head, conn.Handshake()
	}
}

// slow opens a connection and sends byte by byte, without end, until it is cut off.
func (b *floodTest) slow(source string, open opening) error {
	raw, err := dialerFrom(source).Dial("tcp", *b.n.address.Load())
	if err != nil {
		return err
	}
	defer raw.Close()
	conn, head, err := open(b, raw)
	if err == nil {
		_, err = io.WriteString(conn, head)
	}
	if err != nil {
		return err
	}
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		_, _ = io.Copy(io.Discard, conn)
	}()
	pace := time.NewTicker(250 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-cut:
			return nil
		case <-pace.C:
		}
		if head != "" { // a silent client stays silent
			_, _ = conn.Write([]byte("x"))
		}
	}
}

// slowClients are many slow clients that reconnect when they are cut off.
type slowClients struct {
	gone atomic.Bool
	all  sync.WaitGroup
	cut  atomic.Int64
}

func (c *slowClients) start(b *floodTest, source string, size int) {
	for i := range size {
		c.all.Go(func() {
			for !c.gone.Load() {
				if b.slow(source, openings[i%len(openings)]) == nil {
					c.cut.Add(1)
					continue
				}
				<-time.After(500 * time.Millisecond) // refused: retry later
			}
		})
	}
}
