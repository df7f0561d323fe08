package providertest

import (
	"fmt"
	"net"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// cutting is one way to cut a connection.
type cutting struct {
	name string
	// answer: it is the answer that is cut, not the question.
	answer bool
	// reused: the connection has carried another exchange before.
	reused bool
	encode func(response) string
	end    func(net.Conn)
}

func hangUp(conn net.Conn) { _ = conn.Close() }

var cuttings = []cutting{
	{"the question, closed", false, false, response.bytes, hangUp},
	{"the question on a used connection, reset", false, true, response.bytes, reset},
	{"the answer with its length, closed", true, false, response.bytes, hangUp},
	{"the answer in chunks, reset", true, false, response.chunked, reset},
	{"the answer with its length on a used connection, reset", true, true, response.bytes, reset},
	{"the answer in chunks on a used connection, closed", true, true, response.chunked, hangUp},
}

// cuts: a connection may end after any byte of a question or of its answer.
// Until the last byte of the answer has come, nothing is known, and whatever
// comes of it, an order arrives once at most.
func cuts(t *testing.T, connect Connect) {
	for _, way := range cuttings {
		for _, q := range questions {
			t.Run(way.name+"/"+q.name, func(t *testing.T) {
				t.Parallel()
				way.everywhere(t, connect, q)
			})
		}
	}
}

// everywhere cuts after every number of bytes. Each question has a reference of
// its own, all of one length.
func (way cutting) everywhere(t *testing.T, connect Connect, q question) {
	order := func(n int) operation.Order { return sample(q.kind, fmt.Sprintf("CX%06d", n), "9812345678") }
	s := serve(t, nil, func(x *exchange) {
		x.send(way.encode(good(appliedTo(sample(q.kind, referenceIn(x), "9812345678")).String())))
	})
	path := dig(t, s.address())
	link := Link{URL: "http://" + path.address(), Timeout: patience}
	provider := connect(t, link)

	// One that passes shows how long question and answer are.
	confirmed.check(t, "uncut", q.ask(provider, order(0)))
	asked, answered, _, _ := path.seen()
	length := asked
	if way.answer {
		length = answered
	}
	next := 1
	ask := func() (operation.Order, operation.Reply) {
		next++
		o := order(next)
		return o, q.ask(provider, o)
	}
	for after := 0; after <= length; {
		if way.answer && after == length {
			break // that is no cut
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
			continue // the used connection was not back in time; once more
		}
		way.check(t, s, q, o, got, after, length)
		after++
	}
}

func (way cutting) check(t *testing.T, s *server, q question, order operation.Order, got operation.Reply, after, length int) {
	t.Helper()
	wanted := unknown
	if q.name == "status" && way.reused && got.Outcome == operation.Confirmed {
		// A question that changes nothing may be put again, and was: the
		// whole answer has come by another connection.
		wanted = confirmed
	}
	if wrong := wanted.mismatch(got); wrong != "" {
		t.Fatalf("cut after %d of %d bytes: %s", after, length, wrong)
	}
	if !q.isOrder() {
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
