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

// Request is an authorized request, as handlers see it.
type Request struct {
	RequestID string
	Now       time.Time
	Caller    access.Caller
	// RawQuery is empty for a POST, whose signature does not cover the query.
	RawQuery string
	Body     []byte
	// ContentType and IdempotencyKey hold all values of their headers.
	ContentType    []string
	IdempotencyKey []string
}

// Result is what a handler returns on success. The zero Code means OK.
type Result struct {
	Code    fault.Code
	Message string
	Data    any
	// Replayed is set for the result of an earlier request with the same key.
	Replayed bool
}

// A handler returns its result; it never writes to the connection.
type handler func(context.Context, Request) (Result, error)

// route is one endpoint. Its path is compared byte for byte with what was sent.
type route struct {
	method string
	path   string
	needs  access.Permission
	handle handler
}

// routes lists every endpoint.
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

// splitTarget splits a request target into path and query without decoding or cleaning:
// the caller signed the path as sent. Clients of a proxy send an absolute URL, which
// HTTP obliges a server to accept; its scheme and host are ignored.
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
