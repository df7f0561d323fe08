package console

import (
	"cmp"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
)

const (
	// homeReviews and homeLow limit the lists of the home page.
	homeReviews = 5
	homeLow     = 8
	// homeAccounts is the number of operators that are checked for low balances.
	homeAccounts = 500
)

type homePage struct {
	Name    string
	Totals  report.Totals
	Health  healthState
	Reviews []report.Review
	Waiting []proposal
	// Reversals is how many wait for a person.
	Reversals int
	// Low are the operators with a low balance, lowest first; LowCount is their number.
	Low      []report.Account
	LowCount int
	second
	rights
}

// Calm reports whether nothing needs attention.
func (p homePage) Calm() bool {
	return len(p.Waiting) == 0 && p.Reversals == 0 && p.Totals.NeedPerson == 0 && p.Totals.OpenExceptions == 0 &&
		p.Totals.MissingAddons == 0 && p.Health.Well
}

func (c console) home(v *web.Visit) error {
	data := homePage{Name: v.Session.Person.Name, Health: stateOfHealth(c.Health(v.Context())), rights: rightsOf(v)}
	var err error
	if data.Totals, err = c.Reports.Totals(v.Context()); err != nil {
		return err
	}
	if data.Reviews, err = c.Reports.Reviews(v.Context(), homeReviews); err != nil {
		return err
	}
	reversals, err := c.openReversals(v)
	if err != nil {
		return err
	}
	for _, r := range reversals {
		if r.NeedsPerson && !r.Proposed {
			data.Reversals++
		}
	}
	service := c.service(v)
	open, err := service.Proposals(v.Context(), admin.ProposalFilter{Open: true, Limit: proposalRows})
	if err != nil {
		return err
	}
	if data.Waiting, err = c.seen(v, open); err != nil {
		return err
	}
	if data.second, err = c.second(v); err != nil {
		return err
	}
	accounts, err := c.Reports.Accounts(v.Context(), report.AccountFilter{Status: subscription.OperatorActive, Limit: homeAccounts})
	if err != nil {
		return err
	}
	for _, account := range accounts.Rows {
		if !account.Wallet.Low() {
			continue
		}
		data.Low = append(data.Low, account)
	}
	data.LowCount = len(data.Low)
	slices.SortFunc(data.Low, func(a, b report.Account) int { return cmp.Compare(a.Wallet.Balance.Paise(), b.Wallet.Balance.Paise()) })
	data.Low = data.Low[:min(len(data.Low), homeLow)]
	return v.Show("console/home", data)
}
