package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// Call is a request that access has let in.
type Call struct {
	RequestID string
	Now       time.Time
	Caller    access.Caller
	// RawQuery is empty for a POST: a query that nobody signed is not read.
	RawQuery string
	Body     []byte
	// ContentType and IdempotencyKey hold all values of their headers.
	ContentType    []string
	IdempotencyKey []string
}

// Answer is what a handler has to say when it does not refuse. The zero Code
// means OK.
type Answer struct {
	Code    fault.Code
	Message string
	Data    any
	// Replayed: this is the result of an earlier request with the same key.
	Replayed bool
}

// A handler returns; it never writes.
type handler func(context.Context, Call) (Answer, error)

// route is one endpoint. Its path is literal: what is sent either equals it, byte
// for byte, or is another path.
type route struct {
	method string
	path   string
	needs  access.Permission
	handle handler
}

// routes lists every endpoint there is.
func (a *API) routes() []route {
	return []route{
		{http.MethodPost, "/api/v1/activate", access.Activate, a.operate(operation.Activate)},
		{http.MethodPost, "/api/v1/renew", access.Renew, a.operate(operation.Renew)},
		{http.MethodPost, "/api/v1/advance-renew", access.AdvanceRenew, a.operate(operation.AdvanceRenew)},
		{http.MethodGet, "/api/v1/balance", access.CheckBalance, a.balance},
		{http.MethodGet, "/api/v1/plans", access.GetPlans, a.plans},
		{http.MethodGet, "/api/v1/subscription", access.CheckSubscription, a.subscription},
		{http.MethodGet, "/api/v1/transaction", access.CheckTransaction, a.transaction},
	}
}

// splitTarget takes a request target apart as it was sent, without decoding or
// cleaning anything: the path is what the caller signed. Clients that talk to a
// proxy send the whole address, which HTTP obliges a server to take; of it, too,
// only the path and the query count.
func splitTarget(target string) (path, rawQuery string) {
	if scheme, rest, absolute := strings.Cut(target, "://"); absolute &&
		(strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) {
		target = ""
		if end := strings.IndexAny(rest, "/?"); end >= 0 {
			target = rest[end:]
		}
	}
	path, rawQuery, _ = strings.Cut(target, "?")
	return path, rawQuery
}
