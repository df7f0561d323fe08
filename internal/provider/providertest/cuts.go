package providertest

import (
	"fmt"
	"net"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// cutting is one way to cut off a connection.
type cutting struct {
	name string
	// answer: the reply is cut, not the request.
	answer bool
	// reused: the connection has carried another exchange before.
	reused bool
	encode func(response) string
	end    func(net.Conn)
}

func hangUp(conn net.Conn) { _ = conn.Close() }

var cuttings = []cutting{
	{"the request, closed", false, false, response.bytes, hangUp},
	{"the request on a used connection, reset", false, true, response.bytes, reset},
	{"the answer with its length, closed", true, false, response.bytes, hangUp},
	{"the answer in chunks, reset", true, false, response.chunked, reset},
	{"the answer with its length on a used connection, reset", true, true, response.bytes, reset},
	{"the answer in chunks on a used connection, closed", true, true, response.chunked, hangUp},
}

// cuts ends a connection after every byte of a request or of its reply. Until the
// last byte of the reply has arrived the outcome is unknown, and an order arrives
// at most once.
func cuts(t *testing.T, connect Connect) {
	for _, way := range cuttings {
		for _, c := range calls {
			t.Run(way.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				way.everywhere(t, connect, c)
			})
		}
	}
}

// everywhere cuts after every number of bytes. Each call has its own reference,
// all of one length.
func (way cutting) everywhere(t *testing.T, connect Connect, c call) {
	order := func(n int) operation.Order { return sample(c.kind, fmt.Sprintf("CX%06d", n), "9812345678") }
	s := serve(t, nil, func(x *exchange) {
		x.send(way.encode(good(appliedTo(sample(c.kind, referenceIn(x), "9812345678")).String())))
	})
	path := newTunnel(t, s.address())
	link := Link{URL: "http://" + path.address(), Timeout: longTimeout}
	provider := connect(t, link)

	// An uncut exchange measures the request and the reply.
	confirmed.check(t, "uncut", c.do(provider, order(0)))
	requested, answered, _, _ := path.seen()
	length := requested
	if way.answer {
		length = answered
	}
	next := 1
	ask := func() (operation.Order, operation.Reply) {
		next++
		o := order(next)
		return o, c.do(provider, o)
	}
	for after := 0; after <= length; {
		if way.answer && after == length {
			break // nothing left to cut
		}
		if !way.reused {
			provider = connect(t, link)
		} else if _, got := ask(); got.Outcome != operation.Confirmed {
			t.Fatalf("before the cut after %d bytes: %+v", after, got)
		}
		path.arm(&cut{answer: way.answer, after: after, end: way.end})
		o, got := ask()
		_, _, fired, onFresh := path.seen()
		if !fired {
			t.Fatalf("the cut after %d of %d bytes was not made: %+v", after, length, got)
		}
		if way.reused && onFresh {
			continue // the used connection was not idle in time; try again
		}
		way.check(t, s, c, o, got, after, length)
		after++
	}
}

func (way cutting) check(t *testing.T, s *server, c call, order operation.Order, got operation.Reply, after, length int) {
	t.Helper()
	wanted := unknown
	if c.name == "status" && way.reused && got.Outcome == operation.Confirmed {
		// A status call changes nothing, so it may be retried: the whole reply
		// came over another connection.
		wanted = confirmed
	}
	if wrong := wanted.mismatch(got); wrong != "" {
		t.Fatalf("cut after %d of %d bytes: %s", after, length, wrong)
	}
	if !c.isOrder() {
		return
	}
	want := 0
	if way.answer || after == length {
		want = 1
		s.await(t, order.Reference, 1)
	}
	if effects, _ := s.counts(order.Reference); effects != want {
		t.Fatalf("cut after %d of %d bytes: the order was carried out %d times; want %d", after, length, effects, want)
	}
}
