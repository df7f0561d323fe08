package bulk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// draftLife is how long a check holds: what it says of prices, customers and the
	// wallet grows old.
	draftLife = time.Hour
	// checksAtOnce is how many rows are looked at together.
	checksAtOnce = 4
	// pageRows is how many rows results are read by.
	pageRows = 500
)

// Operations is what renews.
type Operations interface {
	Preview(ctx context.Context, r operation.Request) (operation.Quote, error)
	Process(ctx context.Context, r operation.Request) (operation.Result, error)
	Transaction(ctx context.Context, operatorID int64, id, key string) (operation.Operation, error)
	Subscription(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, error)
}

var _ Operations = (*operation.Processor)(nil)

// Service is where an operator's people make bulk renewals, start them and look at them.
type Service struct {
	store      Store
	operations Operations
	now        func() time.Time
}

// NewService returns a service.
func NewService(store Store, operations Operations, now func() time.Time) *Service {
	return &Service{store: store, operations: operations, now: now}
}

// Order is what somebody wants renewed.
type Order struct {
	OperatorID int64
	Actor      string // web:USERNAME
	Title      string
	Kind       operation.Kind
	// PlanID is for the wishes that name none; empty for the plan that each
	// subscriber has.
	PlanID string
	Wishes []Wish
	// Voucher names the form that asks: sent twice with the same list, it makes one
	// job. Empty where nobody could ask twice by mistake.
	Voucher string
}

// FromSubscribers are the wishes for a list of subscribers' ids.
func FromSubscribers(ids []string) []Wish {
	wishes := make([]Wish, len(ids))
	for i, id := range ids {
		wishes[i] = Wish{SubscriberID: id}
	}
	return wishes
}

// Prepare checks every row of an order and keeps it as a draft. A row that would be
// refused for a reason of its own is refused from then on, and will not run; one that
// only the moment stands in the way of, an empty wallet or a provider that is out,
// is queued with that reason.
func (d *Service) Prepare(ctx context.Context, o Order) (Job, error) {
	switch {
	case len(o.Wishes) == 0:
		return Job{}, refuse("Choose at least one subscriber.")
	case len(o.Wishes) > MaxRows:
		return Job{}, refuse("There are %d subscribers; a bulk renewal has at most %d.", len(o.Wishes), MaxRows)
	case o.Kind != operation.Renew && o.Kind != operation.AdvanceRenew:
		return Job{}, refuse("A bulk renewal can be a renewal or an advance renewal.")
	}
	operator, err := d.store.Operator(ctx, o.OperatorID)
	switch {
	case err != nil:
		return Job{}, fmt.Errorf("read the operator of a bulk renewal: %w", err)
	case operator.Status != subscription.OperatorActive:
		return Job{}, ErrSuspended
	}
	job := Job{OperatorID: o.OperatorID, ID: newID(), Actor: o.Actor, Title: o.Title, State: Draft, CreatedAt: d.now().Truncate(time.Millisecond)}
	if o.Voucher != "" {
		job.ID = idUnder(o)
		if made, err := d.Job(ctx, o.OperatorID, job.ID); !errors.Is(err, ErrNoJob) {
			return made, err
		}
	}
	rows, err := d.check(ctx, job, o)
	if err != nil {
		return Job{}, refusedInMaintenance(err)
	}
	refuseTwins(rows)
	if err := d.store.KeepBulkJob(ctx, job, rows); err != nil {
		if made, lookUp := d.Job(ctx, o.OperatorID, job.ID); lookUp == nil {
			return made, nil // the other of two clicks was quicker
		}
		return Job{}, fmt.Errorf("keep a bulk renewal: %w", err)
	}
	return d.Job(ctx, o.OperatorID, job.ID)
}

// check looks at all rows, a few at a time.
func (d *Service) check(ctx context.Context, job Job, o Order) ([]Row, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	rows, next := make([]Row, len(o.Wishes)), make(chan int)
	var group sync.WaitGroup
	for range checksAtOnce {
		group.Go(func() {
			for i := range next {
				wish := o.Wishes[i]
				rows[i] = Row{
					Number: i + 1, Line: wish.Line, SubscriberID: wish.SubscriberID, Mobile: wish.Mobile, PlanID: wish.PlanID,
					Kind: o.Kind, IdempotencyKey: keyOf(job.ID, i+1), State: RowQueued,
				}
				if rows[i].PlanID == "" {
					rows[i].PlanID = o.PlanID
				}
				if err := d.checkRow(ctx, job, &rows[i], wish.NotSince); err != nil {
					giveUp(err)
				}
			}
		})
	}
	for i := range rows {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	return rows, context.Cause(ctx)
}

// checkRow finds out whom and what a row is about, and whether it would be refused.
func (d *Service) checkRow(ctx context.Context, job Job, row *Row, notSince time.Time) error {
	if !notSince.IsZero() {
		if err := d.renewedSince(ctx, job, row, notSince); err != nil || row.State == RowRefused {
			return err
		}
	}
	if row.PlanID == "" {
		found, err := d.operations.Subscription(ctx, job.OperatorID, row.SubscriberID, row.Mobile)
		if err != nil {
			return row.judge(err)
		}
		row.identify(found.Subscriber)
		plan, has := subscription.LatestPlan(found.Cycles, d.now())
		if !has {
			row.State, row.Code, row.Message = RowRefused, fault.InvalidPlan, "The subscriber has no plan yet. Name one."
			return nil
		}
		row.PlanID = plan
	}
	quote, err := d.operations.Preview(ctx, row.request(job))
	if quote.Plan.ID != "" {
		row.identify(quote.Subscriber)
		row.Quoted, row.ExpiryQuoted = quote.Amount, quote.ExpiryNew
	}
	return row.judge(err)
}

func (r *Row) identify(who operation.Subscriber) {
	r.SubscriberID, r.Mobile, r.CustomerName = who.ID, who.Mobile, who.Name
}

// judge writes down why a row would be refused; an error is what is not the row's
// fault, and no reason to start anything.
func (r *Row) judge(err error) error {
	if err == nil {
		return nil
	}
	var refusal *fault.Error
	switch {
	case !errors.As(err, &refusal):
		return err
	case refusal.Code == fault.ServiceUnavailable && refusal.Cause != nil, refusal.Code == fault.PlansUnavailable:
		return err // the store is away, or nothing has a price: there is nothing to show
	}
	r.Code, r.Message = refusal.Code, refusal.Message
	if !passing(refusal.Code) {
		r.State = RowRefused
	}
	return nil
}

// passing are refusals that are the moment's and not the row's.
func passing(code fault.Code) bool {
	switch code {
	case fault.InsufficientBalance, fault.OperationInProgress:
		return true
	}
	return outage(code)
}

// outage are refusals that concern every row alike.
func outage(code fault.Code) bool {
	return code == fault.ServiceUnavailable || code == fault.PlansUnavailable
}

// refuseTwins refuses every row but the first of a subscriber, whom one row may name
// by id and another by mobile.
func refuseTwins(rows []Row) {
	first := map[string]int{}
	for i := range rows {
		row := &rows[i]
		who := row.SubscriberID
		if who == "" {
			who = "mobile " + row.Mobile
		}
		earlier, twice := first[who]
		if !twice {
			first[who] = i
			continue
		}
		where := fmt.Sprintf("row %d", rows[earlier].Number)
		if rows[earlier].Line > 0 {
			where = fmt.Sprintf("line %d", rows[earlier].Line)
		}
		row.State, row.Code, row.Message = RowRefused, fault.DuplicateRequest, "The same subscriber is on "+where+" already."
	}
}

// Check is how a job stands against the wallet.
type Check struct {
	Job    Job
	Wallet money.Amount
	// Shortfall is what the wallet lacks for all rows that are still to run; zero if
	// nothing.
	Shortfall money.Amount
}

// Check reads a job and holds it against the wallet as it is now.
func (d *Service) Check(ctx context.Context, operatorID int64, id string) (Check, error) {
	job, err := d.Job(ctx, operatorID, id)
	if err != nil {
		return Check{}, err
	}
	wallet, err := d.store.Wallet(ctx, operatorID)
	if err != nil {
		return Check{}, fmt.Errorf("read the wallet: %w", err)
	}
	check := Check{Job: job, Wallet: wallet.Balance}
	if lacks := job.Progress.Outstanding.Sub(wallet.Balance); lacks.IsPositive() {
		check.Shortfall = lacks
	}
	return check, nil
}

// Start lets workers have a draft. Starting one twice is the same as once.
func (d *Service) Start(ctx context.Context, operatorID int64, id string) (Job, error) {
	job, err := d.Job(ctx, operatorID, id)
	if err != nil || job.State != Draft {
		return job, err
	}
	now := d.now()
	switch {
	case now.Sub(job.CreatedAt) > draftLife:
		return job, refuse("The list was checked more than an hour ago. Check it again.")
	case job.Progress.Queued == 0:
		return job, refuse("There is nothing in the list that can be renewed.")
	}
	if _, err := d.store.StartBulkJob(ctx, operatorID, id, now); err != nil {
		return job, refusedInMaintenance(err)
	}
	return d.Job(ctx, operatorID, id)
}

// Continue lets a job go on that was interrupted. Continuing one that is not changes
// nothing.
func (d *Service) Continue(ctx context.Context, operatorID int64, id, actor string) (Job, error) {
	if _, err := d.store.ContinueBulkJob(ctx, operatorID, id, actor, d.now()); err != nil {
		return Job{}, refusedInMaintenance(err)
	}
	return d.Job(ctx, operatorID, id)
}

// Interrupted counts the jobs of an operator that wait for a person.
func (d *Service) Interrupted(ctx context.Context, operatorID int64) (waiting int, err error) {
	jobs, err := d.store.InterruptedBulkJobs(ctx)
	for _, job := range jobs {
		if job.OperatorID == operatorID {
			waiting++
		}
	}
	return waiting, err
}

// refusedInMaintenance is ErrMaintenance where that is the cause of an error.
func refusedInMaintenance(err error) error {
	if errors.Is(err, operation.ErrMaintenance) {
		return ErrMaintenance
	}
	return err
}

// Cancel stops what has not begun. What has is carried through. Cancelling twice, or
// a job that is over, changes nothing.
func (d *Service) Cancel(ctx context.Context, operatorID int64, id string) (Job, error) {
	if _, err := d.store.CancelBulkJob(ctx, operatorID, id, d.now()); err != nil {
		return Job{}, fmt.Errorf("cancel a bulk renewal: %w", err)
	}
	return d.Job(ctx, operatorID, id)
}

// Job reads one of an operator's jobs; ErrNoJob if there is none. Of one that is over,
// every row is by then what its operation is.
func (d *Service) Job(ctx context.Context, operatorID int64, id string) (Job, error) {
	job, err := d.read(ctx, operatorID, id)
	if err != nil || job.State != Finished {
		return job, err
	}
	mended, err := mend(ctx, d.store, d.operations, job, d.now)
	if err != nil || len(mended) == 0 {
		return job, err
	}
	return d.read(ctx, operatorID, id)
}

func (d *Service) read(ctx context.Context, operatorID int64, id string) (Job, error) {
	job, found, err := d.store.BulkJob(ctx, operatorID, id)
	switch {
	case err != nil:
		return Job{}, fmt.Errorf("read a bulk renewal: %w", err)
	case !found:
		return Job{}, ErrNoJob
	}
	return job, nil
}

// Jobs reads an operator's latest jobs, the last one first. Drafts are not among them.
func (d *Service) Jobs(ctx context.Context, operatorID int64, most int) ([]Job, error) {
	return d.store.BulkJobs(ctx, operatorID, most)
}

// Rows reads a page of a job's rows.
func (d *Service) Rows(ctx context.Context, operatorID int64, id string, page Page) ([]Row, error) {
	return d.store.BulkRows(ctx, operatorID, id, page)
}

// Results goes through all rows of a job, however many they are. It ends with the
// first error.
func (d *Service) Results(ctx context.Context, operatorID int64, id string) iter.Seq2[Row, error] {
	return d.each(ctx, operatorID, id, "")
}

// each goes through the rows of a state, or through all.
func (d *Service) each(ctx context.Context, operatorID int64, id string, state RowState) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		page := Page{State: state, Limit: pageRows}
		for {
			rows, err := d.store.BulkRows(ctx, operatorID, id, page)
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
				page.After = row.Number
			}
			if len(rows) < page.Limit {
				return
			}
		}
	}
}
