package console

import (
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
)

const (
	// homeReviews and homeLow limit the lists of the home page.
	homeReviews = 5
	homeLow     = 8
)

type homePage struct {
	Name    string
	Totals  report.Totals
	Health  healthState
	Reviews []report.Review
	Waiting []proposal
	// Reversals is how many wait for a person.
	Reversals int
	// Payments counts the announced payments that are open, PaymentSum adds them up.
	Payments   int
	PaymentSum money.Amount
	// Low are the first operators with a low balance, lowest first; LowCount is the number of all. LowLater: what
	// falls due is added up after the page.
	Low      []report.Account
	LowCount int
	LowLater bool
	second
	rights
}

// Calm reports whether nothing needs attention.
func (p homePage) Calm() bool {
	return len(p.Waiting) == 0 && p.Reversals == 0 && p.Payments == 0 && p.Totals.NeedPerson == 0 && p.Totals.OpenExceptions == 0 &&
		p.Totals.MissingAddons == 0 && p.Health.Well
}

func (c console) home(v *web.Visit) error {
	data := homePage{Name: v.Session.Person.Name, Health: stateOfHealth(c.Health(v.Context())), rights: rightsOf(v)}
	var err error
	if data.Low, data.LowLater, err = c.Reports.LowAccounts(v.Context(), v.ByHTMX() || v.Query("low") == "yes"); err != nil {
		return err
	}
	data.LowCount = len(data.Low)
	data.Low = data.Low[:min(len(data.Low), homeLow)]
	if v.ByHTMX() {
		return v.ShowPart("console/home", "low", data)
	}
	if data.Totals, err = c.Reports.Totals(v.Context()); err != nil {
		return err
	}
	reviews, err := c.Reports.Reviews(v.Context(), "", homeReviews)
	if err != nil {
		return err
	}
	data.Reviews = reviews.Rows
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
	if data.Payments, data.PaymentSum, err = service.OpenAnnouncements(v.Context()); err != nil {
		return err
	}
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
	return v.Show("console/home", data)
}
