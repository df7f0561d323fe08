//go:build long

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coaxhq/coax/client"
)

// Slow clients of every kind, from many addresses, do not prevent others from being
// served, even at the connection limit; and each is cut off in the end.
func TestSlowClients_DelayNoOthers(t *testing.T) {
	t.Parallel()
	b := newFloodTest(t)
	kept := b.newClient(true)
	b.request(kept)
	var slow slowClients
	for address := range 7 {
		slow.start(b, fmt.Sprintf("127.0.1.%d", address+1), floodPerAddress)
	}
	until(t, "most connections are in use", func() bool { return b.gauges().connections > 6*floodPerAddress })
	b.requireServed(50)

	// Now the connection limit is reached. Slow clients are dropped in favour of others,
	// which are served over kept and over new connections.
	for address := range 3 {
		slow.start(b, fmt.Sprintf("127.0.2.%d", address+1), floodPerAddress)
	}
	until(t, "a slow client is dropped at the connection limit", func() bool { return b.gauges().droppedTotal > 0 })
	for range 10 {
		b.request(kept)
	}
	b.requireServed(50)
	slow.gone.Store(true)
	slow.all.Wait()
	t.Logf("slow clients were cut off %d times", slow.cut.Load())
	b.requireRecovered()
}

// The number of connections from one address is limited.
func TestConnectionFlood_IsRefused(t *testing.T) {
	t.Parallel()
	b := newFloodTest(t)
	var open []net.Conn
	closed := 0
	for range 5 * floodPerAddress {
		conn, err := dialerFrom("127.0.1.1").Dial("tcp", *b.n.address.Load())
		if err != nil {
			closed++
			continue
		}
		open = append(open, conn)
	}
	// Accepted connections stay silent; only refused ones end.
	received := make(chan bool, len(open))
	for _, conn := range open {
		go func() {
			_, err := conn.Read(make([]byte, 1))
			received <- err != nil
		}()
	}
	for range 4*floodPerAddress - closed {
		<-received
	}
	if has := b.gauges(); has.droppedAddress != 4*floodPerAddress {
		t.Errorf("%d connections of one address were dropped; want %d", has.droppedAddress, 4*floodPerAddress)
	}
	b.requireServed(50)
	for _, conn := range open {
		conn.Close()
	}
	b.requireRecovered()
}

// flood sends requests from one address over many connections, and counts the codes of
// their answers. A kept connection may be closed just when it is used; a request lost
// that way is counted under the empty code and replaced by another.
func (b *floodTest) flood(source string, requests int, next func() *http.Request) map[string]int {
	b.t.Helper()
	transport := b.from(source)
	codes := map[string]int{}
	var mu sync.Mutex // guards codes, and next
	var sent, answered atomic.Int64
	var storming sync.WaitGroup
	for range 16 {
		storming.Go(func() {
			for answered.Load() < int64(requests) && sent.Add(1) < int64(2*requests) {
				mu.Lock()
				request := next()
				mu.Unlock()
				code, err := codeFor(transport, request)
				if err == nil {
					answered.Add(1)
				}
				mu.Lock()
				codes[code]++
				mu.Unlock()
			}
		})
	}
	storming.Wait()
	return codes
}

// codeFor sends a request and reads the code of its answer.
func codeFor(transport *http.Transport, request *http.Request) (string, error) {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var envelope struct {
		Code string `json:"code"`
	}
	err = json.NewDecoder(response.Body).Decode(&envelope)
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection is kept
	return envelope.Code, err
}

// checkThrottled requires that a flood failed as often as an address may, plus a few
// requests that were in progress, and was throttled from then on.
func checkThrottled(t *testing.T, what string, codes map[string]int, failure string, requests int) {
	t.Helper()
	failed, throttled, lost := codes[failure], codes["TOO_MANY_FAILED_ATTEMPTS"], codes[""]
	if failed+lost < floodFailures || failed > floodFailures+16 || failed+throttled < requests || len(codes) > 3 || lost > requests/10 {
		t.Errorf("%s: %v; want %d or a few more %s, and then TOO_MANY_FAILED_ATTEMPTS", what, codes, floodFailures, failure)
	}
}

// A captured request that is replayed hundreds of times is carried out once, and then
// its sender is throttled.
func TestReplayFlood_IsOneOperation(t *testing.T) {
	t.Parallel()
	b := newFloodTest(t)
	b.admin("whitelist", "add", "--lco", fmt.Sprint(b.operators[0].id), "127.0.1.1")
	body := []byte(`{"full_name":"Asha Rao","mobile":"9811111111","plan_id":"BASIC-1"}`)
	captured, err := b.signer.Sign(context.Background(), http.MethodPost, "activate", body)
	if err != nil {
		t.Fatal(err)
	}
	captured.Header.Set("Idempotency-Key", "captured-order")
	const requests = 600 // once throttled, each needs its own connection
	codes := b.flood("127.0.1.1", requests, func() *http.Request {
		again := captured.Clone(context.Background())
		again.Body = io.NopCloser(bytes.NewReader(body))
		return again
	})
	if codes["OK"] > 1 || codes["OK"]+codes[""] == 0 {
		t.Errorf("%v; want one of them let in", codes)
	}
	delete(codes, "OK")
	checkThrottled(t, "replays", codes, "REPLAY_DETECTED", requests-1)
	if effects := b.provider.effects(); len(effects) != 1 {
		t.Errorf("the provider carried out %v; want one order", effects)
	}
	b.requireServed(20)
	b.requireRecovered()
}

// A sender that guesses keys, or signs with a wrong secret, is soon throttled; others
// are served.
func TestBadCredentialFlood_IsRefused(t *testing.T) {
	t.Parallel()
	b := newFloodTest(t)
	guesser := rand.New(rand.NewPCG(3, 3))
	as := func(key, secret string) *http.Request {
		c, err := client.New(client.Config{BaseURL: "https://127.0.0.1:1/api/v1", Key: key, Secret: client.Secret(secret)})
		if err != nil {
			t.Fatal(err)
		}
		request, err := c.Sign(context.Background(), http.MethodGet, "balance", nil)
		if err != nil {
			t.Fatal(err)
		}
		return request
	}
	const requests = 3000
	checkThrottled(t, "guessed keys", b.flood("127.0.1.1", requests, func() *http.Request {
		return as(fmt.Sprintf("cxk_%016x%016x", guesser.Uint64(), guesser.Uint64()), "cxs_guessed")
	}), "INVALID_API_KEY", requests)
	checkThrottled(t, "a wrong secret", b.flood("127.0.1.2", requests, func() *http.Request {
		return as(b.operators[0].key, "cxs_guessed")
	}), "INVALID_SIGNATURE", requests)
	b.requireServed(20)
	b.requireRecovered()
}
