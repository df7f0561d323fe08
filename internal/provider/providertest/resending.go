package providertest

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// trap is a provider that answers the first request on a connection and ends the
// connection during the second, as if it closed idle connections. There net/http
// would resend some requests by itself.
type trap struct {
	*server
	sprung atomic.Int64
}

func newTrap(t testing.TB, let func(*exchange)) *trap {
	caught := &trap{}
	caught.server = serve(t, nil, func(x *exchange) {
		if x.reused {
			caught.sprung.Add(1)
			let(x)
			return
		}
		x.send(good(appliedTo(sample(operation.Renew, referenceIn(x), "9812345678")).String()).bytes())
	})
	return caught
}

// resending checks that an order is sent once, even if a reused connection ends
// during the call.
func resending(t *testing.T, connect Connect) {
	endings := map[string]func(*exchange){"closed": (*exchange).hangUp, "reset": (*exchange).reset}
	for ending, let := range endings {
		for _, kind := range kinds {
			t.Run(ending+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				set := newTrap(t, let)
				provider := connect(t, Link{URL: "http://" + set.address(), Timeout: longTimeout})
				confirmed.check(t, "the first order", apply(provider, sample(kind, "CX1", "9812345678")))
				unknown.check(t, "the second order", apply(provider, sample(kind, "CX2", "9812345678")))
				if set.sprung.Load() != 1 {
					t.Fatal("the second order took another connection, so nothing was tested")
				}
				for _, sent := range []string{"CX1", "CX2"} {
					if effects, requests := set.counts(sent); effects != 1 || requests != 2 {
						t.Errorf("%s was carried out %d times, with %d requests in all; want 1 of 2", sent, effects, requests)
					}
				}
			})
		}
		t.Run(ending+"/void", func(t *testing.T) {
			t.Parallel()
			set := newTrap(t, let)
			provider := connect(t, Link{URL: "http://" + set.address(), Timeout: longTimeout})
			confirmed.check(t, "an order", apply(provider, sample(operation.Renew, "CX1", "9812345678")))
			unknown.check(t, "a void", void(provider, sample(operation.Renew, "CX1", "9812345678")))
		})
	}

	// The trap itself works: with these headers net/http resends a request.
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		t.Run("the trap works on "+header, func(t *testing.T) {
			t.Parallel()
			set := newTrap(t, (*exchange).hangUp)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for _, sent := range []string{"CX1", "CX2"} {
				request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+set.address()+"/v1/renew", bytes.NewReader(quoteOrder(sent)))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set(header, sent)
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				var read bytes.Buffer
				_, _ = read.ReadFrom(response.Body)
				_ = response.Body.Close()
			}
			if effects, _ := set.counts("CX2"); effects != 2 {
				t.Errorf("an order with this header was carried out %d times; the trap should make it 2", effects)
			}
		})
	}
}

func quoteOrder(reference string) []byte {
	return []byte(fields{{"reference", quote(reference)}}.String())
}
