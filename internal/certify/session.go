package certify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/certify/line"
)

// session is one story that is being played.
type session struct {
	story   Story
	service *service
	account *account
	command []string
	environ []string
	proxy   *proxy
	trap    *trap
	trapURL string
	kills   chan chan struct{}
	ended   chan struct{} // closed when the program gets no more orders
	orders  []*order

	mu           sync.Mutex
	life         int            // starts of the program so far
	transactions map[string]int // orders by the transaction ids that were answered

	process  *process
	printed  watch    // standard output and error of all starts
	problems []string // with the protocol
	crashes  int
	crash    string        // how it ended by itself the first time
	strays   int           // lines of output that are no outcomes
	waited   float64       // seconds that the last order had
	grace    time.Duration // for the program's end after the end of its input
}

// A program that leaves many orders without an outcome gets less time for the rest.
const (
	maxSilent  = 8
	shortLimit = 10 // seconds
)

// maxStrays is how many lines that are no outcomes a program may print.
const maxStrays = 1_000

// order is an order of the story, with its customer.
type order struct {
	storyOrder
	id, key            string
	body               json.RawMessage
	mobile, subscriber string
	given              []givenAt
	outcome            *wireOutcome
	answered           time.Time
	// givenAgain means that a later order of the story is the same business action. truth
	// is what had become of it when this order had its outcome.
	givenAgain bool
	truth      *client.Operation
}

// givenAt is when an order was given, and to which start of the program.
type givenAt struct {
	at   time.Time
	life int
}

// newSession sets the story up: account, customers, and the addresses to call.
func newSession(ctx context.Context, s Story, on *service, certificates certificates, command, environ []string) (*session, error) {
	p := &session{story: s, service: on, command: command, environ: environ, trap: &trap{}, kills: make(chan chan struct{}), ended: make(chan struct{}), transactions: map[string]int{}}
	var err error
	if p.account, err = on.newAccount(ctx, "500000000.00"); err != nil {
		return nil, err
	}
	if err := p.makeOrders(ctx); err != nil {
		return nil, err
	}
	if err := p.account.setBalance(ctx, s.Wallet); err != nil {
		return nil, err
	}
	p.proxy = &proxy{session: p, next: map[[2]int]int{}, nonces: map[string]bool{}}
	if p.proxy.server, p.proxy.url, err = listen(p.proxy, certificates[s.Certificate]); err != nil {
		return nil, err
	}
	for _, one := range s.Line {
		if one.Do == redirect {
			server, url, err := listen(p.trap, certificates[""])
			if err != nil {
				return nil, err
			}
			context.AfterFunc(ctx, func() { _ = server.Close() })
			p.trapURL = url
			break
		}
	}
	return p, nil
}

// makeOrders makes the customers of the orders.
func (p *session) makeOrders(ctx context.Context) error {
	type customer struct{ mobile, subscriber string }
	customers := map[int]customer{}
	for _, o := range p.story.Orders {
		for n := range max(o.Count, 1) {
			number := o.Customer*1000 + n
			who, known := customers[number]
			if !known {
				who.mobile = fmt.Sprintf("8%04d%05d", p.account.id%10000, number%100000)
				if bytes.Contains(o.Body, []byte("SUBSCRIBER")) {
					made, err := p.account.watcher.Activate(ctx, client.IdempotencyKey("set-up-"+who.mobile), client.Activation{FullName: "Asha Rao", Mobile: who.mobile, PlanID: "BASIC-1"})
					if err != nil {
						return fmt.Errorf("make a customer: %w", err)
					}
					who.subscriber = made.Customer.SubscriberID
				}
				customers[number] = who
				p.service.simulator.Script(who.mobile, p.story.Provider...)
			}
			one := &order{storyOrder: o, mobile: who.mobile, subscriber: who.subscriber}
			one.key = fmt.Sprintf("certify:%s.%d_%s-%d", p.story.Name, p.account.id, o.Key, n)
			one.id = fmt.Sprintf("%s/%d", p.story.Name, len(p.orders)+1)
			one.body = json.RawMessage(strings.NewReplacer("SUBSCRIBER", who.subscriber, "MOBILE", who.mobile).Replace(string(o.Body)))
			for _, earlier := range p.orders {
				earlier.givenAgain = earlier.givenAgain || earlier.key == one.key && !p.story.AtOnce
			}
			p.orders = append(p.orders, one)
		}
	}
	return nil
}

// orderOf returns the order that a request is for, or -1, and which start of the program it
// comes from.
func (p *session) orderOf(r line.Request) (int, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key := r.OperationKey(); key != "" {
		for i, o := range p.orders {
			if o.key == key {
				return i, p.life
			}
		}
	}
	if order, known := p.transactions[r.TransactionID()]; known {
		return order, p.life
	}
	if r.Method == http.MethodPost {
		for i, o := range p.orders {
			if bytes.Contains(r.Body, []byte(o.mobile)) || o.subscriber != "" && bytes.Contains(r.Body, []byte(`"`+o.subscriber+`"`)) {
				return i, p.life
			}
		}
	}
	return -1, p.life
}

// learn remembers the transaction id of an order, with which the program may ask.
func (p *session) learn(transactionID string, order int) {
	if transactionID == "" || order < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.transactions[transactionID] = order
}

// then does what a step says, before its answer is lost.
func (p *session) then(ctx context.Context, what string) error {
	if what != killIt {
		return p.account.change(ctx, what)
	}
	done := make(chan struct{})
	select {
	case p.kills <- done:
		<-done
	case <-p.ended:
	}
	return nil
}

// play gives the orders and waits for their outcomes. An error is not the program's fault.
func (p *session) play(ctx context.Context) error {
	defer p.proxy.server.Close()
	if err := p.start(); err != nil {
		return err
	}
	err := p.giveAll(ctx)
	close(p.ended)
	return errors.Join(err, p.end(ctx))
}

func (p *session) giveAll(ctx context.Context) error {
	if p.story.AtOnce {
		for _, o := range p.orders {
			if err := p.give(o); err != nil {
				return err
			}
		}
		return p.await(ctx, p.orders)
	}
	for _, o := range p.orders {
		if err := p.account.change(ctx, o.Before); err != nil {
			return err
		}
		if err := p.give(o); err != nil {
			return err
		}
		if err := p.await(ctx, []*order{o}); err != nil {
			return err
		}
		if o.outcome == nil {
			return nil
		}
		if o.givenAgain {
			now, cancel := context.WithCancel(ctx)
			cancel()
			var err error
			if o.truth, err = p.account.settled(now, o.key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *session) start() error {
	process, err := startProcess(p.command, p.environ, &p.printed)
	if err != nil {
		return &CommandError{err}
	}
	p.mu.Lock()
	p.life++
	p.mu.Unlock()
	p.process = process
	return nil
}

func (p *session) give(o *order) error {
	key, secret := p.account.key()
	p.printed.add(secret)
	p.mu.Lock()
	o.given = append(o.given, givenAt{time.Now(), p.life})
	p.mu.Unlock()
	return p.process.give(wireOrder{
		ID: o.id, BaseURL: p.proxy.url + "/api/v1", CACert: p.service.ca(), APIKey: key, APISecret: secret,
		Operation: o.Operation, Key: o.key, Body: o.body,
	})
}

// await waits until the orders have outcomes, starts the program again when it was killed or
// has ended, and gives up after the story's time.
func (p *session) await(ctx context.Context, orders []*order) error {
	p.waited = p.story.Limit
	if p.story.OpenAfter > 0 {
		p.waited = p.story.OpenAfter
	} else if p.service.silent.Load() >= maxSilent {
		p.waited = min(p.waited, shortLimit)
	}
	over := time.NewTimer(time.Duration(p.waited * float64(time.Second)))
	defer over.Stop()
	for open(orders) {
		select {
		case text, more := <-p.process.lines:
			if more {
				p.take(text)
				continue
			}
			<-p.process.exited
			if p.crashes++; p.crashes == 1 {
				p.crash = fmt.Sprintf("The program ended by itself (%s) before it had answered its orders.%s", ending(p.process), p.tail(p.process.errors.String()))
			}
			if p.crashes > 2 {
				return nil
			}
			if err := p.restart(orders); err != nil {
				return err
			}
		case done := <-p.kills:
			p.process.kill()
			for text := range p.process.lines {
				p.take(text)
			}
			<-p.process.exited
			err := p.restart(orders)
			close(done)
			if err != nil {
				return err
			}
		case <-over.C:
			if p.story.OpenAfter == 0 {
				p.service.silent.Add(1)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func open(orders []*order) bool {
	for _, o := range orders {
		if o.outcome == nil {
			return true
		}
	}
	return false
}

// restart starts the program again, and gives it the orders that are open.
func (p *session) restart(orders []*order) error {
	p.process.kill() // what it has started
	close(p.process.writes)
	if err := p.start(); err != nil {
		return err
	}
	for _, o := range orders {
		if o.outcome == nil {
			if err := p.give(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func ending(of *process) string {
	if of.err == nil {
		return "status 0"
	}
	return of.err.Error()
}

// tail returns the end of what a program printed as errors, as a sentence.
func (p *session) tail(text string) string {
	text, _ = escape(p.mask(text))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	for i := range lines {
		lines[i] = clip(lines[i])
	}
	return " It printed: " + strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// take reads a line that the program printed.
func (p *session) take(text []byte) {
	var got wireOutcome
	if err := json.Unmarshal(text, &got); err != nil {
		p.problem("The program printed a line that is no outcome: %s", strings.TrimSpace(p.shown(string(text))))
		if p.strays++; p.strays == maxStrays {
			p.process.kill()
			p.crashes = 2 // it is not started again
		}
		return
	}
	for _, o := range p.orders {
		if o.id != got.ID || len(o.given) == 0 {
			continue
		}
		switch {
		case o.outcome != nil:
			p.problem("The program answered order %s twice.", o.id)
		case got.Outcome != "success" && got.Outcome != "failed" && got.Outcome != "pending":
			p.problem("The program answered order %s with the outcome %q; it is success, failed or pending.", o.id, p.shown(got.Outcome))
		default:
			o.outcome, o.answered = &got, time.Now()
		}
		return
	}
	p.problem("The program answered order %q, which it was not given.", p.shown(got.ID))
}

func clip(text string) string {
	for i := range text {
		if i >= 300 {
			return text[:i] + "…"
		}
	}
	return text
}

func (p *session) problem(format string, args ...any) {
	if len(p.problems) < 20 {
		p.problems = append(p.problems, fmt.Sprintf(format, args...))
	}
}

// end closes the program's input and waits for its end.
func (p *session) end(ctx context.Context) error {
	undone := open(p.orders)
	close(p.process.writes)
	grace := time.NewTimer(p.grace)
	defer grace.Stop()
	defer context.AfterFunc(ctx, p.process.kill)()
	if undone {
		p.process.kill() // it may still be waiting for something that this story never gives
	}
	for {
		select {
		case text, more := <-p.process.lines:
			if more {
				p.take(text)
				continue
			}
			<-p.process.exited
			p.process.kill() // what it has started
			return nil
		case <-grace.C:
			p.process.kill()
			p.problem("The program did not end within %v after the end of its input.", p.grace)
		}
	}
}
