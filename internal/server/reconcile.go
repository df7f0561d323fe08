package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/reconcile"
	"github.com/coaxhq/coax/internal/requestlog"
)

// NewComparison returns a comparison of the provider's list, or of a file in its place, with a store.
func NewComparison(config Config, store Store, vault *access.Vault, list operation.OrderLister, source string, now func() time.Time) *reconcile.Comparison {
	keys := operation.ClientKeys(vault.DeriveInOrder(operation.ClientKeyPurpose))
	return &reconcile.Comparison{
		Provider: list, Books: comparedBooks{store, keys}, Now: now, ReversalAge: config.ReversalAge + unansweredReversal,
		Choice: reconcile.Choice{Provider: config.Provider.Name, Term: config.Rules.ActivationTerm, Keys: keys, Source: source},
	}
}

// unansweredReversal is how much later than reversal.max_age allows a reversal may be carried out: an order
// can be in review for a day before it is a success.
const unansweredReversal = 24 * time.Hour

// SourceList names the provider's list in the evidence of adopted operations.
const SourceList = "the provider's list"

// RestoreWindow is what a restored store is compared from; an error says what to do if that is not known.
func RestoreWindow(ctx context.Context, store Store) (reconcile.Window, error) {
	restore, err := store.OpenRestore(ctx)
	switch {
	case err != nil:
		return reconcile.Window{}, err
	case !restore.Open:
		return reconcile.Window{}, errNoRestore
	case restore.Since.IsZero():
		return reconcile.Window{}, admin.Refuse("the store was restored, and it is not known from when: give the time of the backup with --since")
	}
	return reconcile.Window{From: restore.Since}, nil
}

var errNoRestore = admin.Refuse("give --day YYYY-MM-DD or --since T: no restore of this store is open")

// CompareRestored compares a restored store with the provider's list, and returns how many differences
// are left. An order that the provider was asked for before the restore may be carried out later: as in
// a review, it is believed not to be only after review.refund_after. A comparison before then that finds
// nothing is repeated then, and waiting is told for how long.
func CompareRestored(ctx context.Context, config Config, store Store, vault *access.Vault, now func() time.Time, waiting func(time.Duration)) (differences int, err error) {
	restore, err := store.OpenRestore(ctx)
	if err != nil {
		return 0, err
	}
	window, err := RestoreWindow(ctx, store)
	if err != nil {
		return 0, err
	}
	provider, err := OpenProvider(config, nil)
	if err != nil {
		return 0, err
	}
	defer provider.Close()
	compare := func() (int, error) {
		report, err := NewComparison(config, store, vault, provider, SourceList, now).Run(ctx, window)
		return len(report.Differences), err
	}
	// The clock may have been put back since.
	late := max(config.Provider.Timeout, config.Review.RefundAfter)
	left := min(restore.FoundAt.Add(late).Sub(now()), late)
	differences, err = compare()
	if err != nil || differences > 0 || left <= 0 {
		return differences, err
	}
	waiting(left)
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(left):
	}
	return compare()
}

// comparedBooks are a store's operations, as they are compared.
type comparedBooks struct {
	Store
	keys operation.ClientKeys
}

var _ reconcile.Books = comparedBooks{}

func (b comparedBooks) Successes(ctx context.Context, w reconcile.Window, after operation.Operation, limit int) ([]operation.Operation, error) {
	filter := admin.OperationFilter{State: operation.Success, From: w.From, To: w.Until, OldestFirst: true, Limit: limit}
	if after.ID != "" {
		filter.After = admin.Cursor{At: after.CreatedAt, ID: after.ID}
	}
	return b.ListOperations(ctx, filter)
}

func (b comparedBooks) OperationsOf(ctx context.Context, subscriberID string) ([]operation.Operation, error) {
	return b.ListOperations(ctx, admin.OperationFilter{Subscriber: subscriberID, Limit: maxOfSubscriber})
}

// maxOfSubscriber is how many of a subscriber's operations are searched, the latest first.
const maxOfSubscriber = 500

// maxPlansOfKey bounds how many plans a client may ask for under one key.
const maxPlansOfKey = 10

// KeyOwners searches the bulk renewals that wait, and the request log of every operator: since a restore
// its clients have repeated requests, which were refused because of maintenance.
func (b comparedBooks) KeyOwners(ctx context.Context, since time.Time, clientKeys []string) (map[string]reconcile.KeyOwner, error) {
	wanted, owners := map[string]bool{}, map[string]reconcile.KeyOwner{}
	for _, key := range clientKeys {
		wanted[key] = true
	}
	add := func(operatorID int64, idempotencyKey string, channel operation.Channel, planID string) {
		for _, key := range b.keys.All(operatorID, idempotencyKey) {
			if !wanted[key] {
				continue
			}
			plans := owners[key].Plans
			if planID != "" && !slices.Contains(plans, planID) && len(plans) < maxPlansOfKey {
				plans = append(plans, planID)
			}
			owners[key] = reconcile.KeyOwner{OperatorID: operatorID, Channel: channel, Plans: plans}
		}
	}
	jobs, err := b.InterruptedBulkJobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		page := bulk.Page{Limit: 500}
		for {
			rows, err := b.BulkRows(ctx, job.OperatorID, job.ID, page)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				add(job.OperatorID, row.IdempotencyKey, operation.Web, row.PlanID)
				page.After = row.Number
			}
			if len(rows) < page.Limit {
				break
			}
		}
	}
	operators, err := b.Operators(ctx)
	if err != nil {
		return nil, err
	}
	log := requestlog.New(b.Store, requestlog.Config{})
	for _, operator := range operators {
		query := requestlog.Query{From: since, Limit: 500}
		for first := true; first || query.After != ""; first = false {
			page, err := log.Search(ctx, operator.ID, query)
			if err != nil {
				return nil, fmt.Errorf("search for repeated requests: %w", err)
			}
			for _, entry := range page.Entries {
				channel := operation.API
				if entry.FromPage() {
					channel = operation.Web
				}
				if entry.IdempotencyKey != "" && entry.Proven() {
					add(operator.ID, entry.IdempotencyKey, channel, entry.PlanID)
				}
			}
			query.After = page.Next
		}
	}
	return owners, nil
}

// nodeComparer compares for the console.
type nodeComparer struct{ *Node }

func (n nodeComparer) Comparison() *reconcile.Comparison {
	return NewComparison(n.Config, n.Store, n.Vault, n.provider, SourceList, n.Now)
}

func (n nodeComparer) Restored(ctx context.Context) (reconcile.Window, error) {
	return RestoreWindow(ctx, n.Store)
}
