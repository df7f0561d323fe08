// Package server wires one node of Coax from its configuration: store, provider, API,
// pages, listeners and the work that runs beside them. It decides no business rule;
// cmd/coax has the commands that run a node, and package demo the one that needs no
// configuration.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/httpapi"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/internal/web"
)

// Reachable returns an address as a client on this machine would dial it.
func Reachable(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}

// purgeEvery is how often old nonces, counters, sessions and calls are purged.
const purgeEvery = time.Minute

// Node is one running service: its store, its listeners and its background work.
type Node struct {
	name       string
	started    time.Time
	Config     Config
	Now        func() time.Time
	log        *slog.Logger
	Store      Store
	Vault      *access.Vault
	Authorizer *access.Authorizer
	Logins     *login.Service
	metrics    *telemetry.Metrics
	heads      *telemetry.HeadMetrics
	holds      *telemetry.HoldMetrics
	places     *placesWatch
	// Security is where security events go.
	Security *telemetry.Security
	// Requests is the log that operators search for their calls.
	Requests *requestlog.Log

	Catalogue  *catalogue.Catalogue
	provider   *gateway.Gateway
	recent     *recentCalls
	tracer     *telemetry.Tracer // nil if nothing is traced
	Operations *operation.Processor
	reviewer   *operation.Reviewer
	Breaker    *operation.Breaker
	bulk       *bulk.Worker
	ClockWatch *clockWatch // nil if the store has no clock of its own
	AuditWatch *auditWatch // nil if audit.every is 0
	marker     *marker     // nil if no mark is kept
	keyring    *keyring

	certificate tlsCertificate
	Site        *web.Site
	public      *httpapi.Server
	internal    *httpapi.Internal
	private     *http.Server

	// The addresses it listens on, set by Listen; with the real port in place of 0.
	APIAddr, PlainAddr, InternalAddr net.Addr

	background sync.WaitGroup
	// ended receives the error of a listener that failed.
	ended chan error
}

// NewLogger returns a logger with the configured level.
func NewLogger(w io.Writer, config Config, format string) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(config.Log.Level)); err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	return telemetry.NewLogger(w, level, format), nil
}

// Open opens the store, checks that binary, schema and master key belong together, and
// returns a node that does not listen yet. now is Clock's, or a test's clock.
func Open(ctx context.Context, config Config, environ []string, log *slog.Logger, now func() time.Time) (*Node, error) {
	if err := checkInsecureSettings(config, log); err != nil {
		return nil, err
	}
	vault, err := OpenVault(config, environ)
	if err != nil {
		return nil, err
	}
	metrics := telemetry.NewMetrics()
	security, err := OpenSecurity(config, log, metrics)
	if err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened {
			_ = security.Close()
		}
	}()
	name := nodeName()
	tracer, err := openTracer(config, name, metrics, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if !opened {
			closeTracer(tracer)
		}
	}()
	recent := &recentCalls{now: now}
	expectProviderCalls(metrics)
	provider, err := openProvider(config, gateway.Config{Trace: traceCalls(tracer), Observe: func(o gateway.Observation) {
		metrics.ProviderCalled(o.What, string(o.Cause), o.Took)
		if slices.Contains(gateway.Orders, o.What) {
			metrics.ProviderOrdered(o.What, o.Outcome.String())
		}
		recent.add(o)
	}})
	if err != nil {
		return nil, err
	}
	store, err := OpenStore(ctx, config, StoreOptions{metrics: metrics, Security: security, Progress: func(text string) {
		log.Info("upgrade of the store", "progress", text)
	}})
	if err != nil {
		return nil, err
	}
	if err := checkAfterDiskFailure(ctx, store, config, log, now); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	registerStoreMetrics(metrics, store, config, now)
	sealed, started, err := unlockAsNode(ctx, store, vault, name, now())
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if started && sealed > 0 {
		log.Warn("staff actions are signed from now on; those before were sealed as they are", "actions", sealed)
	}
	marker, err := openMark(ctx, store, config.Store, markReplica(store), log, now)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	metrics.StoreMarkAge(marker.age)
	if _, replicated := replicaHealth(store); replicated {
		metrics.Replica(func() (lag time.Duration, last time.Time, failures uint64) {
			state, _ := replicaHealth(store)
			if !state.Since.IsZero() {
				lag = time.Since(state.Since)
			}
			return lag, state.LastSuccess, state.Errors
		})
	}
	if err := enterMaintenance(ctx, store, config, log, now); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if err := interruptIdleJobs(ctx, store, log, now()); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	// A SQLite store has one node, so every operation in processing was left by a process
	// that has ended. On PostgreSQL another node may hold it.
	if config.Store.Kind == "sqlite" {
		if err := errors.Join(store.TakeOver(ctx, now()), store.TakeOverBulkJobs(ctx, now()), store.TakeOverACMEOrders(ctx)); err != nil {
			return nil, errors.Join(fmt.Errorf("take over what a process that has ended left open: %w", err), store.Close())
		}
	}
	watch := newClockWatch(store, func() time.Time { return now().Add(-config.Clock.Offset) })
	if watch != nil {
		if err := watch.Check(ctx); err != nil {
			return nil, errors.Join(err, store.Close())
		}
		if err := watch.err(); err != nil {
			log.Error("not ready", "error", err)
		}
	}
	plans := catalogue.New(store, provider, catalogue.Config{
		Now: now, Provider: config.Provider.Name, Refresh: config.Catalogue.Refresh, MaxAge: config.Catalogue.MaxAge,
	})
	breaker := operation.NewBreaker(provider.Probe)
	clientKeys := operation.ClientKeys(vault.DeriveInOrder(operation.ClientKeyPurpose))
	operations := operation.NewProcessor(traceOperations(store, tracer), plans, provider, breaker, operation.Config{
		Now:            now,
		Node:           name,
		ProviderName:   config.Provider.Name,
		Timeout:        config.Provider.Timeout,
		FirstCheck:     config.Review.FirstCheck,
		ActivationTerm: config.Rules.ActivationTerm,
		Fingerprints:   vault.KeysFor(operation.FingerprintPurpose),
		ClientKeys:     clientKeys,
	})
	ring := newKeyring(store, vault, config, environ, name, now, log)
	vault.OnUnknownKey(ring.rereadSoon)
	opened = true
	marker.run()
	return &Node{
		keyring:  ring,
		Security: security,
		name:     name, started: now(), Config: config, Now: now, log: log, Store: store, Vault: vault, metrics: metrics, ClockWatch: watch, marker: marker,
		heads:      metrics.Heads(),
		holds:      metrics.Holds(heldIn),
		places:     newPlacesWatch(config, metrics, log),
		AuditWatch: newAuditWatch(config, func() *audit.Keys { return AuditKeys(vault) }, log, now, metrics),
		Authorizer: access.NewAuthorizer(traceAdmissions(store, tracer), vault, access.AuthorizerConfig{
			FailedAuthPerMinute: config.Limits.FailedAuthPerMinute, OnThrottled: throttlingTo(security),
		}),
		Logins: login.New(store, vault, login.Config{
			Now: now, Idle: config.Panel.Idle, Absolute: config.Panel.Absolute, StaffTOTP: config.Panel.StaffTOTP, Observe: loginsTo(security),
		}),
		Requests: requestlog.New(store, requestlog.Config{
			Keep: config.RequestLog.Keep, Metrics: metrics,
			Problem: func(err error) { log.Warn("write the request log", "error", err) },
		}),
		Catalogue:  plans,
		provider:   provider,
		recent:     recent,
		tracer:     tracer,
		Breaker:    breaker,
		Operations: operations,
		reviewer: operation.NewReviewer(traceOperations(store, tracer), provider, operation.ReviewConfig{
			Now:         now,
			Node:        name,
			Timeout:     config.Provider.Timeout,
			FirstCheck:  config.Review.FirstCheck,
			MaxInterval: config.Review.MaxInterval,
			RefundAfter: config.Review.RefundAfter,
			ClientKeys:  clientKeys,
			OnError:     func(err error) { log.Warn("follow up operations", "error", err) },
			Begin:       traceFollowUps(tracer),
		}),
		bulk: bulk.NewWorker(store, traceRows(operations, tracer), bulk.WorkerConfig{
			Now:     now,
			Node:    name,
			Timeout: config.Provider.Timeout,
			Problem: func(err error) { log.Warn("run bulk renewals", "error", err) },
			Settled: func(state bulk.RowState) { metrics.BulkRowSettled(string(state)) },
		}),
		ended: make(chan error, 3),
	}, nil
}

// OpenProvider returns a client of the provider, and does not call it yet: the service
// must start while the provider is down.
func OpenProvider(config Config, observe func(gateway.Observation)) (*gateway.Gateway, error) {
	return openProvider(config, gateway.Config{Observe: observe})
}

// openProvider adds the settings to a client's hooks.
func openProvider(config Config, client gateway.Config) (*gateway.Gateway, error) {
	if config.Provider.URL == "" {
		return nil, errors.New("provider.url is not set: give the provider's address, such as https://provider.example " +
			"(`coax simulator` runs one to try)")
	}
	var token string
	if config.Provider.TokenFile != "" {
		text, err := os.ReadFile(config.Provider.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("provider.token_file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	client.URL, client.Timeout, client.CAFile, client.Token = config.Provider.URL, config.Provider.Timeout, config.Provider.CA, gateway.Token(token)
	provider, err := gateway.New(client)
	if err != nil {
		return nil, fmt.Errorf("provider.url or provider.ca: %w", err)
	}
	return provider, nil
}

// Listen opens the listeners and serves on them in the background.
func (n *Node) Listen() error {
	var err error
	if err = n.openCertificate(context.Background()); err != nil {
		return err
	}
	if err := n.Catalogue.EnsureCompared(context.Background()); err != nil {
		n.log.Warn("verify prices with the provider", "error", err)
	}
	api := httpapi.New(httpapi.Config{
		Now:          n.Now,
		Authorizer:   n.Authorizer,
		Proxies:      n.Config.Server.TrustedProxies,
		Wallets:      n.Store,
		Plans:        n.Catalogue,
		Operations:   n.Operations,
		ProviderName: n.Config.Provider.Name,
		Log:          n.log,
		Metrics:      n.metrics,
		Requests:     n.Requests,
		Tracer:       n.tracer,
	})
	if n.Site, err = n.pages(); err != nil {
		return err
	}
	n.public = httpapi.NewServer(httpapi.ServerConfig{
		Handler:        api,
		Pages:          n.Site,
		GetCertificate: n.certificate.get,
		ACME:           len(n.Config.Server.ACMEDomains) > 0,
		Proxies:        n.Config.Server.TrustedProxies,
		Log:            n.log,
		Metrics:        n.metrics,
		MaxConnections: n.Config.Server.MaxConnections,
		MaxPerNetwork:  n.Config.Server.MaxConnectionsPerNetwork,
		MaxPerAddress:  n.Config.Server.MaxConnectionsPerAddress,
		WriteTimeout:   n.requestTimeout(),

		HSTSIncludeSubdomains: n.Config.Server.HSTSIncludeSubdomains,
	})
	var profiles http.Handler
	if n.Config.Server.Profiling {
		profiles = httpapi.Profiles()
	}
	n.internal = httpapi.NewInternal(n.ready, n.metrics.Handler(), profiles)
	n.registerNodeMetrics()
	n.private = &http.Server{
		Handler: n.internal, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 60 * time.Second,
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn),
	}

	listeners := []struct {
		key, addr, hint string
		serve           func(net.Listener) error
		bound           *net.Addr
	}{
		{"server.addr", n.Config.Server.Addr, ", or in demo with --addr", n.public.ServeTLS, &n.APIAddr},
		{"server.plain_addr", n.Config.Server.PlainAddr, "", n.public.ServePlain, &n.PlainAddr},
		{"server.internal_addr", n.Config.Server.InternalAddr, "", n.private.Serve, &n.InternalAddr},
	}
	var open []net.Listener
	for _, l := range listeners {
		if l.addr == "" {
			open = append(open, nil)
			continue
		}
		listener, err := net.Listen("tcp", l.addr)
		if err != nil {
			for _, other := range open {
				if other != nil {
					_ = other.Close()
				}
			}
			return fmt.Errorf("%s: listen on %s: %w (is another process there? choose another with --set %s=HOST:PORT%s)", l.key, l.addr, err, l.key, l.hint)
		}
		*l.bound = listener.Addr()
		open = append(open, listener)
	}
	for i, l := range listeners {
		if open[i] == nil {
			continue
		}
		n.background.Go(func() {
			if err := l.serve(open[i]); err != nil && !errors.Is(err, http.ErrServerClosed) {
				n.ended <- fmt.Errorf("%s: %w", l.key, err)
			}
		})
	}
	return nil
}

// requestTimeout bounds a request: two provider calls, and time to store their results.
func (n *Node) requestTimeout() time.Duration { return 2*n.Config.Provider.Timeout + 10*time.Second }

// Serve runs until the context ends or the node cannot go on. Then it drains: requests
// under way are answered, and new ones are not accepted.
func (n *Node) Serve(ctx context.Context) error {
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	n.background.Go(func() { n.sweep(working) })
	n.background.Go(func() { n.Requests.Run(working) })
	sealing, stopSealing := context.WithCancel(ctx)
	defer stopSealing()
	n.background.Go(func() { n.sealLedger(sealing) })
	removing, stopRemoving := context.WithCancel(ctx)
	defer stopRemoving()
	n.background.Go(func() { n.removeOldRows(removing) })
	n.background.Go(func() { n.numberReceipts(removing) })
	n.background.Go(func() { n.watchClock(working) })
	n.background.Go(func() { n.reviewer.Run(working) })
	renewing, stopRenewing := context.WithCancel(ctx)
	defer stopRenewing()
	n.background.Go(func() { n.bulk.Run(renewing) })
	n.background.Go(func() { n.Breaker.Run(working) })
	n.background.Go(func() {
		every(working, measureEvery, func() { measureHolds(working, n.Store, n.Now(), n.holds, n.log) })
	})
	n.background.Go(func() { n.places.run(working) })
	n.background.Go(func() {
		n.Catalogue.Run(working, func(err error) { n.log.Warn("verify prices with the provider", "error", err) })
	})
	auditing, stopAudit := context.WithCancel(ctx)
	defer stopAudit()
	if n.AuditWatch != nil {
		n.background.Go(func() { n.AuditWatch.run(auditing) })
	}
	n.background.Go(func() { n.watchKeyring(working) })
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	daily := time.NewTicker(24 * time.Hour)
	defer daily.Stop()
	polls := time.NewTicker(certificatePoll)
	defer polls.Stop()
	n.background.Go(func() { n.watchCertificate(working, hangup, polls.C, daily.C) })
	ordering, stopOrdering := context.WithCancel(ctx)
	defer stopOrdering()
	if ordered, ok := n.certificate.(*orderedCertificate); ok {
		n.background.Go(func() { ordered.manager.Run(ordering) })
	}
	n.log.Info("serving", "addr", n.APIAddr.String(), "internal_addr", n.InternalAddr.String())

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-n.ended:
	case <-n.Store.Broken():
		cause = errors.Join(errors.New("the store can no longer be written; restart once the disk works again"), n.Store.Ready(working))
	}

	n.log.Info("draining")
	stopAudit()
	stopOrdering()
	stopSealing()
	stopRemoving()
	stopRenewing() // begins no further row; those under way may end within the grace period
	n.internal.Drain()
	grace, cancel := context.WithTimeout(working, n.requestTimeout())
	defer cancel()
	if err := n.public.Shutdown(grace); err != nil {
		n.log.Warn("some requests were cut off", "error", err)
	}
	_ = n.private.Shutdown(grace)
	stopWork()
	n.background.Wait()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), headTimeout)
	defer done()
	n.exportHead(last)
	n.log.Info("stopped")
	return cause
}

// Close closes the store and the logs, whether or not the node ever served.
func (n *Node) Close() error {
	closeTracer(n.tracer)
	n.provider.Close()
	n.keyring.forget()
	n.marker.close()
	return errors.Join(n.Store.Close(), n.Security.Close())
}

// sweep purges old rows at intervals.
func (n *Node) sweep(ctx context.Context) {
	ticker := time.NewTicker(purgeEvery)
	defer ticker.Stop()
	for {
		removed, err := n.Authorizer.Purge(ctx, n.Now())
		n.metrics.RowsPurged("nonces", removed)
		if err != nil && ctx.Err() == nil {
			n.log.Warn("purge nonces and counters", "error", err)
		}
		removed, err = n.Logins.Purge(ctx, n.Now())
		n.metrics.RowsPurged("login_sessions", removed)
		if err != nil && ctx.Err() == nil {
			n.log.Warn("purge sessions and counters of tries", "error", err)
		}
		removed, err = n.Requests.Purge(ctx, n.Now())
		n.metrics.RowsPurged("request_log", removed)
		if err != nil && ctx.Err() == nil {
			n.log.Warn("purge the request log", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
