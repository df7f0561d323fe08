package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/provider/simulator"
)

// provider is the simulator in its own process, with its state in a file.
type provider struct {
	t       testing.TB
	process *process
	url     string
}

func startProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{t: t, process: launch(t, "", "simulator", "--state", filepath.Join(t.TempDir(), "provider.json"))}
	p.process.untilPrinted(p.process.out, "\n")
	_, at, found := strings.Cut(strings.TrimSpace(p.process.out.String()), " on ")
	if !found {
		t.Fatalf("the simulator does not say where it is: %s", p.process.out)
	}
	p.url = at
	return p
}

// startProviderWithClock starts the simulator in this process, where its clock can be moved and its slow
// orders take the given time.
func startProviderWithClock(t testing.TB, now func() time.Time, slowFor time.Duration) *provider {
	t.Helper()
	simulated, err := simulator.New(simulator.Config{Now: now, SlowFor: slowFor})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = simulated.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = simulated.Shutdown(context.Background())
		<-served
	})
	return &provider{t: t, url: "http://" + listener.Addr().String()}
}

// script sets the outcomes of the next orders for a mobile number.
func (p *provider) script(mobile string, outcomes ...string) {
	p.t.Helper()
	text, err := json.Marshal(map[string]any{"mobile": mobile, "outcomes": outcomes})
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.Post(p.url+"/control/script", "application/json", bytes.NewReader(text))
	if err != nil {
		p.t.Error(err)
		return
	}
	defer response.Body.Close()
	if said, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		p.t.Errorf("the simulator refuses the script %s: %s", text, said)
	}
}

// providerCall is a call that the provider received, with its effect.
type providerCall struct {
	Reference   string `json:"reference"`
	Kind        string `json:"kind"`
	Mobile      string `json:"mobile"`
	Outcome     string `json:"outcome"`
	Applied     bool   `json:"applied"`
	Transaction string `json:"transaction_id"`
}

// calls lists the provider's calls for a mobile number, or all if it is empty.
func (p *provider) calls(mobile string) []providerCall {
	p.t.Helper()
	at := p.url + "/control/calls"
	if mobile != "" {
		at += "?mobile=" + mobile
	}
	response, err := http.Get(at)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	var listed []providerCall
	if err := json.NewDecoder(response.Body).Decode(&listed); err != nil {
		p.t.Fatal(err)
	}
	return listed
}

// effects counts how often each reference of an API client's order was carried out, by the
// provider's own record. The clients' mobile numbers begin with 98.
func (p *provider) effects() map[string]int {
	p.t.Helper()
	effects := map[string]int{}
	for _, call := range p.calls("") {
		if call.Applied && strings.HasPrefix(call.Mobile, "98") {
			effects[call.Reference]++
		}
	}
	return effects
}

// clientKey returns the client key of an order that was carried out, from the provider's list.
func (p *provider) clientKey(reference string) string {
	p.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Orders []struct {
				Reference string `json:"reference"`
				ClientKey string `json:"client_key"`
			} `json:"orders"`
			NextCursor string `json:"next_cursor"`
		}
		at := p.url + "/v1/orders?since=2020-01-01T00:00:00Z"
		if cursor != "" {
			at += "&cursor=" + cursor
		}
		response, err := http.Get(at)
		if err != nil {
			p.t.Fatal(err)
		}
		err = json.NewDecoder(response.Body).Decode(&page)
		response.Body.Close()
		if err != nil {
			p.t.Fatal(err)
		}
		for _, order := range page.Orders {
			if order.Reference == reference {
				return order.ClientKey
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			p.t.Fatalf("the provider does not list %s", reference)
		}
	}
}

func (c providerCall) String() string {
	return fmt.Sprintf("%s %s applied=%v %s", c.Kind, c.Reference, c.Applied, c.Transaction)
}
