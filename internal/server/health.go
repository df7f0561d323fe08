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
	restore, restored := n.Store.OpenRestore(ctx)
	interrupted, jobs := n.Store.InterruptedBulkJobs(ctx)
	overdue, reviews := n.Store.CountOverdueReviews(ctx, now.Add(-admin.ReviewDue))
	health := admin.Health{
		Node: n.name, Version: Version(), Started: n.started,
		Store: n.Config.Store.Kind, Migrations: migrations, OverdueReviews: overdue, Maintenance: mode, Restore: restore,
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
	if err := errors.Join(n.Store.Ready(ctx), schema, compared, reviews, maintenance, restored, jobs); err != nil {
		health.StoreProblem = err.Error()
	}
	return health
}
