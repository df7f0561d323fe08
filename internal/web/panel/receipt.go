package panel

import (
	"net/http"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const (
	receiptPath = "/panel/transactions/{id}/receipt"
	detailsPath = "/panel/receipt-details"
	// jobReceiptsPath has the receipts of all that a bulk renewal has bought.
	jobReceiptsPath = "/panel/bulk/{id}/receipts"
	// sharedPath is short, because it is sent in messages.
	sharedPath = "/r/{link}"
)

func (p panel) receiptRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: receiptPath, Area: web.Panel, Allow: everyone, Handle: p.showReceipt},
		{Method: http.MethodPost, Path: receiptPath, Area: web.Panel, Allow: counters, Handle: p.printReceipt},
		{Method: http.MethodGet, Path: jobReceiptsPath, Area: web.Panel, Allow: everyone, Handle: p.showJobReceipts},
		{Method: http.MethodPost, Path: jobReceiptsPath, Area: web.Panel, Allow: counters, Handle: p.printJobReceipts},
		{Method: http.MethodGet, Path: sharedPath, Area: web.Account, Allow: web.Anyone, Handle: p.showShared},
		{Method: http.MethodGet, Path: detailsPath, Area: web.Panel, Allow: owners, Under: peoplePath, Handle: p.showReceiptDetails},
		{Method: http.MethodPost, Path: detailsPath, Area: web.Panel, Allow: owners, Handle: p.setReceiptDetails},
	}
}

// The papers that a receipt is printed on: a sheet, and the roll of a thermal printer.
const (
	sheetPaper = "a4"
	rollPaper  = "80mm"
)

// paperOf returns a paper that there is: the sheet unless it is the roll.
func paperOf(name string) string {
	if name == rollPaper {
		return rollPaper
	}
	return sheetPaper
}

// receiptCopy is one receipt on the screen or on paper.
type receiptCopy struct {
	receipt.Receipt
	Paper string
	// Mark says what kind of copy it is, in English; empty for the first print.
	Mark string
	// Duplicate: it was printed or sent before.
	Duplicate bool
	// Uncounted: printed as it is, it counts as no print unless a script counts it.
	Uncounted bool
}

// printout is the receipts of a page, and how they are printed.
type printout struct {
	Copies []receiptCopy
	Paper  string
	// Path is where a print is counted.
	Path string
	// Printable: the visitor may print. Printing: this is a print, which has been counted.
	Printable, Printing bool
}

func (o *printout) add(r receipt.Receipt) {
	c := receiptCopy{Receipt: r, Paper: o.Paper, Duplicate: !r.PrintedAt.IsZero(), Uncounted: !o.Printing}
	if c.Duplicate {
		c.Mark = look.Text("Duplicate")
	}
	o.Copies = append(o.Copies, c)
}

// Duplicates is how many of the receipts were printed or sent before.
func (o *printout) Duplicates() (n int) {
	for _, c := range o.Copies {
		if c.Duplicate {
			n++
		}
	}
	return n
}

// preview returns a printout to be looked at, and print one that is being printed.
func preview(v *web.Visit, route string) *printout {
	return &printout{Path: v.R.URL.Path, Paper: paperOf(v.Paper()), Printable: v.May(http.MethodPost, route)}
}

func printing(v *web.Visit) *printout {
	return &printout{Path: v.R.URL.Path, Paper: paperOf(v.Field("paper")), Printable: true, Printing: true}
}

// showPrint answers a form that has counted a print. The script of the page takes the receipts alone,
// or nothing: what the browser's own menu prints, and what is sent, is counted beside it.
func (o *printout) showPrint(v *web.Visit, page string, data any) error {
	if v.Field("step") == "count" {
		v.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	v.RememberPaper(o.Paper)
	if v.ByHTMX() {
		return v.ShowPart(page, "receipts", data)
	}
	return v.Show(page, data)
}

// receiptPage is a receipt on the screen, on paper, or behind a link.
type receiptPage struct {
	receipt.Receipt
	*printout
	// Link is the address that a customer can open until LinkEnds, WhatsApp opens a message with it.
	Link, WhatsApp string
	LinkEnds       time.Time
}

// HasReceipt reports whether the customer of an operation gets a receipt.
func (e entry) HasReceipt() bool { return e.State == operation.Success }

// HasReceipt reports whether the customer of an operation gets a receipt.
func (r transactionRow) HasReceipt() bool { return r.State == operation.Success }

func (p panel) showReceipt(v *web.Visit) error {
	r, found, err := p.Receipts.Receipt(v.Context(), v.Operator(), v.R.PathValue("id"))
	if err != nil {
		return err
	}
	if !found {
		return web.NotFound()
	}
	page := receiptPage{Receipt: r, printout: preview(v, receiptPath)}
	page.add(r)
	if link, ends, ok := p.Links.Make(r.TransactionID); ok {
		// It opens in the language of the message that it is sent with.
		page.Link, page.LinkEnds = v.Origin()+strings.Replace(sharedPath, "{link}", link, 1)+"?lang="+v.Language(), ends
	}
	if page.Link != "" && r.ReversedAt.IsZero() {
		page.WhatsApp = r.WhatsApp(v.T("%s received for %s, valid until %s. Receipt from %s: %s",
			look.Rupees(r.Amount), r.Plan, v.Look.Day(v.Language(), r.Until), r.Operator, page.Link))
	}
	return v.Show("panel/receipt", page)
}

// printReceipt counts a print, so that later ones are duplicates, and shows the receipt as it is printed.
func (p panel) printReceipt(v *web.Visit) error {
	r, found, err := p.Receipts.PrintReceipt(lasting(v), v.Operator(), v.R.PathValue("id"), v.Actor(), p.Now())
	if err != nil {
		return err
	}
	if !found {
		return web.NotFound()
	}
	page := receiptPage{Receipt: r, printout: printing(v)}
	page.add(r)
	return page.showPrint(v, "panel/receipt", page)
}

// jobReceiptsPage is the receipts of a bulk renewal.
type jobReceiptsPage struct {
	Job bulk.Job
	*printout
}

// receiptsAtOnce is how many receipts of a bulk renewal one statement reads or counts.
const receiptsAtOnce = 200

// addJob adds all receipts of a bulk renewal; it has at most as many as a list has rows.
func (o *printout) addJob(job bulk.Job, read func(receipt.JobPart) ([]receipt.JobReceipt, error)) error {
	for after := 0; ; {
		some, err := read(receipt.JobPart{OperatorID: job.OperatorID, JobID: job.ID, After: after, Limit: receiptsAtOnce})
		if err != nil {
			return err
		}
		for _, r := range some {
			o.add(r.Receipt)
			after = r.Row
		}
		if len(some) < receiptsAtOnce {
			return nil
		}
	}
}

func (p panel) showJobReceipts(v *web.Visit) error {
	job, err := p.job(v)
	if err != nil {
		return err
	}
	page := jobReceiptsPage{job, preview(v, jobReceiptsPath)}
	err = page.addJob(job, func(part receipt.JobPart) ([]receipt.JobReceipt, error) {
		return p.Receipts.JobReceipts(v.Context(), part)
	})
	if err != nil {
		return err
	}
	return v.Show("panel/bulk-receipts", page)
}

// printJobReceipts is printReceipt for all receipts of a bulk renewal.
func (p panel) printJobReceipts(v *web.Visit) error {
	job, err := p.job(v)
	if err != nil {
		return err
	}
	page, now := jobReceiptsPage{job, printing(v)}, p.Now()
	err = page.addJob(job, func(part receipt.JobPart) ([]receipt.JobReceipt, error) {
		return p.Receipts.PrintJobReceipts(lasting(v), part, v.Actor(), now)
	})
	if err != nil {
		return err
	}
	return page.showPrint(v, "panel/bulk-receipts", page)
}

// showShared shows a receipt to whoever has its link. A link that is not ours, one that has ended,
// and one whose receipt is gone look the same, and the first two take no look at the store.
func (p panel) showShared(v *web.Visit) error {
	v.WithoutNavigation()
	v.InLanguage(v.Query("lang"))
	header := v.W.Header()
	header.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	header.Set("Referrer-Policy", "no-referrer")
	unknown := &web.Problem{Status: http.StatusNotFound, Text: look.Text("This link is not valid any more. Ask for a new one where you paid.")}
	id, ends, ok := p.Links.Open(v.R.PathValue("link"))
	if !ok {
		return unknown
	}
	r, found, err := p.Receipts.Receipt(v.Context(), 0, id)
	if err != nil {
		return err
	}
	if !found {
		return unknown
	}
	page := receiptPage{Receipt: r, printout: &printout{}, LinkEnds: ends}
	page.Copies = []receiptCopy{{Receipt: r, Paper: sheetPaper, Mark: look.Text("Electronic copy")}}
	return v.Show("panel/receipt-shared", page)
}

// receiptDetailsPage is the form for what receipts say about the operator.
type receiptDetailsPage struct {
	Operator       subscription.Operator
	Address, GSTIN string
	Problem        string
}

func (p panel) showReceiptDetails(v *web.Visit) error { return p.receiptDetailsForm(v, "") }

func (p panel) receiptDetailsForm(v *web.Visit, problem string) error {
	operator, err := p.service(v).Operator(v.Context())
	if err != nil {
		return err
	}
	if problem != "" {
		v.Status = http.StatusUnprocessableEntity
	}
	return v.Show("panel/receipt-details", receiptDetailsPage{
		Operator: operator, Address: v.FormValue("address", operator.Address), GSTIN: v.FormValue("gstin", operator.GSTIN), Problem: problem,
	})
}

func (p panel) setReceiptDetails(v *web.Visit) error {
	_, err := p.service(v).SetReceiptDetails(lasting(v), v.Field("address"), subscription.ReadGSTIN(v.Field("gstin")))
	if why := told(v, err); why != "" {
		return p.receiptDetailsForm(v, why)
	}
	if err != nil {
		return err
	}
	return v.Redirect(detailsPath, v.Success("Saved. Receipts show it now."))
}
