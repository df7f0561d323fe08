package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/demohistory"
	"github.com/coaxhq/coax/internal/operation"
)

// impatience is how long the demo's history waits where no answer will come.
const impatience = 500 * time.Millisecond

// beginning is how a demo's operator comes into the world: now and with the
// opening balance, or three months ago and with a history to come.
type beginning struct {
	actor   string
	now     func() time.Time
	history bool
}

// fromNow is the beginning of a demo without a history.
func fromNow(n *node) beginning { return beginning{actor: "demo", now: n.now} }

// beginningOf finds out how a demo begins, or began. A history that an earlier
// start was ended over is gone on with, whether or not it is asked for again:
// half of one would be nobody's demo.
func (a *app) beginningOf(ctx context.Context, n *node, ownProvider, wanted bool) (beginning, error) {
	fresh := fromNow(n)
	state, began, err := demohistory.Examine(ctx, n.store)
	if err != nil {
		return fresh, err
	}
	switch {
	case state == demohistory.Begun:
	case !wanted:
		return fresh, nil
	case state == demohistory.Possible:
		began = n.now().Add(-demohistory.Length)
	case state == demohistory.Impossible:
		fmt.Fprintln(a.err, "This demo was begun without a history and stays as it is: --history is for a new one, in another --dir.")
		return fresh, nil
	default:
		return fresh, nil
	}
	if !ownProvider {
		return fresh, errors.New("a demo's history is made with its own simulator: leave provider.url alone, or leave out --history")
	}
	return beginning{actor: demohistory.Maker, now: func() time.Time { return began }, history: true}, nil
}

// fillHistory makes up the three months behind a demo that was just furnished.
func (a *app) fillHistory(ctx context.Context, n *node, provider *runningSimulator, begins time.Time) error {
	hasty := n.config
	hasty.Provider.Timeout = impatience
	impatient, err := openProvider(hasty, nil)
	if err != nil {
		return err
	}
	defer impatient.Close()
	patient, err := openProvider(n.config, nil)
	if err != nil {
		return err
	}
	defer patient.Close()
	return demohistory.Fill(ctx, demohistory.Config{
		Store: n.store, Vault: n.vault, Provider: patient, Impatient: impatient, Source: patient, Simulator: provider.Simulator, Requests: n.requests,
		ProviderName: n.config.Provider.Name, Timeout: n.config.Provider.Timeout,
		FirstCheck: n.config.Review.FirstCheck, MaxInterval: n.config.Review.MaxInterval, RefundAfter: n.config.Review.RefundAfter,
		ActivationTerm: n.config.Rules.ActivationTerm,
		Fingerprints:   operation.Fingerprints{Keys: n.vault.Derive("body fingerprint"), Current: n.vault.PrimaryID()},
		Now:            n.now,
		Progress: func(p demohistory.Progress) {
			fmt.Fprintf(a.err, "Making up a history: day %d of %d, %d operations\n", p.Days, p.Of, p.Operations)
		},
	}, begins)
}
