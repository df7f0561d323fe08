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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
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
	// Security is where security events go.
	Security *telemetry.Security
	// Requests is the log that operators search for their calls.
	Requests *requestlog.Log

	Catalogue  *catalogue.Catalogue
	provider   *gateway.Gateway
	recent     *recentCalls
	Operations *operation.Processor
	reviewer   *operation.Reviewer
	Breaker    *operation.Breaker
	bulk       *bulk.Worker
	ClockWatch *clockWatch // nil if the store has no clock of its own
	AuditWatch *auditWatch // nil if audit.every is 0

	certificate *certificate
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
	recent := &recentCalls{now: now}
	provider, err := OpenProvider(config, func(o gateway.Observation) {
		metrics.ProviderCalled(o.What, string(o.Cause))
		recent.add(o)
	})
	if err != nil {
		return nil, err
	}
	store, err := OpenStore(ctx, config, StoreOptions{observe: &batches{metrics}, Security: security})
	if err != nil {
		return nil, err
	}
	if err := checkAfterDiskFailure(ctx, store, config, log, now); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	metrics.StoreQueue(store.Queued)
	metrics.ReviewsOverdue(func() (int, error) { return countOverdue(store, now()) })
	metrics.Maintenance(func() (int, error) { return maintenanceOn(store) })
	metrics.BulkJobsInterrupted(func() (int, error) { return countInterruptedJobs(store) })
	metrics.BulkJobsOpen(func() (int, error) { return countOpenJobs(store) })
	sealed, started, err := UnlockStore(ctx, store, vault, now())
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if started && sealed > 0 {
		log.Warn("staff actions are signed from now on; those before were sealed as they are", "actions", sealed)
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
		if err := errors.Join(store.TakeOver(ctx, now()), store.TakeOverBulkJobs(ctx, now())); err != nil {
			return nil, errors.Join(fmt.Errorf("take over open operations: %w", err), store.Close())
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
	name := nodeName()
	operations := operation.NewProcessor(store, plans, provider, breaker, operation.Config{
		Now:            now,
		Node:           name,
		ProviderName:   config.Provider.Name,
		Timeout:        config.Provider.Timeout,
		FirstCheck:     config.Review.FirstCheck,
		ActivationTerm: config.Rules.ActivationTerm,
		Fingerprints:   operation.Fingerprints{Keys: vault.Derive("body fingerprint"), Current: vault.PrimaryID()},
	})
	opened = true
	return &Node{
		Security: security,
		name:     name, started: now(), Config: config, Now: now, log: log, Store: store, Vault: vault, metrics: metrics, ClockWatch: watch,
		heads:      metrics.Heads(),
		AuditWatch: newAuditWatch(config, AuditKeys(vault), log, now, metrics),
		Authorizer: access.NewAuthorizer(store, vault, access.AuthorizerConfig{
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
		Breaker:    breaker,
		Operations: operations,
		reviewer: operation.NewReviewer(store, provider, operation.ReviewConfig{
			Now:         now,
			Node:        name,
			Timeout:     config.Provider.Timeout,
			FirstCheck:  config.Review.FirstCheck,
			MaxInterval: config.Review.MaxInterval,
			RefundAfter: config.Review.RefundAfter,
			OnError:     func(err error) { log.Warn("follow up operations", "error", err) },
		}),
		bulk: bulk.NewWorker(store, operations, bulk.WorkerConfig{
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
	provider, err := gateway.New(gateway.Config{
		URL: config.Provider.URL, Timeout: config.Provider.Timeout, CAFile: config.Provider.CA, Token: gateway.Token(token),
		Observe: observe,
	})
	if err != nil {
		return nil, fmt.Errorf("provider.url or provider.ca: %w", err)
	}
	return provider, nil
}

// nodeName returns a name that no other process on the store has.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	// Containers share a process id, and sometimes a host name.
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), client.NewNonce()[:8])
}

// batches records the writer's batches in the metrics.
type batches struct{ metrics *telemetry.Metrics }

func (b batches) Batch(writes int) func() {
	watch := telemetry.StartStopwatch()
	return func() { b.metrics.BatchCommitted(writes, watch.Elapsed()) }
}

// Listen opens the listeners and serves on them in the background.
func (n *Node) Listen() error {
	var err error
	if n.certificate, err = loadCertificate(n.Config.Server.TLSCert, n.Config.Server.TLSKey); err != nil {
		return err
	}
	n.metrics.CertificateExpires(n.certificate.expires)
	n.reportExpiry(time.Now()) // Open has logged the key's mode
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
	})
	if n.Site, err = n.pages(); err != nil {
		return err
	}
	n.public = httpapi.NewServer(httpapi.ServerConfig{
		Handler:        api,
		Pages:          n.Site,
		GetCertificate: n.certificate.get,
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
	n.background.Go(func() { n.watchClock(working) })
	n.background.Go(func() { n.reviewer.Run(working) })
	renewing, stopRenewing := context.WithCancel(ctx)
	defer stopRenewing()
	n.background.Go(func() { n.bulk.Run(renewing) })
	n.background.Go(func() { n.Breaker.Run(working) })
	n.background.Go(func() {
		n.Catalogue.Run(working, func(err error) { n.log.Warn("verify prices with the provider", "error", err) })
	})
	auditing, stopAudit := context.WithCancel(ctx)
	defer stopAudit()
	if n.AuditWatch != nil {
		n.background.Go(func() { n.AuditWatch.run(auditing) })
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	daily := time.NewTicker(24 * time.Hour)
	defer daily.Stop()
	n.background.Go(func() { n.watchCertificate(working, hangup, daily.C) })
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
	stopSealing()
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
	n.provider.Close()
	return errors.Join(n.Store.Close(), n.Security.Close())
}

// sweep purges old rows at intervals.
func (n *Node) sweep(ctx context.Context) {
	ticker := time.NewTicker(purgeEvery)
	defer ticker.Stop()
	for {
		removed, err := n.Authorizer.Purge(ctx, n.Now())
		n.metrics.RowsPurged(removed)
		if err != nil && ctx.Err() == nil {
			n.log.Warn("purge nonces and counters", "error", err)
		}
		removed, err = n.Logins.Purge(ctx, n.Now())
		n.metrics.RowsPurged(removed)
		if err != nil && ctx.Err() == nil {
			n.log.Warn("purge sessions and counters of tries", "error", err)
		}
		removed, err = n.Requests.Purge(ctx, n.Now())
		n.metrics.RowsPurged(removed)
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
