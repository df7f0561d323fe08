package providertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// clearAnswer is one that may be believed.
type clearAnswer struct {
	name string
	raw  func(operation.Order) string
	// What it comes to as the answer to an order, a status and a void.
	apply, status, void want
}

func clearTable() []clearAnswer {
	says := func(change func(fields) fmt.Stringer) func(operation.Order) string {
		return func(order operation.Order) string { return good(change(appliedTo(order)).String()).bytes() }
	}
	same := func(f fields) fmt.Stringer { return f }
	yes := func(name string, answer func(operation.Order) string) clearAnswer {
		return clearAnswer{name, answer, confirmed, confirmed, confirmed}
	}
	rows := []clearAnswer{
		yes("applied", says(same)),
		yes("applied, with a message and more", says(func(f fields) fmt.Stringer {
			return f.and("message", `"done"`).and("balance", `12.5`).and("Reference", `"x"`).and("more", `{"a":[null]}`)
		})),
		yes("applied, letters escaped", says(func(f fields) fmt.Stringer { return f.set("status", `"\u0061pplied"`) })),
		yes("applied, with white space around", func(order operation.Order) string {
			return good("\r\n\t " + appliedTo(order).String() + " \n").bytes()
		}),
		yes("applied, in exactly 64 KiB", func(order operation.Order) string {
			text := appliedTo(order).String()
			return good(text + strings.Repeat(" ", 64<<10-len(text))).bytes()
		}),
		yes("applied, in chunks", func(order operation.Order) string { return good(appliedTo(order).String()).chunked() }),
		yes("applied, charset given", func(order operation.Order) string {
			return good(appliedTo(order).String()).with(`Content-Type: application/json; charset="UTF-8"`).bytes()
		}),
		yes("applied, after an early hint", func(order operation.Order) string {
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
		rows = append(rows, clearAnswer{"unknown reference with " + code, func(order operation.Order) string {
			return good(fields{{"reference", quote(order.Reference)}, {"status", `"unknown_reference"`}}.String()).as(code).bytes()
		}, unknown, missing, unknown})
	}
	rows = append(rows, clearAnswer{"unknown, but another reference", func(operation.Order) string {
		return good(`{"reference":"CX0","status":"unknown_reference"}`).bytes()
	}, unknown, unknown, unknown})
	// To a void, "rejected" might as well mean that the void was.
	for _, code := range []string{"200 OK", "400 Bad Request", "403 Forbidden", "404 Not Found", "409 Conflict", "422 Unprocessable Content"} {
		rows = append(rows, clearAnswer{"rejected with " + code, func(order operation.Order) string {
			return good(rejects(order).String()).as(code).bytes()
		}, rejected, rejected, unknown})
	}
	return rows
}

// clearAnswers: what is to the letter is believed, and nothing more is read into
// it than it says.
func clearAnswers(t *testing.T, connect Connect) {
	for _, row := range clearTable() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, q := range questions {
				order := sample(q.kind, "CX1", "9812345678")
				s := serve(t, nil, func(x *exchange) { x.send(row.raw(order)) })
				wanted := row.apply
				switch q.name {
				case "status":
					wanted = row.status
				case "void":
					wanted = row.void
				}
				wanted.check(t, q.name, q.ask(connect(t, Link{URL: "http://" + s.address(), Timeout: patience}), order))
				s.checkAskedOnce(t, q, order)
			}
		})
	}
}

// silence: one limit covers the whole call, however the time is spent.
func silence(t *testing.T, connect Connect) {
	tests := []struct {
		name string
		deal func(x *exchange, raw string)
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
		for _, q := range questions {
			t.Run(test.name+"/"+q.name, func(t *testing.T) {
				t.Parallel()
				order := sample(q.kind, "CX1", "9812345678")
				// Long enough that a trickle would not be through in time.
				raw := good(appliedTo(order).and("padding", quote(strings.Repeat("x", 4000))).String()).bytes()
				for timeout := impatience; ; timeout *= 2 {
					s := serve(t, nil, func(x *exchange) { test.deal(x, raw) })
					got := q.ask(connect(t, Link{URL: "http://" + s.address(), Timeout: timeout}), order)
					if _, arrived := s.counts(order.Reference); arrived == 0 && timeout < patience {
						continue
					}
					unknown.check(t, q.name, got)
					s.checkAskedOnce(t, q, order)
					return
				}
			})
		}
	}
}

// trickle repeats something every few milliseconds until it fails.
func trickle(x *exchange, drop func() error) {
	x.over = true
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for drop() == nil {
		<-ticker.C
	}
}
