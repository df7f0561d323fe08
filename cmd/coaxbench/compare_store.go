package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/crowd"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/server"
)

// reviewTimeout is how long it may take until all operations in review have an outcome.
const reviewTimeout = time.Minute

// compareStore is a store with the accounts that load its nodes.
type compareStore struct {
	name  string
	crowd crowd.Crowd
	// config is the file that nodes on it are started with.
	config string
	// database returns the CPU time of the database server; nil for SQLite.
	database func() (time.Duration, error)
	// vacuum vacuums the database; nil for SQLite.
	vacuum func(ctx context.Context, how vacuuming) error
	// charges is the number of ledger lines before anything was measured.
	charges uint64
	// answered counts the nodes' answers since.
	answered load.Tally
}

// prepareStore fills an empty store. No node is on it yet.
func (c *comparison) prepareStore(ctx context.Context, name string, settings map[string]string) (*compareStore, error) {
	size := c.plan.crowd
	c.tell("%s: preparing %d operators and %d subscribers", name, size.Operators, size.Subscribers)
	file, err := c.writeConfig(name, settings)
	if err != nil {
		return nil, err
	}
	s := &compareStore{name: name, config: file}
	config, err := s.readConfig()
	if err != nil {
		return nil, err
	}
	if err := s.furnish(ctx, config, size); err != nil {
		return nil, fmt.Errorf("prepare the store: %w", err)
	}
	now := server.Clock(0)()
	if config.Store.Kind == "postgres" {
		err = s.crowd.SubscribePostgres(ctx, config.Store.URL, now)
	} else {
		err = s.crowd.SubscribeSQLite(ctx, config.Store.Path, now)
	}
	return s, err
}

// furnish creates plans and operators by the admin service.
func (s *compareStore) furnish(ctx context.Context, config server.Config, size crowd.Size) (err error) {
	now := server.Clock(0)
	vault, err := server.OpenVault(config, nil)
	if err != nil {
		return err
	}
	store, err := server.OpenStore(ctx, config, server.StoreOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	// Staff actions are not signed before the first node: the crowd writes some by SQL.
	if err := store.CheckMasterKeys(ctx, vault.CheckValues(), vault.PrimaryID(), now()); err != nil {
		return err
	}
	components := simulator.Components()
	if err := store.RecordComparison(ctx, catalogue.Comparison{Provider: config.Provider.Name, At: now(), Components: components}); err != nil {
		return err
	}
	s.crowd, err = crowd.Make(ctx, admin.NewService(store, vault, "bench", now), components[0].Code, size)
	return err
}

// readConfig reads the configuration that nodes on the store are started with.
func (s *compareStore) readConfig() (server.Config, error) {
	return server.LoadConfig(server.Sources{File: s.config})
}

// audit runs coax audit. Violations make it exit with 1, too: then its report is
// returned without an error.
func (a *app) audit(ctx context.Context, configFile string, sets ...string) (audit.Report, error) {
	var report audit.Report
	args := []string{"audit", "--config", configFile, "--json"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	out, err := a.runCoax(ctx, args...)
	if json.Unmarshal(out, &report) == nil {
		return report, nil
	}
	return report, fmt.Errorf("audit the store: %w", err)
}

// prove compares a store with the answers of its nodes, which have ended, and audits it.
func (c *comparison) prove(ctx context.Context, s *compareStore, whole bool) error {
	c.tell("%s: comparing the books with the answers", s.name)
	config, err := s.readConfig()
	if err != nil {
		return err
	}
	charges, charged, err := countCharges(ctx, config)
	if err != nil {
		return err
	}
	books := compare.Books{Store: s.name, Answered: s.answered.Done, Verified: s.answered.Pending, Ledger: charges - s.charges, Charged: charged.String()}
	if open := s.answered.Pending + s.answered.Unknown; books.Ledger < books.Answered || books.Ledger > books.Answered+open {
		c.report.Problems = append(c.report.Problems, fmt.Sprintf("%s: the ledger has %d lines more than before; %d renewals were answered 200, and %d left open",
			s.name, books.Ledger, books.Answered, open))
	}
	if whole {
		audited, err := c.audit(ctx, s.config)
		if err != nil {
			return err
		}
		books.Audited = counted(audited.Counts.Operations.Total, "operation")
		if !audited.OK {
			books.Audited = ""
			c.report.Problems = append(c.report.Problems, fmt.Sprintf("%s: the audit finds %s; the first: %s", s.name,
				counted(int64(len(audited.Violations))+audited.LeftOut, "violation"), audited.Violations[0]))
		}
	}
	c.report.Books = append(c.report.Books, books)
	return nil
}

// awaitReviews waits until no operation is open.
func (c *comparison) awaitReviews(ctx context.Context, s *compareStore) error {
	config, err := s.readConfig()
	if err != nil {
		return err
	}
	for end := time.Now().Add(reviewTimeout); ; server.Sleep(ctx, 100*time.Millisecond) {
		open, err := countOpen(ctx, config)
		switch {
		case err != nil:
			return err
		case open == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s are still open after %s of reviews", counted(open, "operation"), reviewTimeout)
		}
	}
}

// countOpen counts the open operations.
func countOpen(ctx context.Context, config server.Config) (open int64, err error) {
	snapshot, done, err := server.OpenSnapshot(ctx, config.Store)
	if err != nil {
		return 0, fmt.Errorf("open the store at %s: %w", config.Store.Place(), err)
	}
	defer done()
	rows, err := snapshot.QueryContext(ctx, `SELECT count(*) FROM operations WHERE status IN ('processing', 'needs_review')`)
	if err != nil {
		return 0, fmt.Errorf("count what is open: %w", err)
	}
	defer rows.Close()
	if rows.Next() {
		err = rows.Scan(&open)
	}
	return open, errors.Join(err, rows.Err())
}

// countCharges counts the debits of the ledger with a statement of its own, independent of
// the code that it checks.
func countCharges(ctx context.Context, config server.Config) (lines uint64, sum money.Amount, err error) {
	snapshot, done, err := server.OpenSnapshot(ctx, config.Store)
	if err != nil {
		return 0, sum, fmt.Errorf("open the store at %s: %w", config.Store.Place(), err)
	}
	defer done()
	rows, err := snapshot.QueryContext(ctx, `SELECT count(*), CAST(coalesce(sum(amount_paise), 0) AS BIGINT) FROM ledger WHERE kind = 'debit'`)
	if err != nil {
		return 0, sum, fmt.Errorf("count the ledger's lines: %w", err)
	}
	defer rows.Close()
	var paise int64
	if !rows.Next() {
		return 0, sum, errors.Join(errors.New("count the ledger's lines: there is no number"), rows.Err())
	}
	if err := rows.Scan(&lines, &paise); err != nil {
		return 0, sum, fmt.Errorf("count the ledger's lines: %w", err)
	}
	return lines, money.Paise(paise), rows.Err()
}
