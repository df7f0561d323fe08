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

// impatience is how long the demo's history waits where no answer will come.
const impatience = 500 * time.Millisecond

// beginning is how a demo's operator comes into the world: now and with the
// opening balance, or three months ago and with a history to come.
type beginning struct {
	actor   string
	Now     func() time.Time
	History bool
}

// fromNow is the beginning of a demo without a history.
func fromNow(n *server.Node) beginning { return beginning{actor: "demo", Now: n.Now} }

// BeginningOf finds out how a demo begins, or began. A history that an earlier
// start was ended over is gone on with, whether or not it is asked for again:
// half of one would be nobody's demo.
func BeginningOf(ctx context.Context, n *server.Node, notice io.Writer, ownProvider, wanted bool) (beginning, error) {
	fresh := fromNow(n)
	state, began, err := demohistory.Examine(ctx, n.Store)
	if err != nil {
		return fresh, err
	}
	switch {
	case state == demohistory.Begun:
	case !wanted:
		return fresh, nil
	case state == demohistory.Possible:
		began = n.Now().Add(-demohistory.Length)
	case state == demohistory.Impossible:
		fmt.Fprintln(notice, "This demo was begun without a history and stays as it is: --history is for a new one, in another --dir.")
		return fresh, nil
	default:
		return fresh, nil
	}
	if !ownProvider {
		return fresh, errors.New("a demo's history is made with its own simulator: leave provider.url alone, or leave out --history")
	}
	return beginning{actor: demohistory.Maker, Now: func() time.Time { return began }, History: true}, nil
}

// FillHistory makes up the three months behind a demo that was just furnished.
func FillHistory(ctx context.Context, n *server.Node, provider *RunningSimulator, begins time.Time, progress io.Writer) error {
	hasty := n.Config
	hasty.Provider.Timeout = impatience
	impatient, err := server.OpenProvider(hasty, nil)
	if err != nil {
		return err
	}
	defer impatient.Close()
	patient, err := server.OpenProvider(n.Config, nil)
	if err != nil {
		return err
	}
	defer patient.Close()
	return demohistory.Fill(ctx, demohistory.Config{
		Store: n.Store, Vault: n.Vault, Provider: patient, Impatient: impatient, Source: patient, Simulator: provider.Simulator, Requests: n.Requests,
		ProviderName: n.Config.Provider.Name, Timeout: n.Config.Provider.Timeout,
		FirstCheck: n.Config.Review.FirstCheck, MaxInterval: n.Config.Review.MaxInterval, RefundAfter: n.Config.Review.RefundAfter,
		ActivationTerm: n.Config.Rules.ActivationTerm,
		Fingerprints:   operation.Fingerprints{Keys: n.Vault.Derive("body fingerprint"), Current: n.Vault.PrimaryID()},
		Now:            n.Now,
		Progress: func(p demohistory.Progress) {
			fmt.Fprintf(progress, "Making up a history: day %d of %d, %d operations\n", p.Days, p.Of, p.Operations)
		},
	}, begins)
}
