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
	// draftLifetime is how long a draft can be started: its check of prices, customers and
	// the wallet becomes outdated.
	draftLifetime = time.Hour
	// checkWorkers is how many rows are checked concurrently.
	checkWorkers = 4
	// pageRows is how many rows are read at a time.
	pageRows = 500
)

// Operations carries out renewals.
type Operations interface {
	Preview(ctx context.Context, r operation.Request) (operation.Quote, error)
	Process(ctx context.Context, r operation.Request) (operation.Result, error)
	Transaction(ctx context.Context, operatorID int64, id, key string) (operation.Operation, error)
	Subscription(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, error)
}

var _ Operations = (*operation.Processor)(nil)

// Service makes, starts and shows an operator's bulk renewals.
type Service struct {
	store      Store
	operations Operations
	now        func() time.Time
}

// NewService returns a service.
func NewService(store Store, operations Operations, now func() time.Time) *Service {
	return &Service{store: store, operations: operations, now: now}
}

// Order is a request for a bulk renewal.
type Order struct {
	OperatorID int64
	Actor      string // web:USERNAME
	Title      string
	Kind       operation.Kind
	// PlanID is for the selections without one; empty for the plan that each subscriber
	// has.
	PlanID     string
	Selections []Selection
	// Voucher is the form's: sent twice with the same list, the form makes one job. Empty
	// where an order cannot be sent twice by mistake.
	Voucher string
}

// SelectSubscribers returns selections of subscribers by id.
func SelectSubscribers(ids []string) []Selection {
	selections := make([]Selection, len(ids))
	for i, id := range ids {
		selections[i] = Selection{SubscriberID: id}
	}
	return selections
}

// Prepare checks every row of an order and stores it as a draft. A row with a permanent
// refusal will not run; one with a transient refusal, such as an empty wallet or a provider
// outage, is queued with that reason.
func (s *Service) Prepare(ctx context.Context, o Order) (Job, error) {
	switch {
	case len(o.Selections) == 0:
		return Job{}, refuse("Select at least one subscriber.")
	case len(o.Selections) > MaxRows:
		return Job{}, refuse("There are %d subscribers; a bulk renewal has at most %d.", len(o.Selections), MaxRows)
	case o.Kind != operation.Renew && o.Kind != operation.AdvanceRenew:
		return Job{}, refuse("A bulk renewal can be a renewal or an advance renewal.")
	}
	operator, err := s.store.Operator(ctx, o.OperatorID)
	switch {
	case err != nil:
		return Job{}, fmt.Errorf("read the operator of a bulk renewal: %w", err)
	case operator.Status != subscription.OperatorActive:
		return Job{}, ErrSuspended
	}
	job := Job{OperatorID: o.OperatorID, ID: newID(), Actor: o.Actor, Title: o.Title, State: Draft, CreatedAt: s.now().Truncate(time.Millisecond)}
	if o.Voucher != "" {
		made, id, err := s.madeBefore(ctx, o)
		if err != nil || made.ID != "" {
			return made, err
		}
		job.ID = id
	}
	rows, err := s.check(ctx, job, o)
	if err != nil {
		return Job{}, refusedInMaintenance(err)
	}
	refuseDuplicates(rows)
	if err := s.store.SaveBulkJob(ctx, job, rows); err != nil {
		if made, lookUp := s.Job(ctx, o.OperatorID, job.ID); lookUp == nil {
			return made, nil // a concurrent request with the same voucher was faster
		}
		return Job{}, fmt.Errorf("store a bulk renewal: %w", err)
	}
	return s.Job(ctx, o.OperatorID, job.ID)
}

// madeBefore returns the job that an order with a voucher has made, or else the id of the one
// to make. A job that was discarded is made anew: its id is the next voucher.
func (s *Service) madeBefore(ctx context.Context, o Order) (made Job, id string, err error) {
	for {
		id = idForVoucher(o)
		made, err = s.Job(ctx, o.OperatorID, id)
		switch {
		case errors.Is(err, ErrNoJob):
			return Job{}, id, nil
		case err != nil || !made.Discarded():
			return made, id, err
		}
		o.Voucher = id
	}
}

// check checks all rows, a few at a time.
func (s *Service) check(ctx context.Context, job Job, o Order) ([]Row, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	rows, next := make([]Row, len(o.Selections)), make(chan int)
	var group sync.WaitGroup
	for range checkWorkers {
		group.Go(func() {
			for i := range next {
				selection := o.Selections[i]
				rows[i] = Row{
					Number: i + 1, Line: selection.Line, SubscriberID: selection.SubscriberID, Mobile: selection.Mobile, PlanID: selection.PlanID,
					Kind: o.Kind, IdempotencyKey: keyOf(job.ID, i+1), State: RowQueued, NotRenewedSince: selection.NotRenewedSince,
				}
				if rows[i].PlanID == "" {
					rows[i].PlanID = o.PlanID
				}
				if err := s.checkRow(ctx, job, &rows[i]); err != nil {
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

// checkRow finds a row's subscriber and plan, and whether it would be refused.
func (s *Service) checkRow(ctx context.Context, job Job, row *Row) error {
	if !row.NotRenewedSince.IsZero() {
		if err := s.renewedSince(ctx, job, row, row.NotRenewedSince); err != nil || row.State == RowRefused {
			return err
		}
	}
	if row.PlanID == "" {
		found, err := s.operations.Subscription(ctx, job.OperatorID, row.SubscriberID, row.Mobile)
		if err != nil {
			return row.setRefusal(err)
		}
		row.identify(found.Subscriber)
		plan, has := subscription.LatestPlan(found.Cycles, s.now())
		if !has {
			row.State, row.Code, row.Message = RowRefused, fault.InvalidPlan, "The subscriber has no plan yet. Name one."
			return nil
		}
		row.PlanID = plan
	}
	quote, err := s.operations.Preview(ctx, row.request(job))
	if quote.Subscriber.ID != "" {
		row.identify(quote.Subscriber)
		row.Quoted, row.ExpiryQuoted = quote.Amount, quote.ExpiryNew
	}
	return row.setRefusal(err)
}

func (r *Row) identify(who operation.Subscriber) {
	r.SubscriberID, r.Mobile, r.CustomerName = who.ID, who.Mobile, who.Name
}

// setRefusal records why a row would be refused. It returns errors that are not about the
// row, which fail the whole check.
func (r *Row) setRefusal(err error) error {
	if err == nil {
		return nil
	}
	var refusal *fault.Error
	switch {
	case !errors.As(err, &refusal):
		return err
	case refusal.Code == fault.ServiceUnavailable && refusal.Cause != nil, refusal.Code == fault.PlansUnavailable:
		return err // the store is unavailable, or no price is verified: there is nothing to show
	}
	r.Code, r.Message = refusal.Code, refusal.Message
	if !transient(refusal.Code) {
		r.State = RowRefused
	}
	return nil
}

// transient reports whether a refusal may pass.
func transient(code fault.Code) bool {
	switch code {
	case fault.InsufficientBalance, fault.OperationInProgress:
		return true
	}
	return outage(code)
}

// outage reports whether a refusal concerns every row alike.
func outage(code fault.Code) bool {
	return code == fault.ServiceUnavailable || code == fault.PlansUnavailable
}

// refuseDuplicates refuses every row but the first of a subscriber; one row may name the
// subscriber by id and another by mobile.
func refuseDuplicates(rows []Row) {
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

// Check compares a job with the wallet.
type Check struct {
	Job    Job
	Wallet money.Amount
	// Shortfall is what the wallet lacks for all rows that are still to run.
	Shortfall money.Amount
	// Uncovered: the wallet covers none of the rows that are to run.
	Uncovered bool
}

// Check reads a job and compares it with the present wallet.
func (s *Service) Check(ctx context.Context, operatorID int64, id string) (Check, error) {
	job, err := s.Job(ctx, operatorID, id)
	if err != nil {
		return Check{}, err
	}
	wallet, err := s.Wallet(ctx, operatorID)
	if err != nil {
		return Check{}, err
	}
	check := Check{Job: job, Wallet: wallet}
	if lacks := job.Progress.Outstanding.Sub(wallet); lacks.IsPositive() {
		check.Shortfall = lacks
	}
	check.Uncovered = job.Progress.Queued > 0 && wallet.Less(job.Progress.Cheapest)
	return check, nil
}

// Wallet reads what an operator can spend: the balance without what is held.
func (s *Service) Wallet(ctx context.Context, operatorID int64) (money.Amount, error) {
	wallet, err := s.store.Wallet(ctx, operatorID)
	if err != nil {
		return money.Amount{}, fmt.Errorf("read the wallet: %w", err)
	}
	return wallet.Balance, nil
}

// Start starts a draft. It is idempotent.
func (s *Service) Start(ctx context.Context, operatorID int64, id string) (Job, error) {
	job, err := s.Job(ctx, operatorID, id)
	if err != nil || job.State != Draft {
		return job, err
	}
	now := s.now()
	switch {
	case now.Sub(job.CreatedAt) > draftLifetime:
		return job, errExpired
	case job.Progress.Queued == 0:
		return job, refuse("There is nothing in the list that can be renewed.")
	}
	if _, err := s.store.StartBulkJob(ctx, operatorID, id, now); err != nil {
		return job, refusedInMaintenance(err)
	}
	return s.Job(ctx, operatorID, id)
}

// Continue resumes a job that was interrupted. Otherwise it changes nothing.
func (s *Service) Continue(ctx context.Context, operatorID int64, id, actor string) (Job, error) {
	if _, err := s.store.ContinueBulkJob(ctx, operatorID, id, actor, s.now()); err != nil {
		return Job{}, refusedInMaintenance(err)
	}
	return s.Job(ctx, operatorID, id)
}

// Interrupted counts the jobs of an operator that wait for a person.
func (s *Service) Interrupted(ctx context.Context, operatorID int64) (waiting int, err error) {
	jobs, err := s.store.InterruptedBulkJobs(ctx)
	for _, job := range jobs {
		if job.OperatorID == operatorID {
			waiting++
		}
	}
	return waiting, err
}

// refusedInMaintenance converts operation.ErrMaintenance into a refusal.
func refusedInMaintenance(err error) error {
	if errors.Is(err, operation.ErrMaintenance) {
		return ErrMaintenance
	}
	return err
}

// Cancel cancels the rows that have not begun; the others are completed. It is idempotent,
// and does nothing to a finished job.
func (s *Service) Cancel(ctx context.Context, operatorID int64, id string) (Job, error) {
	if _, err := s.store.CancelBulkJob(ctx, operatorID, id, s.now()); err != nil {
		return Job{}, fmt.Errorf("cancel a bulk renewal: %w", err)
	}
	return s.Job(ctx, operatorID, id)
}

// Job reads one of an operator's jobs; ErrNoJob if there is none. The rows of a finished
// job are reconciled with their operations first.
func (s *Service) Job(ctx context.Context, operatorID int64, id string) (Job, error) {
	job, err := s.read(ctx, operatorID, id)
	if err != nil || job.State != Finished {
		return job, err
	}
	reconciled, err := reconcile(ctx, s.store, s.operations, job, s.now)
	if err != nil || len(reconciled) == 0 {
		return job, err
	}
	return s.read(ctx, operatorID, id)
}

func (s *Service) read(ctx context.Context, operatorID int64, id string) (Job, error) {
	job, found, err := s.store.BulkJob(ctx, operatorID, id)
	switch {
	case err != nil:
		return Job{}, fmt.Errorf("read a bulk renewal: %w", err)
	case !found:
		return Job{}, ErrNoJob
	}
	return job, nil
}

// Jobs reads an operator's latest jobs, newest first, without drafts.
func (s *Service) Jobs(ctx context.Context, operatorID int64, before time.Time, limit int) ([]Job, error) {
	return s.store.BulkJobs(ctx, operatorID, before, limit)
}

// Drafts reads an operator's latest drafts that can still be started, newest first.
func (s *Service) Drafts(ctx context.Context, operatorID int64, limit int) ([]Job, error) {
	return s.store.BulkDrafts(ctx, operatorID, s.now().Add(-draftLifetime), limit)
}

// Rows reads a page of a job's rows.
func (s *Service) Rows(ctx context.Context, operatorID int64, id string, page Page) ([]Row, error) {
	return s.store.BulkRows(ctx, operatorID, id, page)
}

// Results iterates over all rows of a job. It ends with the first error.
func (s *Service) Results(ctx context.Context, operatorID int64, id string) iter.Seq2[Row, error] {
	return s.each(ctx, operatorID, id, "")
}

// each iterates over the rows of a state, or over all.
func (s *Service) each(ctx context.Context, operatorID int64, id string, state RowState) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		page := Page{State: state, Limit: pageRows}
		for {
			rows, err := s.store.BulkRows(ctx, operatorID, id, page)
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
