package client

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
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

	transport := defaultTransport().(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = service.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
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
