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

// Authorizer decides who is calling and whether they may. Its Caller is filled as far
// as it got, even beside an error.
type Authorizer interface {
	// Throttled refuses an address that has failed to authenticate too often.
	Throttled(address netip.Addr, now time.Time) error
	// Authorize takes a request through every check from its headers to its
	// permission.
	Authorize(ctx context.Context, request access.Request) (access.Caller, error)
}

var _ Authorizer = (*access.Authorizer)(nil)

// Config is what the API is made of. Only Proxies, Log, Metrics and Requests may be
// left out: then nobody is trusted, and nobody is told.
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
	// Requests is where operators find their own calls again.
	Requests *requestlog.Log
}

// API answers requests. It expects to stand behind a FrontDoor, which tells it
// whether a connection is encrypted; served any other way, every request that no
// trusted proxy vouches for counts as plain HTTP.
type API struct {
	now          func() time.Time
	gate         Authorizer
	proxies      access.TrustedProxies
	wallets      Wallets
	catalogue    Plans
	operations   Operations
	providerName string
	record       record
	byPath       map[string]route
}

// New returns the API.
func New(config Config) *API {
	api := &API{
		now:          config.Now,
		gate:         config.Authorizer,
		proxies:      config.Proxies,
		wallets:      config.Wallets,
		catalogue:    config.Plans,
		operations:   config.Operations,
		providerName: config.ProviderName,
		record:       newRecord(config.Log, config.Metrics).keepingIn(config.Requests),
		byPath:       map[string]route{},
	}
	for _, route := range api.routes() {
		api.byPath[route.path] = route
	}
	return api
}

// exchange is one request on its way through, and what became known of it.
type exchange struct {
	requestID string
	watch     telemetry.Stopwatch
	now       time.Time
	peer      netip.Addr
	address   netip.Addr // the caller's, which behind a proxy is not the peer's
	route     route      // zero if there is no such path
	rawQuery  string
	caller    access.Caller
	unread    bool // there is, or may be, a body on the way that nobody has read
	evidence  *requestlog.SignatureDetails
}

// ServeHTTP answers one request and writes one line about it.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := a.begin(r)
	answer, body, cause := a.respond(r, x)
	if answer.close {
		hangUp(r.Context())
	}
	answer.send(w, body)
	giveBack(body)
	a.record.request(r, x, answer, cause)
}

func (a *API) begin(r *http.Request) *exchange {
	x := &exchange{
		requestID: telemetry.NewRequestID(),
		watch:     telemetry.StartStopwatch(),
		now:       a.now(),
		unread:    r.ContentLength != 0,
	}
	// Read once for a connection, where we know it.
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

// respond turns a request into a response and its body, and, for the log, into
// the cause of a failure. Nothing has been written while it runs, so that even a
// panic can be answered in the envelope.
func (a *API) respond(r *http.Request, x *exchange) (answer reply, body []byte, cause error) {
	defer func() {
		if value := recover(); value != nil {
			cause = &panicked{value: value, stack: debug.Stack()}
			answer, body = x.fail(cause)
		}
	}()

	said, err := a.judge(r, x)
	if err != nil && errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		// Nobody will read this, and it is not our failure: it must not look
		// like one in the log.
		err = fault.New(fault.BadRequest, "The connection ended before the answer.").Because(err)
	}
	answer = x.reply(said, err)
	body, unencodable := answer.encode()
	if unencodable != nil {
		answer, body = x.fail(unencodable)
		return answer, body, unencodable
	}
	return answer, body, err
}

// judge takes a request through the checks in the order they are promised in. It
// is the only order there is; what comes after the body is access's.
func (a *API) judge(r *http.Request, x *exchange) (Answer, error) {
	if !a.proxies.Secure(x.peer, overTLS(r.Context()), r.Header["X-Forwarded-Proto"]) {
		return Answer{}, errPlainHTTP
	}
	if err := a.gate.Throttled(x.address, x.now); err != nil {
		return Answer{}, err
	}
	if x.route.path == "" {
		return Answer{}, fault.New(fault.NotFound, "There is no such endpoint.")
	}
	if r.Method != x.route.method {
		return Answer{}, fault.New(fault.MethodNotAllowed, "Use %s for %s.", x.route.method, x.route.path)
	}
	body, err := readBody(r)
	if err != nil {
		return Answer{}, err
	}
	x.unread = false
	if r.Method == http.MethodPost {
		x.rawQuery = ""
	}

	asking := access.Request{
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
	x.caller, err = a.gate.Authorize(r.Context(), asking)
	// A request that was refused for its rate or its permission authenticated as well.
	if err == nil || x.caller.Rate.Limit > 0 {
		access.Authenticated(r.Context())
	}
	if err != nil {
		x.evidence = a.record.evidence(asking, err)
		return Answer{}, err
	}
	return x.route.handle(r.Context(), Call{
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

// reply puts what a handler said, or why there is no answer, into a response.
func (x *exchange) reply(said Answer, err error) reply {
	answer := reply{
		requestID: x.requestID,
		code:      said.Code,
		message:   said.Message,
		data:      said.Data,
		replayed:  said.Replayed,
		rate:      x.caller.Rate,
		// What was not read is not read on either, so nothing can follow it.
		close: x.unread,
	}
	if answer.code == "" {
		answer.code = fault.OK
	}
	if err != nil {
		refusal := fault.From(err)
		answer.replayed = false
		answer.code, answer.message, answer.data = refusal.Code, refusal.Message, refusal.Data
		answer.retryAfter = refusal.RetryAfter
	}
	answer.status = StatusOf(answer.code)
	if answer.code == fault.MethodNotAllowed {
		answer.allow = x.route.method
	}
	return answer
}

// fail answers for a failure that left nothing else to say.
func (x *exchange) fail(cause error) (reply, []byte) {
	answer := x.reply(Answer{}, fault.From(cause))
	body, _ := answer.encode() // it has texts only, and texts encode
	return answer, body
}

// peerOf reads the address of the other end of the connection.
func peerOf(remote string) netip.Addr {
	// An address that cannot be read, as a test's or a Unix socket's, is the
	// zero Addr: nobody trusts it and no whitelist has it.
	peer, _ := netip.ParseAddrPort(remote)
	return peer.Addr().Unmap().WithZone("")
}

// panicked is a panic as an error, with where it came from.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }
