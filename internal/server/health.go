package server

import (
	"context"
	"errors"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
)

// healthTimeout bounds the queries for a page or a metric, which show other values too.
const healthTimeout = 2 * time.Second

// Health returns the state of this node and of the installation. A failed query is
// reported in StoreProblem, beside all that is known.
func (n *Node) Health(ctx context.Context) admin.Health {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	now := n.Now()
	migrations, schema := n.Store.Migrations(ctx)
	prices, compared := n.Store.CatalogueState(ctx, n.Config.Provider.Name)
	mode, maintenance := n.Store.Maintenance(ctx)
	interrupted, jobs := n.Store.InterruptedBulkJobs(ctx)
	overdue, reviews := n.Store.CountOverdueReviews(ctx, now.Add(-admin.ReviewDue))
	health := admin.Health{
		Node: n.name, Version: Version(), Started: n.started,
		Store: n.Config.Store.Kind, Migrations: migrations, OverdueReviews: overdue, Maintenance: mode,
		Provider: admin.ProviderHealth{
			Name: n.Config.Provider.Name, Down: n.Breaker.Allow() != nil,
			PricesVerifiedAt: prices.VerifiedAt, PricesProblem: prices.Problem,
			PricesVerified: !prices.VerifiedAt.IsZero() && now.Sub(prices.VerifiedAt) <= n.Config.Catalogue.MaxAge,
			Recent:         n.recent.list(),
		},
		Audit: n.AuditWatch.health(),
	}
	if n.certificate != nil {
		health.Certificate = n.certificate.health(time.Now())
	}
	for _, job := range interrupted {
		health.WaitingJobs = append(health.WaitingJobs, admin.WaitingJob{
			OperatorID: job.OperatorID, Title: job.Title, Since: job.InterruptedAt, ByMaintenance: job.Interrupted == bulk.ByMaintenance, BySuspension: job.Interrupted == bulk.BySuspension,
		})
	}
	if err := errors.Join(n.Store.Ready(ctx), schema, compared, reviews, maintenance, jobs); err != nil {
		health.StoreProblem = err.Error()
	}
	return health
}

// countOverdue counts the operations that have been in review for too long.
func countOverdue(store admin.Store, now time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	return store.CountOverdueReviews(ctx, now.Add(-admin.ReviewDue))
}

// maintenanceOn returns 1 while maintenance mode is on, for a metric.
func maintenanceOn(store admin.Store) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	m, err := store.Maintenance(ctx)
	if m.On {
		return 1, err
	}
	return 0, err
}

// countInterruptedJobs counts the bulk renewals that wait for their operators.
func countInterruptedJobs(store bulk.Store) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	jobs, err := store.InterruptedBulkJobs(ctx)
	return len(jobs), err
}

// countOpenJobs counts the bulk renewals that are not over.
func countOpenJobs(store bulk.Store) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	return store.OpenBulkJobs(ctx)
}
