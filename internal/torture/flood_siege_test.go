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

// Slow clients, in every way of being slow and from many addresses, keep nobody
// else from being served, even when there is no place left for anybody new; and
// each of them is cut off in the end.
func TestSlowClients_DelayNoOthers(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	kept := b.honest(true)
	b.ask(kept)
	var slow crowd
	for address := range 7 {
		slow.gather(b, fmt.Sprintf("127.0.1.%d", address+1), floodPerAddress)
	}
	until(t, "most places are taken", func() bool { return b.gauges().connections > 6*floodPerAddress })
	b.goesOn(50)

	// Now there is no place left. Slow clients are dropped for others, and everybody else is
	// served: over a connection that is kept, and over new ones.
	for address := range 3 {
		slow.gather(b, fmt.Sprintf("127.0.2.%d", address+1), floodPerAddress)
	}
	until(t, "a slow client is dropped for want of room", func() bool { return b.gauges().droppedTotal > 0 })
	for range 10 {
		b.ask(kept)
	}
	b.goesOn(50)
	slow.gone.Store(true)
	slow.all.Wait()
	t.Logf("slow clients were cut off %d times", slow.cut.Load())
	b.lifted()
}

// From one address, only so many connections are open at once.
func TestConnectionFlood_IsRefused(t *testing.T) {
	t.Parallel()
	b := besiege(t)
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
	// Those that were let in are asked for nothing, and hear nothing.
	heard := make(chan bool, len(open))
	for _, conn := range open {
		go func() {
			_, err := conn.Read(make([]byte, 1))
			heard <- err != nil
		}()
	}
	for range 4*floodPerAddress - closed {
		<-heard
	}
	if has := b.gauges(); has.droppedAddress != 4*floodPerAddress {
		t.Errorf("%d connections of one address were dropped; want %d", has.droppedAddress, 4*floodPerAddress)
	}
	b.goesOn(50)
	for _, conn := range open {
		conn.Close()
	}
	b.lifted()
}

// storm sends requests from one address over many connections, and counts what
// they are answered with. A kept connection may be closed just when it is used;
// what is lost with it counts under no code, and is made up for.
func (b *besieged) storm(source string, requests int, next func() *http.Request) map[string]int {
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

// turnedAway demands of a storm that it failed as often as an address may, a few
// more that were under way, and then was not listened to any more.
func turnedAway(t *testing.T, what string, codes map[string]int, failure string, requests int) {
	t.Helper()
	failed, throttled, lost := codes[failure], codes["TOO_MANY_FAILED_ATTEMPTS"], codes[""]
	if failed+lost < floodFailures || failed > floodFailures+16 || failed+throttled < requests || len(codes) > 3 || lost > requests/10 {
		t.Errorf("%s: %v; want %d or a few more %s, and then TOO_MANY_FAILED_ATTEMPTS", what, codes, floodFailures, failure)
	}
}

// A request that somebody has captured is good for nothing: sent by the hundred,
// it is let in once, and then its sender is not even listened to.
func TestReplayFlood_IsOneOperation(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	b.admin("whitelist", "add", "--lco", fmt.Sprint(b.operators[0].id), "127.0.1.1")
	body := []byte(`{"full_name":"Asha Rao","mobile":"9811111111","plan_id":"BASIC-1"}`)
	captured, err := b.signer.Sign(context.Background(), http.MethodPost, "activate", body)
	if err != nil {
		t.Fatal(err)
	}
	captured.Header.Set("Idempotency-Key", "captured-order")
	const requests = 600 // each needs a connection of its own, once nobody listens
	codes := b.storm("127.0.1.1", requests, func() *http.Request {
		again := captured.Clone(context.Background())
		again.Body = io.NopCloser(bytes.NewReader(body))
		return again
	})
	if codes["OK"] > 1 || codes["OK"]+codes[""] == 0 {
		t.Errorf("%v; want one of them let in", codes)
	}
	delete(codes, "OK")
	turnedAway(t, "replays", codes, "REPLAY_DETECTED", requests-1)
	if effects := b.provider.effects(); len(effects) != 1 {
		t.Errorf("the provider carried out %v; want one order", effects)
	}
	b.goesOn(20)
	b.lifted()
}

// Who guesses keys, or signs with a wrong secret, is soon not listened to; others
// are.
func TestBadCredentialFlood_IsRefused(t *testing.T) {
	t.Parallel()
	b := besiege(t)
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
	turnedAway(t, "guessed keys", b.storm("127.0.1.1", requests, func() *http.Request {
		return as(fmt.Sprintf("cxk_%016x%016x", guesser.Uint64(), guesser.Uint64()), "cxs_guessed")
	}), "INVALID_API_KEY", requests)
	turnedAway(t, "a wrong secret", b.storm("127.0.1.2", requests, func() *http.Request {
		return as(b.operators[0].key, "cxs_guessed")
	}), "INVALID_SIGNATURE", requests)
	b.goesOn(20)
	b.lifted()
}
