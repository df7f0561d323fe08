package providertest

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// trap is a provider that answers the first request on a connection and lets the
// connection go during the second, as one does that closes idle connections.
// That is where net/http would send some requests again by itself.
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

// resending: an order goes out once, also over a connection that was in use
// before and ends under it.
func resending(t *testing.T, connect Connect) {
	endings := map[string]func(*exchange){"closed": (*exchange).hangUp, "reset": (*exchange).reset}
	for ending, let := range endings {
		for _, kind := range kinds {
			t.Run(ending+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				set := newTrap(t, let)
				provider := connect(t, Link{URL: "http://" + set.address(), Timeout: patience})
				confirmed.check(t, "the first order", apply(provider, sample(kind, "CX1", "9812345678")))
				unknown.check(t, "the second order", apply(provider, sample(kind, "CX2", "9812345678")))
				if set.sprung.Load() != 1 {
					t.Fatal("the second order took another connection, so nothing was tried")
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
			provider := connect(t, Link{URL: "http://" + set.address(), Timeout: patience})
			confirmed.check(t, "an order", apply(provider, sample(operation.Renew, "CX1", "9812345678")))
			unknown.check(t, "a void", void(provider, sample(operation.Renew, "CX1", "9812345678")))
		})
	}

	// A trap that catches nobody would look just the same. These are the headers
	// that make net/http send a request again.
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
