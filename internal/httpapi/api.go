package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/telemetry"
)

// Authorizer authenticates a request and checks its permission. The Caller it returns
// with an error holds what was established before the refusal.
type Authorizer interface {
	// Throttled returns an error for an address that failed to authenticate too often.
	Throttled(address netip.Addr, now time.Time) error
	// Authorize runs every check, from the headers to the permission.
	Authorize(ctx context.Context, request access.Request) (access.Caller, error)
}

var _ Authorizer = (*access.Authorizer)(nil)

// Config is what the API is made of. Only Proxies, Log, Metrics, Requests and Tracer are
// optional: without them no proxy is trusted and nothing is recorded.
type Config struct {
	Now          func() time.Time
	Authorizer   Authorizer
	Proxies      access.TrustedProxies
	Wallets      Wallets
	Plans        Plans
	Operations   Operations
	ProviderName string
	Log          *slog.Logger
	Metrics      *telemetry.Metrics
	// Requests is the request log, in which operators see their own requests.
	Requests *requestlog.Log
	// Tracer records requests; nil for none.
	Tracer *telemetry.Tracer
}

// API is the handler of the API's endpoints. It relies on Server to tell it whether a
// connection is encrypted; served without one, every request counts as plain HTTP
// unless a trusted proxy declares it secure.
type API struct {
	now          func() time.Time
	authorizer   Authorizer
	proxies      access.TrustedProxies
	wallets      Wallets
	catalogue    Plans
	operations   Operations
	providerName string
	recorder     recorder
	tracer       *telemetry.Tracer
	byPath       map[string]route
}

// New returns the API.
func New(config Config) *API {
	api := &API{
		now:          config.Now,
		authorizer:   config.Authorizer,
		proxies:      config.Proxies,
		wallets:      config.Wallets,
		catalogue:    config.Plans,
		operations:   config.Operations,
		providerName: config.ProviderName,
		recorder:     newRecorder(config.Log, config.Metrics).withRequestLog(config.Requests),
		tracer:       config.Tracer,
		byPath:       map[string]route{},
	}
	for _, route := range api.routes() {
		api.byPath[route.path] = route
		api.recorder.metrics.ExpectResponses(route.path, codesToWatch...)
		api.recorder.metrics.ExpectDurations(route.path, string(fault.OK))
	}
	return api
}

// exchange is the state of one request while it is handled.
type exchange struct {
	requestID string
	watch     telemetry.Stopwatch
	span      telemetry.Span
	now       time.Time
	peer      netip.Addr
	address   netip.Addr // the caller's; behind a proxy it differs from peer
	route     route      // zero if the path is unknown
	rawQuery  string
	caller    access.Caller
	unread    bool                         // a body was announced and not read completely
	signature *requestlog.SignatureDetails // set if the signature or its nonce or timestamp was refused
}

// ServeHTTP answers one request and logs one line about it.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := a.begin(r)
	var ctx context.Context
	ctx, x.span = a.tracer.Request(r.Context(), r.Header)
	resp, body, cause := a.respond(ctx, r, x)
	if resp.close {
		stopReading(r.Context())
	}
	resp.send(w, body)
	releaseBody(body)
	a.recorder.request(r, x, resp, cause)
}

func (a *API) begin(r *http.Request) *exchange {
	x := &exchange{
		requestID: telemetry.NewRequestID(),
		watch:     telemetry.StartStopwatch(),
		now:       a.now(),
		unread:    r.ContentLength != 0,
	}
	if c := connOf(r.Context()); c != nil && c.peer.IsValid() {
		x.peer = c.peer
	} else {
		x.peer = peerOf(r.RemoteAddr)
	}
	x.address = a.proxies.Caller(x.peer, r.Header["X-Forwarded-For"])
	path, rawQuery := splitTarget(r.RequestURI)
	x.route = a.byPath[path]
	x.rawQuery = rawQuery
	return x
}

// respond returns the response, its encoded body and, for the log, the cause of a
// failure. It writes nothing, so that even a panic can be answered in the envelope.
func (a *API) respond(ctx context.Context, r *http.Request, x *exchange) (resp response, body []byte, cause error) {
	defer func() {
		if value := recover(); value != nil {
			cause = &panicError{value: value, stack: debug.Stack()}
			resp, body = x.fail(cause)
		}
	}()

	result, err := a.process(ctx, r, x)
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		// The caller hung up. That is not our failure and must not be logged as one.
		err = fault.New(fault.BadRequest, "The connection ended before the answer.").Because(err)
	}
	resp = x.response(result, err)
	body, unencodable := resp.encode()
	if unencodable != nil {
		resp, body = x.fail(unencodable)
		return resp, body, unencodable
	}
	return resp, body, err
}

// process runs the checks in the contract's order and calls the endpoint's handler.
// The checks between reading the body and the handler are those of access.
func (a *API) process(ctx context.Context, r *http.Request, x *exchange) (Result, error) {
	if !a.proxies.Secure(x.peer, overTLS(ctx), r.Header["X-Forwarded-Proto"]) {
		return Result{}, errPlainHTTP
	}
	if err := a.authorizer.Throttled(x.address, x.now); err != nil {
		return Result{}, err
	}
	if x.route.path == "" {
		return Result{}, fault.New(fault.NotFound, "There is no such endpoint.")
	}
	if r.Method != x.route.method {
		return Result{}, fault.New(fault.MethodNotAllowed, "Use %s for %s.", x.route.method, x.route.path)
	}
	body, err := readBody(r)
	if err != nil {
		return Result{}, err
	}
	x.unread = false
	if r.Method == http.MethodPost {
		x.rawQuery = ""
	}

	checked := access.Request{
		ID:        x.requestID,
		Now:       x.now,
		Address:   x.address,
		Method:    r.Method,
		Path:      x.route.path,
		RawQuery:  x.rawQuery,
		Body:      body,
		Key:       r.Header["X-Api-Key"],
		Timestamp: r.Header["X-Timestamp"],
		Nonce:     r.Header["X-Nonce"],
		Signature: r.Header["X-Signature"],
		Needs:     x.route.needs,
	}
	x.caller, err = a.authorizer.Authorize(ctx, checked)
	// A request that was refused for its rate or its permission was authenticated too.
	if err == nil || x.caller.Rate.Limit > 0 {
		access.Authenticated(ctx)
	}
	if err != nil {
		x.signature = a.recorder.signatureDetails(checked, err)
		return Result{}, err
	}
	return x.route.handle(ctx, Request{
		RequestID: x.requestID,
		Now:       x.now,
		Caller:    x.caller,
		RawQuery:  x.rawQuery,
		Body:      body,

		ContentType:    r.Header["Content-Type"],
		IdempotencyKey: r.Header["Idempotency-Key"],
	})
}

var errPlainHTTP = fault.New(fault.HTTPSRequired, "Use HTTPS.")

// response makes the response from a handler's result or from an error.
func (x *exchange) response(result Result, err error) response {
	resp := response{
		requestID: x.requestID,
		code:      result.Code,
		message:   result.Message,
		data:      result.Data,
		replayed:  result.Replayed,
		rate:      x.caller.Rate,
		// An unread body is not read later, so no request can follow it.
		close: x.unread,
	}
	if resp.code == "" {
		resp.code = fault.OK
	}
	if err != nil {
		refusal := fault.From(err)
		resp.replayed = false
		resp.code, resp.message, resp.data = refusal.Code, refusal.Message, refusal.Data
		resp.retryAfter = refusal.RetryAfter
	}
	resp.status = StatusOf(resp.code)
	if resp.code == fault.MethodNotAllowed {
		resp.allow = x.route.method
	}
	return resp
}

// fail makes the response to an internal failure.
func (x *exchange) fail(cause error) (response, []byte) {
	resp := x.response(Result{}, fault.From(cause))
	body, _ := resp.encode() // strings always encode
	return resp, body
}

// peerOf reads the address of the other end of the connection.
func peerOf(remote string) netip.Addr {
	// An address that cannot be parsed (a Unix socket's, say) is the zero Addr,
	// which is neither trusted nor on any whitelist.
	peer, _ := netip.ParseAddrPort(remote)
	return peer.Addr().Unmap().WithZone("")
}

// panicError is a recovered panic with its stack.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }
