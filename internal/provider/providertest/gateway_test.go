package providertest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/provider/providertest"
	"github.com/coaxhq/coax/internal/provider/simulator"
)

// Most of these tests wait for timeouts, so many run in parallel even on few
// processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestGatewayAndSimulator(t *testing.T) {
	providertest.Run(t, func(t testing.TB) (operation.Provider, providertest.Control) {
		control := start(t)
		return connect(t, providertest.Link{URL: control.url, Timeout: 30 * time.Second}), control
	})
}

// The simulator lists orders in pages of 100; here nearly every order ends a page.
func TestGatewayAndSimulator_ShortPages(t *testing.T) {
	providertest.RunLists(t, func(t testing.TB) (operation.Provider, providertest.Control) {
		control := startWith(t, simulator.Config{Now: time.Now, PageSize: 2})
		return connect(t, providertest.Link{URL: control.url, Timeout: 30 * time.Second}), control
	})
}

func TestGatewayFaults(t *testing.T) { providertest.Faults(t, connect) }

func connect(t testing.TB, link providertest.Link) operation.Provider {
	g, err := gateway.New(gateway.Config{URL: link.URL, CAFile: link.CAFile, Timeout: link.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// control configures a simulator over HTTP, as its users do.
type control struct {
	*simulator.Simulator
	url          string
	shortTimeout operation.Provider
}

func start(t testing.TB) *control {
	return startWith(t, simulator.Config{Now: time.Now, SlowFor: 20 * time.Millisecond})
}

func startWith(t testing.TB, config simulator.Config) *control {
	s, err := simulator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	url := "http://" + listener.Addr().String()
	return &control{s, url, connect(t, providertest.Link{URL: url, Timeout: 3 * time.Second})}
}

func (c *control) WithShortTimeout() operation.Provider { return c.shortTimeout }

func (c *control) Effects(testing.TB) map[string]int { return c.Simulator.Effects() }

func (c *control) Script(t testing.TB, mobile string, outcomes ...string) {
	t.Helper()
	c.post(t, "/control/script", map[string]any{"mobile": mobile, "outcomes": outcomes})
}

func (c *control) Mode(t testing.TB, mode string) {
	t.Helper()
	c.post(t, "/control/status", map[string]any{"mode": mode})
}

func (c *control) post(t testing.TB, path string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(c.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("POST %s %s: %s", path, text, response.Status)
	}
}

// BenchmarkApply sends one order at a time for each of many callers, over real
// sockets: the upper limit of Coax's throughput with this provider.
func BenchmarkApply(b *testing.B) {
	control := start(b)
	provider := connect(b, providertest.Link{URL: control.url, Timeout: time.Minute})
	var next atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			answer := provider.Apply(context.Background(), operation.Order{
				Reference: fmt.Sprint("CX", next.Add(1)), Kind: operation.Renew, SubscriberID: "100234",
				Mobile: "9812345678", Component: "TV-BASIC", Months: 1,
			})
			if answer.Outcome != operation.Confirmed {
				b.Errorf("Apply = %+v", answer)
			}
		}
	})
}
