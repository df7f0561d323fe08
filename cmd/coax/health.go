package main

import (
	"context"
	"errors"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
)

// healthTimeout is how long a look at the store may take, for a page or a metric
// that is about other things, too.
const healthTimeout = 2 * time.Second

// health puts together what this node knows of itself and of the installation. What
// cannot be found out is told as the store's problem, beside all that is known.
func (n *node) health(ctx context.Context) admin.Health {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	now := n.now()
	migrations, schema := n.store.Migrations(ctx)
	prices, compared := n.store.CatalogueState(ctx, n.config.Provider.Name)
	overdue, reviews := n.store.CountOverdueReviews(ctx, now.Add(-admin.ReviewDue))
	health := admin.Health{
		Node: n.name, Version: version(), Started: n.started,
		Store: n.config.Store.Kind, Migrations: migrations, OverdueReviews: overdue,
		Provider: admin.ProviderHealth{
			Name: n.config.Provider.Name, Out: n.breaker.Allow() != nil,
			PricesVerifiedAt: prices.VerifiedAt, PricesProblem: prices.Problem,
			PricesCount: !prices.VerifiedAt.IsZero() && now.Sub(prices.VerifiedAt) <= n.config.Catalogue.MaxAge,
			Recent:      n.answers.recent(),
		},
		Audit: n.auditWatch.health(),
	}
	if err := errors.Join(n.store.Ready(ctx), schema, compared, reviews); err != nil {
		health.StoreProblem = err.Error()
	}
	return health
}

// countOverdue counts the operations that somebody should have dealt with.
func countOverdue(store admin.Store, now time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	return store.CountOverdueReviews(ctx, now.Add(-admin.ReviewDue))
}

// countOpenJobs counts the bulk renewals that are not over.
func countOpenJobs(store bulk.Store) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	return store.OpenBulkJobs(ctx)
}
