package pages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/provider/simulator"
)

// sums is a service with random operators, subscribers and operations.
type sums struct {
	*e2e.Env
	t       *testing.T
	random  *rand.Rand
	callers []e2e.Caller
	owners  []demo.Login
	ids     map[int64][]string // subscribers of an operator
	mobiles map[string]string
	// sold are operations that succeeded, the latest last.
	sold       []string
	payments   *admin.Payments
	announced  []admin.Announcement
	sent, told int
	step       time.Duration // the longest time between two operations
}

// sumsDays is how many days the operations take: charts show sixty, and prices have to be
// compared with the provider's on the way.
const sumsDays = 65

// TestSums_PagesAgreeWithTheBooks makes random operations with every outcome, and compares
// each sum and count that pages and exported files show with the store's rows, added up one
// by one, and with the audit. COAX_TEST_SUMS is how many operations, COAX_TEST_SEED what
// they begin with.
func TestSums_PagesAgreeWithTheBooks(t *testing.T) {
	t.Parallel()
	operations := fromEnvironment(t, "COAX_TEST_SUMS", 400)
	seed := fromEnvironment(t, "COAX_TEST_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("COAX_TEST_SEED=%d COAX_TEST_SUMS=%d", seed, operations)
	s := &sums{
		Env: e2e.NewEnv(t, append(slices.Clone(longSessions), "review.first_check=10s", "panel.staff_totp=false")...), t: t,
		random: rand.New(rand.NewPCG(uint64(seed), 1)), ids: map[int64][]string{}, mobiles: map[string]string{},
		step: 2 * sumsDays * 24 * time.Hour / time.Duration(operations),
	}
	s.callers = []e2e.Caller{s.LiftRateLimit(s.DemoCaller()), s.NewFundedOperator("Sagar Cable Vision", "40000.00")}
	s.owners = []demo.Login{s.Demo.Operator, s.NewLogin(t, "sagar", login.Owner, s.callers[1].OperatorID)}
	s.NewOperator("Nobody's Cable", access.AllPermissions)
	s.payments = admin.NewPayments(s.Node.Store, s.Node.Config.Payments, s.Now)
	for range operations {
		s.operate()
	}
	s.WaitUntil("no reversal is under way", func() bool { return s.dueChecks() == "0" })
	jobs := []string{s.bulk(0), s.bulk(1)}
	// The last ones stay open: the clock stands still from here on.
	for range 3 {
		s.tell()
	}
	for range 6 {
		s.order([]string{"gateway_error", "wrong_reference", "reset_applied"}[s.random.IntN(3)])
	}
	s.compare(jobs)
}

func fromEnvironment(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q is not a number", name, text)
	}
	return n
}

// operate does something random and lets some time pass.
func (s *sums) operate() {
	switch n := s.random.IntN(20); {
	case n < 3:
		s.TopUp(s.callers[s.random.IntN(2)], fmt.Sprintf("%d.%02d", 500+s.random.IntN(5_000), s.random.IntN(100)))
	case n == 3:
		amount := money.Paise(int64(s.random.IntN(20_000) - 10_000))
		// An adjustment of nothing, or of more than there is, is refused.
		_, _ = s.Admin.Adjust(context.Background(), s.callers[s.random.IntN(2)].OperatorID, amount, "A correction at random.")
	case n == 4:
		s.reverse()
	case n == 5:
		s.announce()
	default:
		outcomes := []string{"success", "success", "success", "success", "reject", "gateway_error", "wrong_reference", "addon_fails", "reset_applied"}
		s.order(outcomes[s.random.IntN(len(outcomes))])
	}
	s.Advance(time.Duration(s.random.Int64N(int64(s.step))))
	if err := s.Node.Store.RecordComparison(context.Background(), catalogue.Comparison{
		Provider: s.Node.Config.Provider.Name, At: s.Now(), Components: simulator.Components(),
	}); err != nil {
		s.t.Fatal(err)
	}
}

// reverse asks for the reversal of one of the last operations that succeeded. It may be refused, because
// another one has followed. The provider is asked while other operations go on.
func (s *sums) reverse() {
	if len(s.sold) == 0 {
		return
	}
	_, err := s.Admin.SubmitReversal(context.Background(), s.sold[len(s.sold)-1-s.random.IntN(min(len(s.sold), 4))], "The wrong customer, at random.")
	var refused *admin.Refusal
	if err != nil && !errors.As(err, &refused) {
		s.t.Fatal(err)
	}
}

// announce announces a payment, or decides about the last one that was announced.
func (s *sums) announce() {
	ctx := context.Background()
	if n := len(s.announced); n > 0 && s.random.IntN(3) > 0 {
		last := s.announced[n-1]
		s.announced = s.announced[:n-1]
		var err error
		if s.random.IntN(2) == 0 {
			_, _, err = s.Admin.TopUp(ctx, admin.TopUp{OperatorID: last.OperatorID, Amount: last.Amount, Reference: last.Reference})
		} else {
			_, err = s.Admin.RejectAnnouncement(ctx, last.ID, "Not at the bank, at random.")
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.tell()
}

// tell announces a payment of a random operator.
func (s *sums) tell() {
	me := s.random.IntN(2)
	s.told++
	made, _, err := s.payments.Announce(context.Background(), admin.Payer{OperatorID: s.callers[me].OperatorID, Actor: "web:" + s.owners[me].Username}, admin.NewAnnouncement{
		Amount: money.Paise(int64(100_00 + s.random.IntN(900_000))), Method: admin.MethodUPI, Reference: fmt.Sprintf("7312%08d", s.told), PaidOn: indianDay(s.Now()),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.announced = append(s.announced, made)
}

// order requests a random operation, whose outcome at the provider is given.
func (s *sums) order(outcome string) {
	s.sent++
	me := s.callers[s.random.IntN(2)]
	plan := []string{"BASIC-1", "FAMILY-1", "COMBO-1", "FAMILY-3"}[s.random.IntN(4)]
	key := fmt.Sprintf("sums-order-%d", s.sent)
	known := s.ids[me.OperatorID]
	if len(known) < 5 || s.random.IntN(2) == 0 {
		mobile := fmt.Sprintf("97%08d", s.sent)
		s.ScriptProvider(mobile, outcome)
		got := s.send(me, "activate", key, e2e.Order{"full_name": fmt.Sprintf("Asha %d", s.sent), "mobile": mobile, "plan_id": plan})
		if id := got.Text("customer.subscriber_id"); id != "" {
			s.ids[me.OperatorID], s.mobiles[id] = append(known, id), mobile
		}
		s.sells(got)
		return
	}
	id := known[s.random.IntN(len(known))]
	s.ScriptProvider(s.mobiles[id], outcome)
	// Many of these are refused, for a plan that is active or an operation under way.
	s.sells(s.send(me, []string{"renew", "advance-renew"}[s.random.IntN(2)], key, e2e.Order{"subscriber_id": id, "plan_id": plan}))
}

func (s *sums) sells(got e2e.Answer) {
	if got.Code == fault.OK {
		s.sold = append(s.sold, got.Text("transaction_id"))
	}
}

// send requests an operation. After an outage it waits until the node's breaker has closed.
func (s *sums) send(me e2e.Caller, endpoint, key string, o e2e.Order) (got e2e.Answer) {
	s.WaitUntil("the breaker has closed", func() bool {
		got = s.Operate(me, endpoint, key, o)
		return got.Code != fault.ServiceUnavailable
	})
	return got
}

// bulk renews some of an operator's expired subscribers, and returns the job's page.
func (s *sums) bulk(operator int) string {
	b := s.SignIn(s.t, s.owners[operator])
	id := s.callers[operator].OperatorID
	s.TopUp(s.callers[operator], "3000.00")
	var chosen []string
	for subscriber, found := range readBooks(s.t, s.Env).subscribers {
		if found.operator == id && !found.open && found.lastPlan != "" {
			chosen = append(chosen, subscriber)
		}
	}
	slices.Sort(chosen)
	s.random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	chosen = chosen[:min(len(chosen), 12)]
	for i, subscriber := range chosen {
		s.ScriptProvider(s.mobiles[subscriber], []string{"success", "success", "reject", "wrong_reference"}[i%4])
	}
	checked := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": chosen})
	if checked.Location == "" {
		s.t.Fatalf("the bulk renewal of %q was refused: %d\n%s", chosen, checked.Status, plainText(checked.Body))
	}
	job := checked.Location
	b.Post(job+"/start", nil)
	s.WaitUntil("the bulk renewal is finished", func() bool {
		found, is, err := s.Node.Store.BulkJob(context.Background(), id, strings.TrimPrefix(job, "/panel/bulk/"))
		return err == nil && is && found.State == bulk.Finished
	})
	return job
}

// compare compares all pages with the books, once no review is under way.
func (s *sums) compare(jobs []string) {
	s.t.Helper()
	b := readBooks(s.t, s.Env)
	s.WaitUntil("no review is under way", func() bool {
		before := b
		b = readBooks(s.t, s.Env)
		return s.dueChecks() == "0" && reflect.DeepEqual(before, b)
	})
	b.compareWithAudit(s.t, s.Env)
	if made := b.sum(func(booksOperation) bool { return true }).count; made < s.sent/2 {
		s.t.Errorf("only %d of %d orders became operations", made, s.sent)
	}
	for _, state := range []string{"success", "failed", "needs_review", "reversed"} {
		if b.sum(func(o booksOperation) bool { return o.state == state }).count == 0 {
			s.t.Errorf("no operation is in state %s", state)
		}
	}
	for i, owner := range s.owners {
		p := panelSums{sums: s, books: b, id: s.callers[i].OperatorID, b: s.SignIn(s.t, owner)}
		p.home()
		p.subscribers()
		p.due()
		p.announced()
		p.bulkOffer()
		p.statement()
		p.transactions()
		p.receipts()
		p.bulkJob(jobs[i])
	}
	c := consoleSums{sums: s, books: b, b: s.SignIn(s.t, s.Demo.Admin)}
	c.home()
	c.operators()
	c.commission()
	if again := readBooks(s.t, s.Env); !reflect.DeepEqual(again, b) {
		s.t.Error("the books changed while they were compared with the pages")
	}
}

// dueChecks counts the questions that the provider is to be asked now.
func (s *sums) dueChecks() string {
	db := e2e.OpenReadOnly(s.t, s.Node.Config.Store)
	defer db.Close()
	return e2e.QueryRows(s.t, db, fmt.Sprintf(`SELECT (SELECT COUNT(*) FROM operations WHERE next_check_at <= %[1]d OR addon_next_at <= %[1]d)
		+ (SELECT COUNT(*) FROM reversals WHERE next_at <= %[1]d)`, s.Now().UnixMilli()))[0]
}
