package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coaxhq/coax/internal/demohistory"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/server"
)

// shortTimeout is the provider timeout for calls that the simulator will not answer.
const shortTimeout = 500 * time.Millisecond

// start is when a demo's operator is created, and by which actor: now with the opening
// balance, or three months ago with a history to be made.
type start struct {
	actor   string
	Now     func() time.Time
	History bool
}

// startNow returns the start of a demo without a history.
func startNow(n *server.Node) start { return start{actor: "demo", Now: n.Now} }

// FindStart returns the start of a demo, new or existing. An incomplete history is
// continued, also without --history.
func FindStart(ctx context.Context, n *server.Node, notice io.Writer, ownProvider, wanted bool) (start, error) {
	now := startNow(n)
	state, began, err := demohistory.Examine(ctx, n.Store)
	if err != nil {
		return now, err
	}
	switch {
	case state == demohistory.Incomplete:
	case !wanted:
		return now, nil
	case state == demohistory.Possible:
		began = n.Now().Add(-demohistory.Length)
	case state == demohistory.Impossible:
		fmt.Fprintln(notice, "This demo was created without a history and stays as it is: --history is for a new one, in another --dir.")
		return now, nil
	default:
		return now, nil
	}
	if !ownProvider {
		return now, errors.New("a demo's history is made with its own simulator: leave provider.url alone, or leave out --history")
	}
	return start{actor: demohistory.Actor, Now: func() time.Time { return began }, History: true}, nil
}

// FillHistory makes the three months of history of a demo that was just set up.
func FillHistory(ctx context.Context, n *server.Node, provider *RunningSimulator, begins time.Time, progress io.Writer) error {
	short := n.Config
	short.Provider.Timeout = shortTimeout
	shortProvider, err := server.OpenProvider(short, nil)
	if err != nil {
		return err
	}
	defer shortProvider.Close()
	gateway, err := server.OpenProvider(n.Config, nil)
	if err != nil {
		return err
	}
	defer gateway.Close()
	return demohistory.Fill(ctx, demohistory.Config{
		Store: n.Store, Vault: n.Vault, Provider: gateway, ShortTimeout: shortProvider, Source: gateway, Simulator: provider.Simulator, Requests: n.Requests,
		ProviderName: n.Config.Provider.Name, Timeout: n.Config.Provider.Timeout,
		FirstCheck: n.Config.Review.FirstCheck, MaxInterval: n.Config.Review.MaxInterval, RefundAfter: n.Config.Review.RefundAfter,
		ActivationTerm: n.Config.Rules.ActivationTerm,
		Fingerprints:   n.Vault.KeysFor(operation.FingerprintPurpose),
		ClientKeys:     operation.ClientKeys(n.Vault.DeriveInOrder(operation.ClientKeyPurpose)),
		Now:            n.Now,
		Progress: func(p demohistory.Progress) {
			fmt.Fprintf(progress, "Making up a history: day %d of %d, %d operations\n", p.Days, p.Of, p.Operations)
		},
	}, begins)
}
