package providertest

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// cuts: a connection may end after any byte. Until the last byte of the answer
// has come, nothing is known.
func cuts(t *testing.T, connect Connect) {
	variants := []struct {
		name   string
		encode func(response) string
		end    func(*exchange)
		asked  []question
	}{
		{"with its length, closed", response.bytes, (*exchange).hangUp, questions},
		{"with its length, reset", response.bytes, (*exchange).reset, questions[:1]},
		{"in chunks, closed", response.chunked, (*exchange).hangUp, questions[1:2]},
		{"in chunks, reset", response.chunked, (*exchange).reset, questions[2:3]},
	}
	for _, variant := range variants {
		for _, q := range variant.asked {
			t.Run("the answer "+variant.name+"/"+q.name, func(t *testing.T) {
				t.Parallel()
				order := sample(q.kind, "CX1", "9812345678")
				cutAnswer(t, connect, q, order, variant.encode(good(appliedTo(order).String())), variant.end)
			})
		}
	}
	for _, q := range questions {
		t.Run("the question/"+q.name, func(t *testing.T) {
			t.Parallel()
			cutQuestion(t, connect, q)
		})
	}
}

// cutAnswer ends the connection after every number of bytes of the answer.
func cutAnswer(t *testing.T, connect Connect, q question, order operation.Order, whole string, end func(*exchange)) {
	var after atomic.Int64
	s := serve(t, nil, func(x *exchange) {
		cut := int(after.Load())
		x.send(whole[:cut])
		if cut < len(whole) {
			end(x)
		}
	})
	provider := connect(t, Link{URL: "http://" + s.address(), Timeout: patience})
	for cut := range len(whole) + 1 {
		after.Store(int64(cut))
		wanted := unknown
		if cut == len(whole) {
			wanted = confirmed
		}
		if wrong := wanted.mismatch(q.ask(provider, order)); wrong != "" {
			t.Fatalf("cut after %d of %d bytes: %s", cut, len(whole), wrong)
		}
		if _, requests := s.counts(order.Reference); requests != cut+1 {
			t.Fatalf("cut after %d bytes: %d requests so far; want %d", cut, requests, cut+1)
		}
	}
}

// cutQuestion ends the connection after every number of bytes of the request.
// Bytes have left, so nobody can know.
func cutQuestion(t *testing.T, connect Connect, q question) {
	order := sample(q.kind, "CX1", "9812345678")
	length := requestLength(t, connect, q, order)
	for cut := 0; cut <= length; cut++ {
		s := serveRaw(t, func(conn net.Conn) {
			_, _ = io.CopyN(io.Discard, conn, int64(cut))
			// Bytes that nobody read make this a reset. An earlier one could
			// reach the client while it is still connecting.
			_ = conn.Close()
		})
		provider := connect(t, Link{URL: "http://" + s.address(), Timeout: patience})
		if wrong := unknown.mismatch(q.ask(provider, order)); wrong != "" {
			t.Fatalf("cut after %d of %d bytes: %s", cut, length, wrong)
		}
		s.stop()
	}
}

// requestLength counts the bytes of a whole request.
func requestLength(t testing.TB, connect Connect, q question, order operation.Order) int {
	counted := make(chan int, 1)
	s := serve(t, nil, func(x *exchange) {
		counted <- x.received
		x.hangUp()
	})
	q.ask(connect(t, Link{URL: "http://" + s.address(), Timeout: patience}), order)
	return <-counted
}
