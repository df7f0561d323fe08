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
	// floodKept is what a node may have more of than when it was started: its
	// store's readers, of which there are eight with up to three files each, and a
	// connection to the provider. What a flood leaves behind would be hundreds.
	floodKept = 30
)

// besieged is a node with low limits, and an honest client that goes on calling.
type besieged struct {
	*world
	n      *node
	signer *client.Client
	served atomic.Int64
	before gauges
	stop   func()
	// ways are all the transports that may keep a connection.
	ways []*http.Transport
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	b := &besieged{world: plainWorld(t, "sqlite", 1)}
	b.n = b.nodes[0]
	b.n.start(
		fmt.Sprintf("server.max_connections=%d", floodTotal),
		fmt.Sprintf("server.max_connections_per_address=%d", floodPerAddress),
		fmt.Sprintf("limits.failed_auth_per_minute=%d", floodFailures),
	)
	b.signer = b.honest(false)
	// What it has when it is warm and nobody is there.
	warm := b.honest(true)
	for range 20 {
		b.ask(warm)
	}
	until(t, "its connections are closed", func() bool { b.leave(); return b.gauges().connections == 0 })
	b.before = b.gauges()

	done := make(chan struct{})
	var calling sync.WaitGroup
	fresh := b.honest(false)
	calling.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				b.ask(fresh)
			}
		}
	})
	b.stop = sync.OnceFunc(func() { close(done); calling.Wait() })
	t.Cleanup(b.stop)
	return b
}

// honest is a client at an address of its own; it keeps its connection, or takes
// another for every request.
func (b *besieged) honest(keeps bool) *client.Client {
	b.t.Helper()
	transport := b.from("127.0.0.1")
	transport.DisableKeepAlives = !keeps
	c, err := client.New(client.Config{
		BaseURL: "https://127.0.0.1:1/api/v1", Key: b.operators[0].key, Secret: client.Secret(b.operators[0].secret),
		// A connection that nothing was sent on for a while may be closed just when
		// something is: clients are to try again, and it does.
		HTTP: &http.Client{Transport: transport, Timeout: patience}, Retry: client.Retry{Attempts: 3, Pause: 10 * time.Millisecond},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// from is a way to the node from an address.
func (b *besieged) from(source string) *http.Transport {
	b.t.Helper()
	transport := b.n.transportFrom(source)
	b.ways = append(b.ways, transport)
	return transport
}

// leave closes connections that are kept. One that has just been used may only be
// kept a moment later, so that this is repeated until none is left.
func (b *besieged) leave() {
	for _, transport := range b.ways {
		transport.CloseIdleConnections()
	}
}

func (b *besieged) ask(as *client.Client) {
	b.t.Helper()
	if _, err := as.Balance(context.Background()); err != nil {
		b.t.Errorf("an honest client is not served: %v", err)
		return
	}
	b.served.Add(1)
}

// goesOn demands that the honest client is served while something lasts.
func (b *besieged) goesOn(times int64) {
	b.t.Helper()
	target := b.served.Load() + times
	until(b.t, "the honest client was served", func() bool { return b.served.Load() >= target || b.t.Failed() })
	if has := b.gauges(); has.resident > floodMemory {
		b.t.Errorf("the node takes %d bytes of memory", has.resident)
	}
}

// lifted demands that the node is as it was before anybody came.
func (b *besieged) lifted() {
	b.t.Helper()
	b.stop()
	var has gauges
	rid := within(patience, 2*time.Millisecond, func() bool {
		b.leave()
		has = b.gauges()
		return has.connections == 0 && has.goroutines <= b.before.goroutines+floodKept && has.files <= b.before.files+floodKept
	})
	if !rid {
		b.t.Fatalf("the node does not get rid of everybody: it had %+v, and has %+v", b.before, has)
	}
	if has.resident > floodMemory {
		b.t.Errorf("the node takes %d bytes of memory", has.resident)
	}
	b.t.Logf("before: %+v; after: %+v; honest requests served: %d", b.before, has, b.served.Load())
	b.ask(b.honest(true))
	b.n.terminate()
	if out, err := run(b.t, "audit", "--config", b.config); err != nil {
		b.t.Errorf("%v\n%s", err, out)
	}
}

// gauges are what a node says of itself.
type gauges struct {
	goroutines, files, connections, resident, droppedTotal, droppedAddress int64
}

func (b *besieged) gauges() gauges {
	b.t.Helper()
	// A connection that is kept would be one of those that are counted.
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

// opening is how a slow client begins, before it gets slow.
type opening func(b *besieged, raw net.Conn) (net.Conn, string, error)

// openings are the places where a client can be slow: before it says anything, in
// the handshake, in the request line, in the headers and in the body.
var openings = []opening{
	func(_ *besieged, raw net.Conn) (net.Conn, string, error) { return raw, "", nil },
	func(_ *besieged, raw net.Conn) (net.Conn, string, error) { return raw, "\x16\x03\x01", nil },
	secured("GET /api/v1/bal"),
	secured("GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\nX-Api-Key: "),
	func(b *besieged, raw net.Conn) (net.Conn, string, error) {
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
	return func(b *besieged, raw net.Conn) (net.Conn, string, error) {
		conn := tls.Client(raw, &tls.Config{RootCAs: b.n.trusted, ServerName: "127.0.0.1"})
		return conn, head, conn.Handshake()
	}
}

// slow opens a connection and sends on it byte by byte, and never to an end, until
// it is cut off.
func (b *besieged) slow(source string, open opening) error {
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
		if head != "" { // who says nothing goes on saying nothing
			_, _ = conn.Write([]byte("x"))
		}
	}
}

// crowd is many slow clients, who come again when they are cut off.
type crowd struct {
	gone atomic.Bool
	all  sync.WaitGroup
	cut  atomic.Int64
}

func (c *crowd) gather(b *besieged, source string, size int) {
	for i := range size {
		c.all.Go(func() {
			for !c.gone.Load() {
				if b.slow(source, openings[i%len(openings)]) == nil {
					c.cut.Add(1)
					continue
				}
				<-time.After(500 * time.Millisecond) // turned away: again, but not at once
			}
		})
	}
}
