package sim

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// program selects what a history does: which of its actions, and which faults. What
// each action is follows from the seed and the action's number.
type program struct {
	actions []int
	without map[string]bool // kinds of faults that are left out
	planned *planned        // nil if faults are drawn
	// scenario, if set, runs in place of the actions.
	scenario *scenario
}

// historyLength is how many actions a history has.
const historyLength = 200

func wholeProgram() program {
	p := program{without: map[string]bool{}}
	for i := range historyLength {
		p.actions = append(p.actions, i)
	}
	return p
}

const (
	operatorCount       = 2
	customerCount       = 9 // of each operator, brought in at the start
	newcomerCount       = 30
	home, away, strange = "203.0.113.7", "198.51.100.9", "192.0.2.66"
)

// planIDs are what can be bought; NOPE cannot, and GONE is retired at the start.
var planIDs = []string{"BASIC-1", "FAMILY-3", "COMBO-1", "ODD-1"}

func (env *environment) setUpData() error {
	ctx, c := context.Background(), env.chance
	env.service = admin.NewService(env.db, vault, "cli:asha", func() time.Time { return env.now().UTC().Truncate(time.Millisecond) })
	var components []catalogue.Component
	for _, s := range sold {
		components = append(components, catalogue.Component{Code: s.code, Name: s.code, Role: catalogue.Role(s.role)})
	}
	if err := env.db.RecordComparison(ctx, catalogue.Comparison{Provider: providerName, At: env.now().UTC().Truncate(time.Millisecond), Components: components}); err != nil {
		return err
	}
	for i, id := range planIDs {
		if _, err := env.service.SetPlan(ctx, env.planOf(id, c.below(40_000, "price", id)+1+i)); err != nil {
			return err
		}
	}
	csv := "lco,subscriber_id,mobile,name,plan_id,expiry\n"
	for i := range operatorCount {
		o := strconv.Itoa(i + 1)
		terms := admin.OperatorChange{
			RateLimit:     new(pick(c, []int{6, 60, 600, 600, 600, 600}, "limit", o)),
			CommissionBPS: new(env.openingRate(o)),
		}
		operator, err := env.service.CreateOperator(ctx, "Operator "+o, terms)
		if err != nil {
			return err
		}
		for range 1 + c.below(2, "keys", o) {
			if err := env.issueKey(operator.ID); err != nil {
				return err
			}
		}
		for _, entry := range []string{home, "198.51.100.0/24"} {
			if _, err := env.service.AllowAddress(ctx, operator.ID, entry); err != nil {
				return err
			}
		}
		if _, _, err := env.service.TopUp(ctx, admin.TopUp{OperatorID: operator.ID, Amount: paise(int64(c.below(pick(c, []int{100_000, 2_000_000, 6_000_000}, "purse", o), "wallet", o) + 1)), Reference: fmt.Sprintf("opening %d", operator.ID)}); err != nil {
			return err
		}
		for k := range customerCount {
			n := fmt.Sprintf("%d%d", i+1, k)
			expiry := env.now().Add(c.between(0, 60*24*time.Hour, "expiry", n) - 20*24*time.Hour).Add(indiaAhead * time.Millisecond).UTC()
			csv += fmt.Sprintf("%d,%s,%s,Customer %s,%s,%s\n", operator.ID, customerID(i, k), "98110000"+n, n,
				pick(c, planIDs, "has", n), expiry.Format("2006-01-02 15:04:05"))
		}
	}
	report, err := env.service.ImportSubscribers(ctx, strings.NewReader(csv), false, func(int, int) {})
	if err == nil && report.Added != operatorCount*customerCount {
		err = fmt.Errorf("the customers were not brought in: %+v", report)
	}
	return err
}

func customerID(operator, k int) string { return fmt.Sprintf("10%d00%d", operator+1, k) }

// planOf returns a plan at a price; everything else follows from its id.
func (env *environment) planOf(id string, price int) subscription.Plan {
	p := subscription.Plan{ID: id, Name: "Plan " + id, Price: paise(int64(price)), Months: 1, Type: subscription.Standard, Main: "TV-BASIC"}
	switch id {
	case "FAMILY-3":
		p.Months, p.Main = 3, "TV-FAMILY"
	case "COMBO-1":
		p.Type, p.Addon = subscription.Combo, "OTT-PLUS"
	case "ODD-1":
		p.Price = paise(int64(env.oddPrice(price)))
	}
	return p
}

// openingRate returns an operator's commission at the start, in basis points.
func (env *environment) openingRate(operator string) int {
	return pick(env.chance, []int{0, 1, 5, 15, 25, 115, 235, 250, 1005, 3333, 10000}, "bps", operator)
}

// oddPrice returns the next price whose commission for one of the operators ends in
// exactly half a paisa, where rounding is easiest to get wrong.
func (env *environment) oddPrice(price int) int {
	rate := env.openingRate(strconv.Itoa(1 + price%operatorCount))
	for odd := price; odd < price+10_000; odd++ {
		if odd*rate%10_000 == 5_000 {
			return odd
		}
	}
	return price // no price has one, at such a rate
}

func paise(n int64) money.Amount { return money.Paise(n) }

func (env *environment) issueKey(operator int64) error {
	issued, err := env.service.IssueKey(context.Background(), operator, access.AllPermissions)
	if err == nil {
		env.addKey(&apiKey{id: issued.ID, operator: operator, key: issued.Key, secret: issued.Secret.Reveal()})
	}
	return err
}

// kinds are what an action may be, with their weights.
var kinds = []weight{
	{"activate", 17}, {"renew", 30}, {"advance_renew", 15}, {"balance", 5}, {"plans", 2}, {"subscription", 4}, {"transaction", 5},
	{"flawed", 9}, {"replay", 5}, {"staff", 10}, {"world", 3},
}

// action is one step of a client, of staff or of the environment.
type action struct {
	env   *environment
	i     int
	label string
	kind  string
	at    time.Duration
}

func (env *environment) action(i int) action {
	label := "a" + strconv.Itoa(i)
	a := action{env: env, i: i, label: label, kind: weighted(env.chance, kinds, label, "kind")}
	// Half of all actions start on the full second, together.
	a.at = time.Duration(i)*200*time.Millisecond + a.between(0, 400*time.Millisecond, "at")
	if a.odds(500, "together") {
		a.at = a.at.Truncate(time.Second)
	}
	return a
}

func (a action) odds(n int, what string) bool { return a.env.chance.odds(n, a.label, what) }
func (a action) below(n int, what string) int { return a.env.chance.below(n, a.label, what) }
func (a action) between(least, most time.Duration, what string) time.Duration {
	return a.env.chance.between(least, most, a.label, what)
}

// do carries out an action, with retries.
func (a action) do() {
	switch a.kind {
	case "staff":
		a.doStaff()
	case "world":
		a.doDisruption()
	case "activate", "renew", "advance_renew":
		a.operate()
	case "replay":
		a.replay()
	default:
		a.env.gates.pass(a.label, "begin action", nil, false)
		if f := a.request(a.kind); f != nil {
			a.env.send(f, 0)
		}
	}
}

// original returns the action that this one repeats under the same idempotency key, or
// the action itself if it repeats none.
func (a action) original() action {
	if a.i > 0 && a.odds(150, "repeats") {
		from := a.env.action(a.i - 1 - a.below(min(a.i, 12), "repeats which"))
		if from.kind == "activate" || from.kind == "renew" || from.kind == "advance_renew" {
			return from.original()
		}
	}
	return a
}

// fields returns the body of an operation's request.
func (a action) fields(operator int) map[string]string {
	f := map[string]string{"plan_id": pick(a.env.chance, planIDs, a.label, "plan")}
	if a.odds(15, "no such plan") {
		f["plan_id"] = "NOPE"
	}
	if a.kind == "activate" {
		n := a.below(newcomerCount, "who")
		f["full_name"], f["mobile"] = fmt.Sprint("Newcomer ", n), fmt.Sprintf("97000000%02d", n)
		if a.odds(300, "a password") {
			f["password"] = "secret " + a.label
		}
		if a.odds(300, "an id") {
			f["subscriber_id"] = fmt.Sprintf("5000%02d", a.below(6, "which id"))
		}
		if a.odds(100, "a price") {
			f["price"] = "0.01"
		}
		return f
	}
	switch n := a.below(10, "who"); {
	case n < 7:
		owner := operator
		if a.odds(50, "another's") {
			owner = 1 - operator
		}
		f["subscriber_id"] = customerID(owner, a.below(customerCount, "customer"))
	case n < 9:
		f["mobile"] = fmt.Sprintf("97000000%02d", a.below(newcomerCount, "newcomer"))
	default:
		f["subscriber_id"] = "999999"
	}
	return f
}

// operate requests an operation, and retries with the same key until it has a result.
func (a action) operate() {
	env := a.env
	first := a.original()
	for attempt := range 6 {
		label := a.label + "." + strconv.Itoa(attempt)
		env.gates.pass(label, "begin action", nil, false)
		f := a.operation(first, label)
		if f == nil {
			return
		}
		hangUp := time.Duration(0)
		if env.faults.drawn("hang up", label) {
			hangUp = env.chance.between(time.Millisecond, 2500*time.Millisecond, "hangs up", label)
		}
		got, ok := env.send(f, hangUp)
		switch {
		case !ok, got.status >= 500 && got.code != "PROVIDER_ERROR", got.code == "REQUEST_IN_PROGRESS", got.code == "OPERATION_IN_PROGRESS",
			got.code == "RATE_LIMITED" && env.chance.odds(300, label, "comes again"), got.code == "INSUFFICIENT_BALANCE" && env.chance.odds(500, label, "hopes for money"):
		default:
			if !env.chance.odds(150, label, "makes sure") {
				return
			}
		}
		env.sleep(env.chance.between(50*time.Millisecond, 6*time.Second, label, "waits"))
	}
}

// operation returns the request of an action. A repetition has the same idempotency
// key and mostly the same body, sometimes another.
func (a action) operation(first action, label string) *flight {
	env := a.env
	key := a.chooseKey(first)
	if key == nil {
		return nil
	}
	fields, kind := first.fields(int(key.operator-1)), first.kind
	if first.i != a.i {
		switch a.below(6, "differs") {
		case 0:
			fields["plan_id"] = pick(env.chance, planIDs, a.label, "other plan")
		case 1:
			if kind == "renew" {
				kind = "advance_renew" // the same body under another path
			} else if kind == "advance_renew" {
				kind = "renew"
			}
		}
	}
	return a.post(label, key, kind, fields, "order-of-"+first.label)
}

// chooseKey picks an API key of an action's operator; a repetition may use another key
// of the same operator.
func (a action) chooseKey(first action) *apiKey {
	operator := int64(first.below(operatorCount, "operator") + 1)
	var own []*apiKey
	for _, k := range a.env.allKeys() {
		if k.operator == operator {
			own = append(own, k)
		}
	}
	if len(own) == 0 {
		return nil
	}
	// The newest mostly: older ones may have been replaced or revoked.
	if a.odds(700, "newest key") {
		return own[len(own)-1]
	}
	return own[a.below(len(own), "which key")]
}

var addresses = map[string]netip.Addr{home: netip.MustParseAddr(home), away: netip.MustParseAddr(away), strange: netip.MustParseAddr(strange)}
