package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A burst of calls reuses the connections of the last one, and new connections
// resume TLS sessions.
func TestTransport_BurstReusesConnections(t *testing.T) {
	const atOnce = 20
	var opened, resumed atomic.Int64
	together := make(chan struct{}, atOnce)
	var arrived sync.WaitGroup
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.DidResume {
			resumed.Add(1)
		}
		arrived.Done()
		<-together // all of a burst are under way at the same time
		w.Write([]byte("{}"))
	}))
	service.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	service.StartTLS()
	defer service.Close()

	transport, err := newTransport(connectTimeout, service.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{BaseURL: service.URL + "/api/v1", Key: "cxk_1", Secret: "cxs_1", HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	burst := func() {
		var calls sync.WaitGroup
		arrived.Add(atOnce)
		for range atOnce {
			calls.Go(func() {
				if _, err := c.Send(context.Background(), http.MethodGet, "balance", nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
		arrived.Wait()
		for range atOnce {
			together <- struct{}{}
		}
		calls.Wait()
	}
	burst()
	burst()
	if got := opened.Load(); got != atOnce {
		t.Errorf("two bursts of %d opened %d connections", atOnce, got)
	}
	transport.CloseIdleConnections()
	resumed.Store(0)
	burst()
	if got := resumed.Load(); got != atOnce {
		t.Errorf("%d of %d new connections resumed a session", got, atOnce)
	}
}

func TestTransport_DefaultKeepsSessions(t *testing.T) {
	c, err := New(Config{BaseURL: "https://coax.example/api/v1", Key: "cxk_1", Secret: "cxs_1"})
	if err != nil {
		t.Fatal(err)
	}
	transport := c.http.Transport.(*http.Transport)
	if transport.TLSClientConfig.ClientSessionCache == nil || transport.MaxIdleConnsPerHost < 64 || transport.Proxy == nil {
		t.Errorf("the transport is %+v", transport)
	}
}

// A peer that accepts connections and never finishes the TLS handshake.
func TestTransport_ConnectTimeoutIncludesTLS(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, sender := range map[string]*http.Client{"no client": nil, "a client without a transport": {Timeout: time.Hour}} {
		c, err := New(Config{
			BaseURL: "https://" + silent.Addr().String() + "/api/v1", Key: "cxk_1", Secret: "cxs_1",
			ConnectTimeout: 50 * time.Millisecond, HTTP: sender, Retry: Retry{Attempts: 2, Pause: time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = c.Renew(t.Context(), "order-4711", Renewal{})
		var failure *Error
		if !errors.As(err, &failure) || failure.Attempts != 2 || failure.Undecided || !strings.Contains(err.Error(), "TLS with 127.0.0.1") {
			t.Errorf("with %s: %v; want two attempts that are not undecided", name, err)
		}
		// Far below the default of 10 s, and above what a busy machine needs.
		if took := time.Since(began); took < 100*time.Millisecond || took > 8*time.Second {
			t.Errorf("with %s: two attempts took %v; want 50 ms each", name, took)
		}
	}
	if _, err := New(Config{BaseURL: "https://coax.example/api/v1", Key: "cxk_1", Secret: "cxs_1", ConnectTimeout: -1}); err == nil {
		t.Error("a ConnectTimeout below zero was accepted")
	}
}
