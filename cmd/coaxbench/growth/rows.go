package growth

import (
	"fmt"

	"github.com/coaxhq/coax/internal/subscription"
)

// table is one that the books fill. Its rows are written in the order of time, in
// which they would have come; where a store keeps a table in the order of its key,
// it is written in that order instead, which is many times faster.
type table struct {
	name    string
	columns []string
	// numbers is how many there are to write rows for, and write does for one of
	// them: none, one or several.
	numbers func(*books) int
	write   func(b *books, number int, row func(values ...any))
	// byKey is the number that comes in its place in the order of the key; nil if
	// that is the order of time.
	byKey func(b *books, place int) int
	// heavy is how many times a row is the work of a plain one, if not once.
	heavy int
}

func everyPurchase(b *books) int { return b.bought() }

// byOperator goes through the purchases operator by operator.
func byOperator(b *books, place int) int { return place%b.each()*b.operators + place/b.each() }

// byCustomer goes through the purchases customer by customer.
func byCustomer(b *books, place int) int { return b.numberOf(place/b.rounds, place%b.rounds) }

const (
	node     = "node-1"
	provider = "simulator"
	customer = "Somebody of Some Town"
	refusal  = "The set-top box does not answer"
	// lookups is how many other requests there are to a purchase.
	lookups = 5
)

// fingerprint stands for a request that is never repeated.
var fingerprint = make([]byte, 32)

var tables = []table{
	{
		name: "subscribers",
		columns: []string{"id", "operator_id", "mobile", "name", "area", "address", "connection_type", "expires_at", "activated_at", "renewed_at",
			"last_provider_transaction", "version", "created_at"},
		numbers: func(b *books) int { return b.customers },
		write: func(b *books, who int, row func(...any)) {
			first, last := b.purchase(b.numberOf(who, 0)), b.purchase(b.numberOf(who, b.rounds-1))
			row(b.subscriberID(who), b.operatorIDs[first.operator], b.mobileOf(who), b.nameOf(who), b.areaOf(who), "12 Station Road", "tv", last.previous+month,
				first.at+took, last.at+took, transaction(last.id()), int64(2*b.rounds), first.at)
		},
	},
	{
		name: "operations", heavy: 5,
		columns: []string{"id", "operator_id", "idempotency_key", "fingerprint", "fingerprint_key_id", "kind", "channel", "actor",
			"subscriber_id", "customer_name", "mobile", "plan_id", "plan_version", "plan_name", "plan_months", "main", "amount_paise",
			"commission_bps", "wallet_before_paise", "expiry_previous", "expiry_planned", "cycle_starts_at", "status", "epoch", "node",
			"provider", "provider_transaction_id", "reason", "provider_message", "created_at", "completed_at"},
		numbers: everyPurchase,
		write: func(b *books, number int, row func(...any)) {
			p := b.purchase(number)
			write := func(id, status string, transaction, reason any, message string, at int64) {
				var previous any
				planned := at + month
				if p.round > 0 {
					previous, planned = p.previous, p.previous+month
				}
				row(id, b.operatorIDs[p.operator], "order-"+id[12:], fingerprint, b.fingerprintKey, p.kind(), "api", b.actor(p),
					b.subscriberID(p.customer), b.nameOf(p.customer), b.mobileOf(p.customer), p.plan.id, int64(1), p.plan.name, int64(1), p.plan.main, p.plan.price,
					int64(commissionBPS), b.before(p.nth), previous, planned, at, status, int64(1), node,
					provider, transaction, reason, message, at, at+took)
			}
			if p.fails {
				write(p.failedID(), "failed", nil, "PROVIDER_REJECTED", refusal, p.at-attempt)
			}
			write(p.id(), "success", transaction(p.id()), nil, "", p.at)
		},
	},
	{
		name: "wallet_entries", heavy: 2,
		columns: []string{"operator_id", "seq", "kind", "amount_paise", "balance_after", "operation_id", "actor", "created_at"},
		numbers: everyPurchase,
		byKey:   byOperator,
		write: func(b *books, number int, row func(...any)) {
			p := b.purchase(number)
			operator, entry, before := b.operatorIDs[p.operator], b.entry(p), b.before(p.nth)
			if p.fails {
				row(operator, entry, "reserve", -p.plan.price, before-p.plan.price, p.failedID(), b.actor(p), p.at-attempt)
				row(operator, entry+1, "refund", p.plan.price, before, p.failedID(), b.actor(p), p.at-attempt+took)
				entry += 2
			}
			row(operator, entry, "reserve", -p.plan.price, before-p.plan.price, p.id(), b.actor(p), p.at)
		},
	},
	{
		name:    "ledger",
		columns: []string{"operator_id", "line", "kind", "amount_paise", "balance_after", "description", "operation_id", "created_at"},
		numbers: everyPurchase,
		write: func(b *books, number int, row func(...any)) {
			p := b.purchase(number)
			what := "Renewal of "
			if p.round == 0 {
				what = "Activation of "
			}
			row(b.operatorIDs[p.operator], int64(p.nth+2), "debit", p.plan.price, b.before(p.nth)-p.plan.price,
				what+b.subscriberID(p.customer)+", "+p.plan.name+" [API]", p.id(), p.at+took)
		},
	},
	{
		name:    "commissions",
		columns: []string{"operation_id", "operator_id", "amount_paise", "rate_bps", "created_at"},
		numbers: everyPurchase,
		write: func(b *books, number int, row func(...any)) {
			p := b.purchase(number)
			row(p.id(), b.operatorIDs[p.operator], p.commission(), int64(commissionBPS), p.at+took)
		},
	},
	{
		name: "operation_events", heavy: 2,
		columns: []string{"operation_id", "seq", "from_status", "to_status", "epoch", "node", "actor", "reason", "at"},
		numbers: everyPurchase,
		write: func(b *books, number int, row func(...any)) {
			p := b.purchase(number)
			write := func(id, end, why string, at int64) {
				row(id, int64(1), nil, "processing", int64(1), node, b.actor(p), "reserved", at)
				row(id, int64(2), "processing", end, int64(1), node, "", why, at+took)
			}
			if p.fails {
				write(p.failedID(), "failed", "the provider rejected it", p.at-attempt)
			}
			write(p.id(), "success", "the provider confirmed it", p.at)
		},
	},
	{
		name: "provider_calls",
		columns: []string{"operation_id", "reference", "kind", "component", "outcome", "provider_transaction_id", "detail", "node",
			"asked_at", "answered_at"},
		numbers: everyPurchase,
		write: func(b *books, number int, row func(...any)) {
			p := b.purchase(number)
			if p.fails {
				row(p.failedID(), p.failedID(), p.kind(), p.plan.main, "rejected", nil, refusal, node, p.at-attempt, p.at-attempt+took)
			}
			row(p.id(), p.id(), p.kind(), p.plan.main, "confirmed", transaction(p.id()), "", node, p.at, p.at+took)
		},
	},
	{
		name:    "cycles",
		columns: []string{"subscriber_id", "seq", "operation_id", "plan_id", "starts_at", "ends_at", "created_at"},
		numbers: everyPurchase,
		byKey:   byCustomer,
		write: func(b *books, number int, row func(...any)) {
			p := b.purchase(number)
			row(b.subscriberID(p.customer), int64(p.round+1), p.id(), p.plan.id, p.at, p.previous+month, p.at+took)
		},
	},
	{
		name:    "nonces",
		columns: []string{"credential_id", "nonce", "request_id", "used_at"},
		numbers: (*books).lastDay,
		byKey:   lastDayByOperator,
		write: func(b *books, number int, row func(...any)) {
			p := b.purchase(b.bought() - b.lastDay() + number)
			for i := range 1 + lookups {
				row(b.keyIDs[p.operator], padded("", 20, p.number)+padded("-", 3, i), padded("req_", 23, p.number*10+i), p.at)
			}
		},
	},
	{
		name:    "rate_counters",
		columns: []string{"operator_id", "minute", "used"},
		numbers: func(b *books) int { return b.operators },
		write: func(b *books, operator int, row func(...any)) {
			last := b.purchase(b.bought() - b.operators + operator)
			row(b.operatorIDs[operator], last.at/subscription.RateWindow.Milliseconds(), int64(1+lookups))
		},
	},
}

func (b *books) actor(p purchase) string {
	return "api:key " + padded("", digits(b.keyIDs[p.operator]), int(b.keyIDs[p.operator]))
}

func digits(n int64) int {
	count := 1
	for ; n >= 10; n /= 10 {
		count++
	}
	return count
}

// given and family are what names are made of; some are common, as they are.
var (
	given  = []string{"Asha", "Ravi", "Sunita", "Imran", "Lakshmi", "Gurpreet", "Joseph", "आशा", "Mohan", "Farida", "Deepak"}
	family = []string{"Sharma", "Kumar", "Devi", "Khan", "Reddy", "Singh", "Thomas", "शर्मा", "Rao", "Patil", "Nair", "Das", "Gupta"}
)

// areaOf puts half of the named subscribers into one area, and the others into many small ones.
func (b *books) areaOf(who int) string {
	switch {
	case !b.named:
		return ""
	case who%2 == 0:
		return "Centre"
	}
	return fmt.Sprintf("Ward %d", who/2%smallAreas)
}

const smallAreas = 200

func (b *books) nameOf(who int) string {
	if !b.named {
		return customer
	}
	return given[who%len(given)] + " " + family[who%len(family)]
}

// transaction is the provider's number for an operation.
func transaction(id string) string { return "SIM-" + id[12:] }

// lastDay is how many purchases' nonces are still remembered: whole turns of all
// operators, some at least.
func (b *books) lastDay() int {
	return min(b.each(), max(20, b.customers/30/b.operators)) * b.operators
}

// lastDayByOperator goes through the last day's purchases operator by operator.
func lastDayByOperator(b *books, place int) int {
	each := b.lastDay() / b.operators
	return place%each*b.operators + place/each
}
