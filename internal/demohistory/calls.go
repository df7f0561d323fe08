package demohistory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/signing"
)

var (
	// billingServer is where the operator's software runs, and unlistedServer a machine
	// that is not on the whitelist. They are documentation addresses (RFC 5737).
	billingServer  = netip.MustParseAddr("192.0.2.10")
	unlistedServer = netip.MustParseAddr("203.0.113.77")
	counterDesk    = netip.MustParseAddr("192.0.2.21")
)

// caller makes entries of the request log for one client of the first operator.
type caller struct {
	requestlog.Entry
	chance *rand.Rand
}

// logCalls fills the request log of the first operator for as long as the log goes back:
// its operations, by API and from the counter, its balance queries every morning and
// evening, and some failed calls.
func (g *generator) logCalls(ctx context.Context) error {
	first := g.operators[0]
	if !g.Requests.On() || first.keyID == 0 {
		return nil
	}
	key, err := g.Store.Key(ctx, first.keyID)
	if err != nil {
		return err
	}
	operations, err := g.Store.ListOperations(ctx, admin.OperationFilter{OperatorID: first.id, Limit: 10_000})
	if err != nil {
		return err
	}
	by := caller{
		Entry:  requestlog.Entry{OperatorID: first.id, CredentialID: key.ID, KeyHint: key.Hint, Address: billingServer},
		chance: rand.New(rand.NewPCG(seed, 0)),
	}
	counter := caller{
		Entry:  requestlog.Entry{OperatorID: first.id, KeyHint: counterName, Address: counterDesk},
		chance: by.chance,
	}
	since := g.ends.Add(-min(g.Requests.Keep(), Length))
	var calls []requestlog.Entry
	for _, op := range operations {
		switch {
		case !op.CreatedAt.After(since):
		case op.Channel == operation.API:
			calls = append(calls, by.ordered(op, "/api/v1/"))
		case op.Kind == operation.Activate:
			calls = append(calls, counter.ordered(op, "/panel/"))
		default:
			calls = append(calls, counter.ordered(op, "/panel/subscribers/"+op.SubscriberID+"/"))
		}
	}
	for morning := since.Truncate(day).Add(day + 3*time.Hour); morning.Before(g.ends.Add(-day / 2)); morning = morning.Add(day) {
		calls = append(calls, by.read("/api/v1/balance", morning), by.read("/api/v1/balance", morning.Add(9*time.Hour)), by.read("/api/v1/plans", morning.Add(time.Second)))
	}
	calls = append(calls, by.mistakes(g.ends)...)
	slices.SortStableFunc(calls, func(a, b requestlog.Entry) int { return a.At.Compare(b.At) })
	for _, call := range calls {
		g.Requests.Record(call)
	}
	return g.Requests.Flush(ctx)
}

func (c caller) call(at time.Time, method, path string) requestlog.Entry {
	e := c.Entry
	e.At, e.Method, e.Path, e.RequestID = at, method, path, telemetry.NewRequestID()
	e.Status, e.Code, e.Took = 200, fault.OK, time.Duration(900+c.chance.IntN(2_500))*time.Microsecond
	return e
}

func (c caller) read(path string, at time.Time) requestlog.Entry {
	return c.call(at.Add(time.Duration(c.chance.IntN(5_000))*time.Millisecond), "GET", path)
}

// ordered returns the call of an operation with its answer, as far as the operation shows
// it: one whose review has ended no longer does.
func (c caller) ordered(op operation.Operation, under string) requestlog.Entry {
	path := map[operation.Kind]string{
		operation.Activate: "activate", operation.Renew: "renew", operation.AdvanceRenew: "advance-renew",
	}[op.Kind]
	e := c.call(op.CreatedAt, "POST", under+path)
	e.IdempotencyKey = op.IdempotencyKey
	e.Took = time.Duration(60+c.chance.IntN(400)) * time.Millisecond
	switch {
	case !op.ReviewSince.IsZero():
		e.Status, e.Code = 202, fault.PendingReview
	case op.State == operation.Failed:
		e.Status, e.Code = 502, fault.ProviderError
	}
	return e
}

// mistakes returns typical mistakes of integrators: a signature in capitals, a timestamp in
// milliseconds, a wrong secret, and calls from an address that is not whitelisted.
func (c caller) mistakes(ends time.Time) []requestlog.Entry {
	refused := func(ago time.Duration, code fault.Code, timestamp func(time.Time) int64, spell func(string) string) requestlog.Entry {
		at := ends.Add(-ago)
		e := c.call(at, "GET", "/api/v1/balance")
		e.Status, e.Code = 401, code
		nonce := e.RequestID[len("req_"):]
		made := sha256.Sum256([]byte(nonce)) // signed with a wrong secret
		e.Signature = requestlog.NewSignatureDetails(signing.Request{
			Method: e.Method, Path: e.Path, Timestamp: fmt.Sprint(timestamp(at)), Nonce: nonce,
		}.StringToSign(), spell(hex.EncodeToString(made[:])))
		return e
	}
	asIs := func(signature string) string { return signature }
	calls := []requestlog.Entry{
		refused(6*day+4*time.Hour, fault.TimestampExpired, time.Time.UnixMilli, asIs),
		refused(6*day+3*time.Hour, fault.InvalidSignature, time.Time.Unix, strings.ToUpper),
		refused(26*time.Hour, fault.InvalidSignature, time.Time.Unix, asIs),
	}
	for i := range 3 {
		e := c.call(ends.Add(-50*time.Hour+time.Duration(i)*time.Minute), "GET", "/api/v1/plans")
		e.Status, e.Code, e.Address = 403, fault.IPNotWhitelisted, unlistedServer
		calls = append(calls, e)
	}
	return calls
}
