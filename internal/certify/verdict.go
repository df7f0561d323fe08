package certify

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/money"
)

// Faults, the gravest first. A story that finds several names the first.
const (
	ChargedTwice        = "charged twice"
	LeakedSecret        = "leaked the secret"
	AcceptedCertificate = "accepted a wrong certificate"
	FollowedRedirect    = "followed a redirect"
	ChangedRequest      = "changed the request"
	SignedWrongly       = "signed wrongly"
	ReSignedWrongly     = "re-signed wrongly"
	RetriedRefusal      = "retried a refusal"
	PolledTooHard       = "polled too hard"
	Crashed             = "crashed"
	PaidAndForgotten    = "paid and forgotten"
	ToldFalse           = "customer told something false"
	GaveUpEarly         = "gave up too early"
	BrokeProtocol       = "broke the line protocol"
	NoOutcome           = "gave no outcome"
)

// Faults lists every fault, the gravest first.
var Faults = []string{
	ChargedTwice, LeakedSecret, AcceptedCertificate, FollowedRedirect, ChangedRequest, SignedWrongly, ReSignedWrongly,
	RetriedRefusal, PolledTooHard, Crashed, PaidAndForgotten, ToldFalse, GaveUpEarly, BrokeProtocol, NoOutcome,
}

// finding is one fault with its explanation.
type finding struct{ fault, text string }

// checker finds what the program did wrong in a story that was played.
type checker struct {
	*session
	exchanges []exchange
	found     []finding
}

func (c *checker) find(fault, format string, args ...any) {
	c.found = append(c.found, finding{fault, fmt.Sprintf(format, args...)})
}

// verdict looks up what really happened, and compares.
func (p *session) verdict(ctx context.Context) ([]finding, []exchange, error) {
	exchanges, err := p.proxy.seen()
	if err != nil {
		return nil, nil, err
	}
	c := &checker{session: p, exchanges: exchanges}
	for _, text := range p.problems {
		c.find(BrokeProtocol, "%s", text)
	}
	if p.crash != "" {
		c.find(Crashed, "%s It has to go on by itself, and to answer every order.", p.crash)
	}
	c.secrets()
	c.certificates()
	for i := range p.orders {
		c.requests(i)
		c.pauses(i)
	}
	if err := c.outcomes(ctx); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(c.found, func(a, b finding) int {
		return slices.Index(Faults, a.fault) - slices.Index(Faults, b.fault)
	})
	return c.found, exchanges, nil
}

// secrets looks for the API secret in everything that the program sent or printed.
func (c *checker) secrets() {
	for _, secret := range c.account.secrets() {
		forms := formsOf(secret)
		has := func(text []byte) bool {
			return slices.ContainsFunc(forms, func(form []byte) bool { return bytes.Contains(text, form) })
		}
		for _, e := range c.exchanges {
			part := ""
			switch {
			case has([]byte(e.Target)):
				part = "URL"
			case has(e.Body):
				part = "body"
			case has(e.raw):
				part = "headers"
			default:
				continue
			}
			c.find(LeakedSecret, "The request %s %s has the API secret in its %s. It is for signing only, and is never sent.", e.Method, c.shown(pathOf(e)), part)
			return
		}
	}
	if streams := c.printed.leaked(); len(streams) > 0 {
		c.find(LeakedSecret, "The program printed the API secret on its %s. Whoever reads its output or its log can spend from the wallet.", strings.Join(streams, " and its "))
	}
}

// formsOf returns how a secret may be written: without its prefix, in capitals, and both
// within base64, whose letters depend on what is before it. Hexadecimal digits are the same in
// base64 for URLs, and need no escaping in a URL or in JSON.
func formsOf(secret string) [][]byte {
	_, digits, found := strings.Cut(secret, "_")
	if !found {
		digits = secret
	}
	var forms [][]byte
	for _, text := range []string{digits, strings.ToUpper(digits)} {
		forms = append(forms, []byte(text))
		for before := range 3 {
			within := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + text))
			forms = append(forms, []byte(within[4:len(within)-4]))
		}
	}
	return forms
}

func pathOf(e exchange) string {
	path, _, _ := strings.Cut(e.Target, "?")
	return path
}

func (c *checker) certificates() {
	if c.story.Certificate != "" && len(c.exchanges) > 0 {
		c.find(AcceptedCertificate, "The program sent a signed request to a server whose certificate is not to be trusted (%s). Anybody between it and the service could read and change orders.", c.story.Certificate)
	}
	if seen := c.trap.seen(); len(seen) > 0 {
		c.find(FollowedRedirect, "The program followed a redirect and sent %s to another server, with the customer's data, the API key and a signature. The service never redirects: treat 3xx as no answer.", seen[0])
	}
}

// shared reports whether several orders have this order's key, so that their requests cannot
// be told apart.
func (c *checker) shared(i int) bool {
	n := 0
	for _, o := range c.orders {
		if o.key == c.orders[i].key {
			n++
		}
	}
	return n > 1 && c.story.AtOnce
}

// requests checks key, body and signature of an order's requests, and that none comes after
// the answer that ended it.
func (c *checker) requests(i int) {
	o := c.orders[i]
	attempt := 0
	for n, e := range c.exchanges {
		if e.order != i {
			continue
		}
		attempt++
		c.signature(e, attempt)
		if e.Method != http.MethodPost {
			continue
		}
		if e.Key != o.key {
			c.find(ChargedTwice, "Attempt %d of the order has the idempotency key %q instead of %q. Under another key it is another order: it is charged as well, if an earlier attempt or an earlier run was carried out.", attempt, c.shown(e.Key), o.key)
		}
		if want := "/api/v1/" + o.Operation; e.Target != want {
			c.find(ChangedRequest, "The order is %s; the program called %s.", o.Operation, c.shown(e.Target))
		}
		if !sameOrder(e.Body, o.body) {
			c.find(ChangedRequest, "The body that was sent is not the order's: %s instead of %s.", c.shown(string(e.Body)), c.shown(string(o.body)))
		}
		if last := c.finalBefore(n, i); last != nil && !c.shared(i) {
			c.find(RetriedRefusal, "After %d %s the program sent the order again. That answer is final: the same request gets it each time.", last.answer.Status, last.code)
		}
	}
}

// finalBefore returns the final answer that the program had for an order before a request,
// unless the order was given again since.
func (c *checker) finalBefore(n, order int) *exchange {
	for k := n - 1; k >= 0; k-- {
		e := &c.exchanges[k]
		if e.order != order || !e.final() || e.ended.After(c.exchanges[n].came) {
			continue
		}
		for _, g := range c.givenWithKey(order) {
			if g.at.After(e.came) {
				return nil
			}
		}
		return e
	}
	return nil
}

// givenWithKey returns when the orders with this order's key were given.
func (c *checker) givenWithKey(order int) []givenAt {
	var all []givenAt
	for _, o := range c.orders {
		if o.key == c.orders[order].key {
			all = append(all, o.given...)
		}
	}
	return all
}

func (c *checker) signature(e exchange, attempt int) {
	fault := SignedWrongly
	if attempt > 1 {
		fault = ReSignedWrongly
	}
	switch {
	case e.resent && e.Method == http.MethodGet:
		// A library that repeats a look-up does no harm.
	case e.resent:
		c.find(ReSignedWrongly, "The HTTP library sent attempt %d by itself, byte for byte as before, when a connection broke that it had kept open. The program does not learn that the first had no answer. Turn that off (in Go: no GetBody), or use a new connection for each attempt.", attempt)
	case e.Header.Get("X-API-Key") == "":
		c.find(fault, "Attempt %d has no X-API-Key header.", attempt)
	case e.reused:
		c.find(ReSignedWrongly, "Attempt %d uses the nonce of an earlier request again. Each attempt needs a new nonce, timestamp and signature; the service refuses a nonce that it has seen.", attempt)
	case !e.verified && c.account.secretOf(e.Header.Get("X-API-Key")) == "":
		c.find(fault, "Attempt %d has the API key %q, which is not the order's.", attempt, c.shown(e.Header.Get("X-API-Key")))
	case !e.verified:
		c.find(fault, "The signature of attempt %d is not that of the bytes which were sent. Serialise the body once, sign those bytes, and send the same.", attempt)
	}
}

// fields are those of a request that the service knows. A typed client drops others.
var fields = []string{"full_name", "mobile", "plan_id", "email", "password", "connection_type", "address", "subscriber_id"}

// sameOrder compares what was sent with the order's body, as JSON and numbers exactly.
func sameOrder(sent, order []byte) bool {
	x, errX := readJSON(sent)
	y, errY := readJSON(order)
	if errX != nil || errY != nil {
		return false
	}
	for _, name := range fields {
		if x[name] == "" { // an empty field is an absent one
			delete(x, name)
		}
		if _, has := y[name]; has && x[name] == nil {
			return false
		}
	}
	for name, value := range x {
		if other, has := y[name]; !has || !equal(value, other) {
			return false
		}
	}
	return true
}

func readJSON(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v map[string]any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			other, has := b[name]
			if !has || !equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a.String(), b.String())
	}
	return a == b
}

func sameNumber(a, b string) bool {
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	return okX && okY && x.Cmp(y) == 0
}

// pauses checks how long the program waits between the requests of an order.
func (c *checker) pauses(i int) {
	if c.shared(i) {
		return
	}
	var last *exchange
	quickPolls, quickRetries := 0, 0
	for n := range c.exchanges {
		e := &c.exchanges[n]
		if e.order != i {
			continue
		}
		if last == nil || last.life != e.life || last.ended.IsZero() || e.came.Before(last.ended) {
			last, quickPolls, quickRetries = e, 0, 0
			continue
		}
		pause := e.came.Sub(last.ended)
		wait, err := strconv.Atoi(last.answer.Header.Get("Retry-After"))
		switch {
		case err == nil && last.answer.Status == http.StatusTooManyRequests && pause < time.Duration(wait)*time.Second-50*time.Millisecond:
			c.find(PolledTooHard, "After 429 with Retry-After: %d the program came again after %.1f s. That spends requests of the next minute, or lengthens the block.", wait, pause.Seconds())
			return
		case (e.Method == http.MethodGet && last.Method == http.MethodGet || last.code == "PENDING_REVIEW" || last.code == "REQUEST_IN_PROGRESS") && pause < 400*time.Millisecond:
			quickPolls++
		case e.Method == http.MethodPost && last.code != "TIMESTAMP_EXPIRED" && pause < 200*time.Millisecond:
			quickRetries++
		default:
			quickPolls, quickRetries = 0, 0
		}
		if quickPolls >= 3 {
			c.find(PolledTooHard, "The program asked for the outcome %d times in a row with less than 0.4 s in between. Begin with 0.5 s and double it: polls count against the rate limit.", quickPolls+1)
			return
		}
		if quickRetries >= 3 {
			c.find(PolledTooHard, "The program sent the order %d times in a row without a pause. Begin with 0.5 s and double it.", quickRetries+1)
			return
		}
		last = e
	}
}

// outcomes compares what the program said with what the service has, and with the wallet.
func (c *checker) outcomes(ctx context.Context) error {
	settling, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	if c.story.OpenAfter > 0 {
		cancel() // this story's orders need not be settled
	}
	var charged int64
	counted := map[string]bool{}
	unsettled := false
	for i, o := range c.orders {
		if len(o.given) == 0 {
			continue
		}
		truth := o.truth
		if !o.givenAgain {
			var err error
			if truth, err = c.account.settled(settling, o.key); err != nil {
				return err
			}
		}
		unsettled = unsettled || truth != nil && !truth.Status.Settled()
		if truth != nil && truth.Status == client.Success && !counted[o.key] {
			counted[o.key] = true
			charged += int64(truth.Wallet.Charged)
		}
		c.outcome(i, truth)
	}
	if unsettled {
		return nil
	}
	held, err := c.account.balance(ctx)
	if err != nil {
		return err
	}
	had, err := money.Parse(c.story.Wallet)
	if err != nil {
		return err
	}
	if spent := had.Paise() + c.account.added - held; spent > charged {
		c.find(ChargedTwice, "The orders cost %s, and the wallet was charged %s.", money.Paise(charged), money.Paise(spent))
	}
	return nil
}

// outcome compares what the program said of an order with the truth; nil means that the
// service has no operation under its key.
func (c *checker) outcome(i int, truth *client.Operation) {
	o := c.orders[i]
	paid := truth != nil && truth.Status == client.Success
	if o.outcome == nil {
		switch {
		case paid:
			c.find(PaidAndForgotten, "The order was carried out and charged %s, and the program gave no outcome within %v s.", truth.Wallet.Charged, c.waited)
		case c.crashes > 2:
		case c.story.OpenAfter == 0:
			c.find(NoOutcome, "The program gave no outcome within %v s.", c.waited)
		}
		return
	}
	known := c.lastAnswer(i)
	switch o.outcome.Outcome {
	case "success":
		c.success(o, truth, known)
	case "failed":
		switch {
		case paid:
			c.find(PaidAndForgotten, "The program says that the order failed. It was carried out, and the wallet was charged %s: the customer is sent away, or sold it once more.", truth.Wallet.Charged)
		case truth != nil && !truth.Status.Settled():
			c.find(ToldFalse, "The program says that the order failed, while its outcome is open and the amount is held.")
		case truth != nil && (known == nil || !known.final()):
			c.find(ToldFalse, "The program said that the order failed before that was known; the last answer was %s.", describe(known))
		case slices.Contains(o.Want, "failed"):
			c.code(i, o)
		case slices.Contains(o.Want, "success"):
			c.find(GaveUpEarly, "The program says that the order failed, after %s. It could have gone on, and the order would have been carried out.", describe(known))
		default:
			c.find(ToldFalse, "The program says that the order failed, which it could not know: an earlier attempt had no answer. It is pending until the service says what became of it.")
		}
	case "pending":
		if !slices.Contains(o.Want, "pending") {
			c.find(GaveUpEarly, "The program left the order open after %.1f s, after %s. The outcome could be had.", o.answered.Sub(o.given[0].at).Seconds(), describe(known))
		}
	}
}

func (c *checker) success(o *order, truth *client.Operation, known *exchange) {
	switch {
	case truth == nil:
		c.find(ToldFalse, "The program says that the order was carried out. The service has no operation under its key: the customer pays for nothing.")
	case truth.Status != client.Success:
		c.find(ToldFalse, "The program says that the order was carried out. Its status is %s.", truth.Status)
	case known == nil || known.state != "success":
		c.find(ToldFalse, "The program said that the order was carried out before that was known; the last answer was %s.", describe(known))
	case o.outcome.TransactionID != truth.TransactionID:
		c.find(ToldFalse, "The program gives the transaction id %q; it is %s. Receipts and questions would be about another operation.", c.shown(o.outcome.TransactionID), truth.TransactionID)
	default:
		c.charged(o, truth)
	}
}

// charged compares the price that the program booked, if it says so.
func (c *checker) charged(o *order, truth *client.Operation) {
	text := o.booked()
	if text == "" {
		return
	}
	if !sameNumber(text, truth.Wallet.Charged.String()) {
		c.find(ToldFalse, "The program booked %s; charged was %s. Amounts are decimal: read them as text, or as whole paise, rounded.", c.shown(text), truth.Wallet.Charged)
	}
}

// booked returns the amount that the program reports; "" if it does not.
func (o *order) booked() string {
	text := strings.Trim(string(o.outcome.Charged), `"`)
	if text == "null" {
		return ""
	}
	return text
}

// unchecked says what a story that is about amounts could not check: the program need not
// report what it books.
func (p *session) unchecked() string {
	if !p.story.Amounts {
		return ""
	}
	silent := 0
	for _, o := range p.orders {
		if o.outcome != nil && o.outcome.Outcome == "success" && o.booked() == "" {
			silent++
		}
	}
	if silent == 0 {
		return ""
	}
	return fmt.Sprintf(`%d of %d outcomes do not say which amount the program booked. To have the amounts checked, add "charged" to them.`, silent, len(p.orders))
}

// code checks that the code of a failure is one that the program was given.
func (c *checker) code(i int, o *order) {
	if o.outcome.Code == "" {
		return
	}
	var codes []string
	for _, e := range c.exchanges {
		if e.order == i && e.code != "" {
			codes = append(codes, e.code)
		}
		if e.order == i && e.result != "" {
			codes = append(codes, e.result)
		}
		if e.order == i && e.reason != "" {
			codes = append(codes, e.reason)
		}
	}
	if len(codes) > 0 && !slices.Contains(codes, o.outcome.Code) {
		c.find(ToldFalse, "The program gives the code %s; the service answered %s.", c.shown(o.outcome.Code), strings.Join(codes, ", "))
	}
}

// lastAnswer returns what the program knew of an order when it gave its outcome: the answer
// that ended it, or else the last exchange. Orders with one key know of each other's.
func (c *checker) lastAnswer(i int) *exchange {
	var last *exchange
	for n := range slices.Backward(c.exchanges) {
		e := &c.exchanges[n]
		if e.order < 0 || c.orders[e.order].key != c.orders[i].key || e.ended.IsZero() || !e.came.Before(c.orders[i].answered) {
			continue
		}
		if e.final() {
			return e
		}
		if last == nil {
			last = e
		}
	}
	return last
}

func describe(e *exchange) string {
	switch {
	case e == nil:
		return "no answer at all"
	case e.answer.Status == 0:
		return "a request without an answer"
	case e.code == "":
		return fmt.Sprintf("%d without the service's envelope", e.answer.Status)
	case e.code == "OK":
		return fmt.Sprintf("%d OK with the status %s", e.answer.Status, e.state)
	}
	return fmt.Sprintf("%d %s", e.answer.Status, e.code)
}
