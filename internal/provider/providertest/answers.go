package providertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// definiteReply is a valid reply.
type definiteReply struct {
	name string
	raw  func(operation.Order) string
	// The expected results as the reply to an order, a status call and a void.
	apply, status, void want
}

func definiteTable() []definiteReply {
	says := func(change func(fields) fmt.Stringer) func(operation.Order) string {
		return func(order operation.Order) string { return good(change(appliedTo(order)).String()).bytes() }
	}
	same := func(f fields) fmt.Stringer { return f }
	confirms := func(name string, answer func(operation.Order) string) definiteReply {
		return definiteReply{name, answer, confirmed, confirmed, confirmed}
	}
	rows := []definiteReply{
		confirms("applied", says(same)),
		confirms("applied, with a message and more", says(func(f fields) fmt.Stringer {
			return f.and("message", `"done"`).and("balance", `12.5`).and("Reference", `"x"`).and("more", `{"a":[null]}`)
		})),
		confirms("applied, letters escaped", says(func(f fields) fmt.Stringer { return f.set("status", `"\u0061pplied"`) })),
		confirms("applied, with white space around", func(order operation.Order) string {
			return good("\r\n\t " + appliedTo(order).String() + " \n").bytes()
		}),
		confirms("applied, in exactly 64 KiB", func(order operation.Order) string {
			text := appliedTo(order).String()
			return good(text + strings.Repeat(" ", 64<<10-len(text))).bytes()
		}),
		confirms("applied, in chunks", func(order operation.Order) string { return good(appliedTo(order).String()).chunked() }),
		confirms("applied, charset given", func(order operation.Order) string {
			return good(appliedTo(order).String()).with(`Content-Type: application/json; charset="UTF-8"`).bytes()
		}),
		confirms("applied, after an early hint", func(order operation.Order) string {
			return "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + good(appliedTo(order).String()).bytes()
		}),
		{"voided", says(func(f fields) fmt.Stringer {
			return fields{f[0], {"status", `"voided"`}}
		}), unknown, rejected, rejected},
		{"pending", says(func(f fields) fmt.Stringer {
			return fields{f[0], {"status", `"pending"`}}
		}), unknown, unknown, unknown},
		{"voided with 404", func(order operation.Order) string {
			return good(fields{{"reference", quote(order.Reference)}, {"status", `"voided"`}}.String()).as("404 Not Found").bytes()
		}, unknown, unknown, unknown},
	}
	for _, code := range []string{"200 OK", "404 Not Found"} {
		rows = append(rows, definiteReply{"unknown reference with " + code, func(order operation.Order) string {
			return good(fields{{"reference", quote(order.Reference)}, {"status", `"unknown_reference"`}}.String()).as(code).bytes()
		}, unknown, missing, unknown})
	}
	rows = append(rows, definiteReply{"unknown, but another reference", func(operation.Order) string {
		return good(`{"reference":"CX0","status":"unknown_reference"}`).bytes()
	}, unknown, unknown, unknown})
	// To a void, "rejected" might as well mean that the void was.
	for _, code := range []string{"200 OK", "400 Bad Request", "403 Forbidden", "404 Not Found", "409 Conflict", "422 Unprocessable Content"} {
		rows = append(rows, definiteReply{"rejected with " + code, func(order operation.Order) string {
			return good(rejects(order).String()).as(code).bytes()
		}, rejected, rejected, unknown})
	}
	return rows
}

// definiteReplies checks that valid replies have exactly the outcome that they
// state.
func definiteReplies(t *testing.T, connect Connect) {
	for _, row := range definiteTable() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range calls {
				order := sample(c.kind, "CX1", "9812345678")
				s := serve(t, nil, func(x *exchange) { x.send(row.raw(order)) })
				wanted := row.apply
				switch c.name {
				case "status":
					wanted = row.status
				case "void":
					wanted = row.void
				}
				wanted.check(t, c.name, c.do(connect(t, Link{URL: "http://" + s.address(), Timeout: longTimeout}), order))
				s.checkSentOnce(t, c, order)
			}
		})
	}
}

// silence checks that one timeout covers the whole call, headers and body.
func silence(t *testing.T, connect Connect) {
	tests := []struct {
		name   string
		handle func(x *exchange, raw string)
	}{
		{"nothing ever comes", func(x *exchange, _ string) { x.wait() }},
		{"the headers never end", func(x *exchange, raw string) {
			x.send(raw[:strings.Index(raw, "\r\n\r\n")])
			x.wait()
		}},
		{"the body never comes", func(x *exchange, raw string) {
			x.send(raw[:strings.Index(raw, "\r\n\r\n")+4])
			x.wait()
		}},
		{"the last byte never comes", func(x *exchange, raw string) {
			x.send(raw[:len(raw)-1])
			x.wait()
		}},
		{"nothing but early hints", func(x *exchange, _ string) {
			trickle(x, func() error {
				_, err := fmt.Fprint(x.Conn, "HTTP/1.1 103 Early Hints\r\n\r\n")
				return err
			})
		}},
		{"one byte at a time", func(x *exchange, raw string) {
			next := 0
			trickle(x, func() error {
				_, err := x.Write([]byte{raw[next%len(raw)]})
				next++
				return err
			})
		}},
	}
	for _, test := range tests {
		for _, c := range calls {
			t.Run(test.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				order := sample(c.kind, "CX1", "9812345678")
				// Long enough that byte by byte it would not end before the timeout.
				raw := good(appliedTo(order).and("padding", quote(strings.Repeat("x", 4000))).String()).bytes()
				for timeout := shortTimeout; ; timeout *= 2 {
					s := serve(t, nil, func(x *exchange) { test.handle(x, raw) })
					got := c.do(connect(t, Link{URL: "http://" + s.address(), Timeout: timeout}), order)
					if _, arrived := s.counts(order.Reference); arrived == 0 && timeout < longTimeout {
						continue
					}
					unknown.check(t, c.name, got)
					s.checkSentOnce(t, c, order)
					return
				}
			})
		}
	}
}

// trickle calls drop every few milliseconds until it fails.
func trickle(x *exchange, drop func() error) {
	x.over = true
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for drop() == nil {
		<-ticker.C
	}
}
