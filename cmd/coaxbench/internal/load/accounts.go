package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// maxOperators share the load, because a wallet is one row and a rate limit
	// one operator's.
	maxOperators = 4
	// RateLimit is the highest that an account can be given.
	RateLimit = 1_000_000
	// PlanCount is how often a subscriber can be renewed within two minutes.
	PlanCount = 8
	// firstRenewals of each operator are made before anything is measured: they
	// show that the way is open, and are what transaction look-ups ask for.
	firstRenewals = 8
)

// price is that of an ordinary plan: while they are there, the bench's plans can
// be bought by anybody, and must be no bargain.
var price = money.Paise(199_00)

// Target is the server to load.
type Target struct {
	BaseURL string
	HTTP    *http.Client
	Now     func() time.Time
}

// Size is how large the accounts are to be.
type Size struct {
	Connections int
	Subscribers int
	// Loading is how long renewals will be sent, at most.
	Loading time.Duration
	// Reads is the kind of look-ups, or Mix.
	Reads string
	// Renewals: operations may be sent, and with them provider calls be made.
	Renewals bool
}

// Accounts are the operators, plans and subscribers that were created for the load; other
// operators of the store are not touched.
type Accounts struct {
	Name      string
	Operators []*Operator
	PlanIDs   []string
	// First is what became of the renewals made before anything was measured.
	First Tally

	size   Size
	target Target
}

// Operator is one account of the bench's.
type Operator struct {
	ID          int64
	Credited    money.Amount
	Subscribers []string

	keyID        int64
	client       *client.Client
	transactions []string
}

// Prepare creates the accounts. It returns those created so far also with an error, so that
// they can be closed.
func Prepare(ctx context.Context, service *admin.Service, target Target, size Size, progress func(done, total int)) (*Accounts, error) {
	g := &Accounts{size: size, target: target, Name: "Coax bench " + target.Now().In(subscription.IST).Format("2006-01-02 15:04:05")}
	if err := g.makePlans(ctx, service); err != nil {
		return g, err
	}
	operators := min(maxOperators, size.Connections, size.Subscribers)
	for i := range operators {
		if err := g.makeOperator(ctx, service, i, size.Subscribers/operators+1); err != nil {
			return g, err
		}
	}
	return g, g.importSubscribers(ctx, service, progress)
}

// makePlans makes plans of a component that a plan on sale is made of: what the
// provider sells is not ours to know.
func (g *Accounts) makePlans(ctx context.Context, service *admin.Service) error {
	there, err := service.Plans(ctx)
	if err != nil {
		return err
	}
	on := slices.IndexFunc(there, func(p subscription.Plan) bool { return !p.Retired && p.Type == subscription.Standard })
	if on < 0 {
		return errors.New("there is no standard plan on sale whose component the bench could use: make one with `coax admin plan set`")
	}
	mark := strconv.FormatUint(rand.Uint64N(1<<32), 36)
	for i := range PlanCount {
		plan, err := service.SetPlan(ctx, subscription.Plan{
			ID: fmt.Sprintf("BENCH-%s-%d", mark, i+1), Name: fmt.Sprintf("%s, plan %d", g.Name, i+1),
			Description: "Made by coax bench; retired when it ends", Price: price, Months: 1, Type: subscription.Standard, Main: there[on].Main,
		})
		if err != nil {
			return fmt.Errorf("make a plan: %w", err)
		}
		g.PlanIDs = append(g.PlanIDs, plan.ID)
	}
	return nil
}

func (g *Accounts) makeOperator(ctx context.Context, service *admin.Service, i, subscribers int) error {
	account, err := service.CreateOperator(ctx, fmt.Sprintf("%s, operator %d", g.Name, i+1),
		admin.OperatorChange{RateLimit: new(RateLimit), CommissionBPS: new(250)})
	if err != nil {
		return fmt.Errorf("make an operator: %w", err)
	}
	operator := &Operator{ID: account.ID}
	g.Operators = append(g.Operators, operator)

	// Each pair of subscriber and plan is bought at most once in each rest.
	rounds := int64(g.size.Loading/RestPeriod) + 2
	credit := money.Paise(price.Paise() * rounds * int64(subscribers) * PlanCount)
	if _, _, err := service.TopUp(ctx, admin.TopUp{OperatorID: operator.ID, Amount: credit, Reference: fmt.Sprintf("%s, play money %d", g.Name, i+1)}); err != nil {
		return fmt.Errorf("top up operator %d with %s: %w", operator.ID, credit, err)
	}
	operator.Credited = credit
	for _, address := range []string{"127.0.0.1", "::1"} {
		if _, err := service.AllowAddress(ctx, operator.ID, address); err != nil {
			return err
		}
	}
	key, err := service.IssueKey(ctx, operator.ID, access.AllPermissions)
	if err != nil {
		return fmt.Errorf("issue a key to operator %d: %w", operator.ID, err)
	}
	operator.keyID = key.ID
	operator.client, err = client.New(client.Config{
		BaseURL: g.target.BaseURL, Key: key.Key, Secret: client.Secret(key.Secret.Reveal()), HTTP: g.target.HTTP, Now: g.target.Now,
		ReturnPending: true,
	})
	return err
}

// importSubscribers brings in subscribers with numbers that no Indian mobile has:
// they begin with 1. A random block of them is as good as never taken.
func (g *Accounts) importSubscribers(ctx context.Context, service *admin.Service, progress func(done, total int)) error {
	first := 1_000_000_000 + rand.IntN(1_000_000_000-g.size.Subscribers)
	expires := g.target.Now().AddDate(0, 0, 30).In(subscription.IST).Format(time.DateTime)
	var file bytes.Buffer
	fmt.Fprintln(&file, "lco,subscriber_id,mobile,name,plan_id,expiry")
	for i := range g.size.Subscribers {
		operator := g.Operators[i%len(g.Operators)]
		number := strconv.Itoa(first + i)
		operator.Subscribers = append(operator.Subscribers, number)
		fmt.Fprintf(&file, "%d,%s,%s,Bench %s,%s,%s\n", operator.ID, number, number, number, g.PlanIDs[0], expires)
	}
	report, err := service.ImportSubscribers(ctx, &file, false, progress)
	switch {
	case err != nil:
		return fmt.Errorf("import the subscribers: %w", err)
	case len(report.Problems) > 0:
		return fmt.Errorf("import the subscribers: %s (line %d); run it again", report.Problems[0].Problem, report.Problems[0].Line)
	}
	return nil
}

// Open makes sure that the server knows the operators and lets them in, and makes
// the first renewals. It returns what the workers are to send.
func (g *Accounts) Open(ctx context.Context, service *admin.Service) (readers, renewers []Source, err error) {
	for _, operator := range g.Operators {
		if err := g.letIn(ctx, service, operator); err != nil {
			return nil, nil, err
		}
	}
	for i := range g.size.Connections {
		operator := g.Operators[i%len(g.Operators)]
		own := everyNth(operator.Subscribers, i/len(g.Operators), workersOf(g.size.Connections, len(g.Operators), i%len(g.Operators)))
		renew := newRenewals(operator.client, own, g.PlanIDs, fmt.Sprintf("bench-%d-%d", operator.ID, i))
		if g.size.Renewals && len(operator.transactions) == 0 {
			if err := g.renewFirst(ctx, operator, renew); err != nil {
				return nil, nil, err
			}
		}
		renewers = append(renewers, renew)
		readers = append(readers, &reads{
			client: operator.client, kinds: kindsOf(g.size.Reads, g.size.Renewals), subscribers: operator.Subscribers, transactions: operator.transactions,
			at: i, // not all of them the same at the same time
		})
	}
	return readers, renewers, nil
}

// letIn reads a balance. If the server sees another address than loopback, it is added to the
// whitelist.
func (g *Accounts) letIn(ctx context.Context, service *admin.Service, operator *Operator) error {
	for range 2 {
		answer := Send(ctx, Request{Client: operator.client, Method: http.MethodGet, Path: "/api/v1/balance"})
		switch {
		case answer.expected():
			return nil
		case answer.Code == "INVALID_API_KEY":
			return fmt.Errorf("the server at %s does not know a key that was just made: the configuration names another store than that server's", g.target.BaseURL)
		case answer.Code != "IP_NOT_WHITELISTED":
			return fmt.Errorf("the server at %s does not let the bench in: %s", g.target.BaseURL, cmp.Or(answer.message(), answer.String()))
		}
		var seen struct{ Data struct{ IP string } }
		if err := json.Unmarshal(answer.Body, &seen); err != nil {
			return fmt.Errorf("read which address the server sees: %w", err)
		}
		if _, err := service.AllowAddress(ctx, operator.ID, seen.Data.IP); err != nil {
			return fmt.Errorf("whitelist %s, where the server sees the bench: %w", seen.Data.IP, err)
		}
	}
	return fmt.Errorf("the server at %s does not let the bench in, though it has whitelisted the address it was told", g.target.BaseURL)
}

func (a Answer) message() string {
	var envelope struct{ Code, Message string }
	if json.Unmarshal(a.Body, &envelope) != nil || envelope.Message == "" {
		return ""
	}
	return envelope.Code + ": " + envelope.Message
}

func (g *Accounts) renewFirst(ctx context.Context, operator *Operator, from *renewals) error {
	for range min(firstRenewals, len(from.settled)/2) {
		request, found := from.Next(time.Now())
		if !found {
			break
		}
		answer := Send(ctx, request)
		from.Answered(time.Now(), answer)
		g.First.Count(answer)
		if !answer.expected() {
			return fmt.Errorf("a first renewal was answered %s", cmp.Or(answer.message(), answer.String()))
		}
		id, err := transactionOf(answer)
		if err != nil {
			return err
		}
		operator.transactions = append(operator.transactions, id)
	}
	return nil
}

// workersOf is how many of the workers go to one of the operators.
func workersOf(workers, operators, which int) int {
	return (workers-which-1)/operators + 1
}

// everyNth is a share of a list that no other offset has.
func everyNth(list []string, offset, n int) []string {
	var share []string
	for i := offset; i < len(list); i += n {
		share = append(share, list[i])
	}
	return share
}

// Explain says in a phase of renewals that ran out of them how to mend that.
func (g *Accounts) Explain(phase *Phase, load Load) {
	if phase.EndedEarly != exhausted {
		return
	}
	if open := phase.Tally.Pending + phase.Tally.Unknown; open > 0 {
		phase.EndedEarly = fmt.Sprintf("no subscriber was left to renew: %d renewals have no clear outcome, and their subscribers are left alone until they have one", open)
		return
	}
	whole := load.Warmup + load.Duration
	enough := int(phase.PerSecond*whole.Seconds()*1.2)/PlanCount + g.size.Connections
	phase.EndedEarly = fmt.Sprintf("each of the %d subscribers was renewed with each of the %d plans, and none may be again within 2 minutes; "+
		"give --subscribers %d to load for %s", g.size.Subscribers, PlanCount, max(enough, 2*g.size.Subscribers), load.Duration)
}

// Close revokes the keys, retires the plans, withdraws the remaining money and deactivates the
// operators that Prepare created. Their records stay.
func (g *Accounts) Close(ctx context.Context, service *admin.Service) error {
	var problems []error
	for _, operator := range g.Operators {
		if operator.keyID != 0 {
			problems = append(problems, service.RevokeKey(ctx, operator.keyID))
		}
		wallet, err := service.Wallet(ctx, operator.ID)
		if err == nil && wallet.Balance.IsPositive() {
			_, err = service.Adjust(ctx, operator.ID, wallet.Balance.Neg(), "the bench is over: its play money is taken back")
		}
		problems = append(problems, err)
		_, err = service.ChangeOperator(ctx, operator.ID, admin.OperatorChange{Status: new(subscription.OperatorInactive)})
		problems = append(problems, err)
	}
	for _, plan := range g.PlanIDs {
		problems = append(problems, service.RetirePlan(ctx, plan))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("tidy up: %w", err)
	}
	return nil
}
