// Package growth fills stores with years of generated operations in minutes, so that
// benchmarks, audits and query plans can be tested with ten million operations. It writes rows
// directly, not by the store's methods, and only to an empty store.
//
// The content depends only on the Shape. Operators, plans, keys and top-ups are created by the
// admin service, with their staff actions; everything else is computed. Subscribers belong to
// the operators in turn; each is activated once and renewed every thirty days, with one of
// eight plans, until the time of filling. Every forty-ninth purchase of an operator fails at
// first, is refunded, and succeeds a minute later. No operation is left open or in review:
// a node would call its provider about orders that the provider never had.
//
// The store is ready for load. Every operator has a key, stored with its secret and the
// master key in the store's folder; is allowed to call from this machine; has the highest rate
// limit; and has money for years. Plans use the simulated provider's components. Subscribers
// are numbered: see Store.Subscriber.
package growth

import (
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// usualRounds is how often each subscriber buys: an activation and nine renewals.
	usualRounds = 10
	// maxOperators is how many operators the largest stores have; smaller ones
	// have one for every operatorShare operations, and minOperators at least.
	maxOperators  = 5_000
	minOperators  = 50
	operatorShare = 2_000
	// failEvery is how many purchases of an operator there are to one that fails
	// at first.
	failEvery = 49

	month = int64(30 * 24 * time.Hour / time.Millisecond)
	// attempt is how long before a purchase the failed attempt at it was made,
	// and took how long everything takes.
	attempt = int64(90 * time.Second / time.Millisecond)
	took    = int64(350)

	// commissionBPS is every operator's rate.
	commissionBPS = 250
	// rateLimit is the highest that an account can be given.
	rateLimit = 1_000_000
	// spare is what each operator has left when everything is paid.
	spare = 10_00_00_000_00
)

// plan is one of those that everybody buys.
type plan struct {
	id, name, main string
	price          int64
}

// plans are bought by an operator in turn.
var plans = []plan{
	{"BASIC-1", "Basic, 1 month", "TV-BASIC", 199_00},
	{"BASIC-PLUS-1", "Basic plus, 1 month", "TV-BASIC", 219_00},
	{"SPORT-1", "Basic and sport, 1 month", "TV-BASIC", 249_50},
	{"REGIONAL-1", "Basic and regional, 1 month", "TV-BASIC", 229_00},
	{"FAMILY-1", "Family, 1 month", "TV-FAMILY", 349_00},
	{"FAMILY-PLUS-1", "Family plus, 1 month", "TV-FAMILY", 379_00},
	{"FAMILY-HD-1", "Family in HD, 1 month", "TV-FAMILY", 449_25},
	{"EVERYTHING-1", "Everything, 1 month", "TV-FAMILY", 599_00},
}

// Size is how large a store is.
type Size struct {
	Operators   int `json:"operators"`
	Subscribers int `json:"subscribers"`
	// Operations includes those that failed.
	Operations int `json:"operations"`
}

// Shape is how a store is drawn up. Most are drawn up by how many operations they
// have; whoever wants one operator to have very many subscribers says so.
type Shape struct {
	// Operators are whom the subscribers are dealt out to, evenly; there is at least
	// one for each.
	Operators, Subscribers int
	// Rounds is how often each of them buys.
	Rounds int
	// Named gives subscribers different names, for searches.
	Named bool
}

// shapeOf is how a store of so many operations is drawn up, or of a few more: they
// are dealt out evenly.
func shapeOf(operations int) Shape {
	operators := min(maxOperators, max(minOperators, operations/operatorShare))
	each := max(1, (operations+operators*usualRounds-1)/(operators*usualRounds))
	return Shape{Operators: operators, Subscribers: operators * each, Rounds: usualRounds}
}

func (b *books) size() Size {
	size := Size{Operators: b.operators, Subscribers: b.customers, Operations: b.bought()}
	for o := range b.operators {
		size.Operations += b.failures(o, b.each())
	}
	return size
}

// books has the numbers that every row is computed from. A purchase has a
// number, in the order of time. The operators take turns at buying, and so do
// each operator's subscribers: a round later they are all back in the same order.
type books struct {
	operators, customers int
	rounds               int
	named                bool
	base                 int64 // when the first purchase was made
	step                 int64 // how long after each one the next is made
	// mobile scatters the subscribers' mobile numbers, which must not be in the order of
	// activation.
	mobile int

	operatorIDs, keyIDs []int64
	fingerprintKey      int64
	spentBefore         []int64 // by an operator's first purchases of a cycle of plans
	spentCycle          int64
}

func (s Shape) books(end time.Time) *books {
	b := &books{operators: s.Operators, customers: s.Subscribers / s.Operators * s.Operators, rounds: s.Rounds, named: s.Named}
	b.step = month / int64(b.customers)
	b.base = end.UnixMilli() - int64(b.rounds)*month
	b.mobile = coprime(15_485_863, b.customers)
	for _, p := range plans {
		b.spentBefore = append(b.spentBefore, b.spentCycle)
		b.spentCycle += p.price
	}
	return b
}

// bought is how many purchases there are; each is how many are each operator's.
func (b *books) bought() int { return b.customers * b.rounds }
func (b *books) each() int   { return b.bought() / b.operators }

// purchase is one of them, with everything that follows from its number.
type purchase struct {
	number   int
	operator int // from 0
	nth      int // of this operator's
	customer int // from 0, in the order they came
	round    int
	plan     plan
	at       int64
	// previous is the expiry before it; of an activation it means nothing.
	previous int64
	// fails is set if the first attempt failed.
	fails bool
}

func (b *books) purchase(number int) purchase {
	p := purchase{
		number: number, operator: number % b.operators, nth: number / b.operators,
		customer: number % b.customers, round: number / b.customers, at: b.base + int64(number)*b.step,
	}
	p.plan = plans[p.nth%len(plans)]
	p.previous = b.base + int64(p.customer)*b.step + int64(p.round)*month
	p.fails = (p.nth+p.operator)%failEvery == 0
	return p
}

// numberOf is the purchase of a customer in a round.
func (b *books) numberOf(customer, round int) int { return round*b.customers + customer }

// failures is how many of an operator's first purchases failed at first.
func (b *books) failures(operator, purchases int) int {
	return (purchases+operator+failEvery-1)/failEvery - (operator+failEvery-1)/failEvery
}

// credit is what each operator has paid in; before is what is left of it before
// its purchase of that number.
func (b *books) credit() int64 { return b.spent(b.each()) + spare }

func (b *books) before(nth int) int64 { return b.credit() - b.spent(nth) }

func (b *books) spent(purchases int) int64 {
	return int64(purchases/len(plans))*b.spentCycle + b.spentBefore[purchases%len(plans)]
}

// entry is the number of the wallet entry that reserves a purchase: the top-up
// was the first, and each failure before made two.
func (b *books) entry(p purchase) int64 {
	return int64(2 + p.nth + 2*b.failures(p.operator, p.nth))
}

func (p purchase) kind() string {
	if p.round == 0 {
		return "activate"
	}
	return "renew"
}

// The texts of a purchase. An operation's id is as long as a real one, and sorts
// by time as those do.

func (p purchase) id() string       { return padded("CX", 26, 2*p.number+1) }
func (p purchase) failedID() string { return padded("CX", 26, 2*p.number) }

func (b *books) subscriberID(customer int) string { return padded("", 9, 100_000_000+customer) }

func (b *books) mobileOf(customer int) string {
	return padded("8", 9, customer*b.mobile%b.customers)
}

func (p purchase) commission() int64 {
	return subscription.Commission(money.Paise(p.plan.price), commissionBPS).Paise()
}

// padded writes a number with so many digits.
func padded(prefix string, digits, number int) string {
	var text [32]byte
	end := len(prefix) + digits
	copy(text[:], prefix)
	for i := end - 1; i >= len(prefix); i-- {
		text[i] = byte('0' + number%10)
		number /= 10
	}
	if number != 0 {
		panic(fmt.Sprintf("a number of more than %d digits", digits))
	}
	return string(text[:end])
}

// coprime is the first number from so many on that has no divisor in common with
// another one: its multiples meet every remainder once.
func coprime(from, with int) int {
	for n := from; ; n++ {
		if divisor(n, with) == 1 {
			return n
		}
	}
}

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// rowsFor is the work that a table is, or an index of it: about so many rows of the
// plainest table.
func (b *books) rowsFor(name string) int {
	for _, t := range tables {
		if t.name == name {
			return t.numbers(b) * max(1, t.heavy)
		}
	}
	return 0
}

// work is how much there is to do before any index is made.
func (b *books) work() (rows int) {
	for _, t := range tables {
		rows += b.rowsFor(t.name)
	}
	return rows + b.operators*operatorWork
}

const (
	// operatorWork is what making an operator is: commits, not rows.
	operatorWork = 500
	// sorted is how many times faster a row is put into an index than written, and
	// sparse how many times faster one that few of the rows are in is made.
	sorted = 2
	sparse = 8
)

// wallets are the statements that leave every wallet as its entries do.
func (b *books) wallets() (statements []string) {
	for o, id := range b.operatorIDs {
		left := b.before(b.each())
		statements = append(statements, fmt.Sprintf(
			`UPDATE wallets SET balance_paise = %[2]d, ledger_paise = %[2]d, entries = %[3]d, ledger_lines = %[4]d, receipt_lines = %[4]d, receipts_from = %[4]d WHERE operator_id = %[1]d`,
			id, left, 1+b.each()+2*b.failures(o, b.each()), 1+b.each()))
	}
	return statements
}
