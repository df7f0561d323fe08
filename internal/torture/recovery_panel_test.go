package torture

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// panelOperator is an operator whose staff work in the panel: they activate with forms and
// renew in bulk. Their subscribers' mobile numbers begin with 97.
type panelOperator struct {
	r       *recovery
	account *operator
	browser *e2e.Browser
	forms   []*panelForm
	jobs    []*bulkJob
	numbers int
	// continued counts the jobs that were under way when their store was restored.
	continued int
}

// panelForm is a form that was confirmed, with its idempotency key, and the transaction that
// it led to.
type panelForm struct {
	fields      url.Values
	mobile      string
	transaction string
}

// bulkJob is a bulk renewal of subscribers that were imported for it.
type bulkJob struct {
	at      string // its page
	mobiles []string
}

// signIn signs the owner in to the node, which may be another process than before.
func (p *panelOperator) signIn() {
	p.r.t.Helper()
	info := p.r.logins
	info.BaseURL = "https://" + *p.r.node().address.Load() + "/api/v1"
	env := &e2e.Env{TB: p.r.t, Demo: info, HTTP: e2e.NewHTTPClient(p.r.t, filepath.Join(p.r.folder, "ca.pem"))}
	p.browser = env.SignIn(p.r.t, info.Operator)
}

func (p *panelOperator) newMobile() string {
	p.numbers++
	return fmt.Sprintf("97%08d", p.numbers)
}

// fill fills in the form of an activation, up to its confirmation.
func (p *panelOperator) fill() *panelForm {
	p.r.t.Helper()
	form := p.browser.Get("/panel/activate").Shows(p.r.t, http.StatusOK).HiddenFields()
	mobile := p.newMobile()
	for name, value := range map[string]string{"full_name": "Asha Rao", "mobile": mobile, "plan_id": "BASIC-1"} {
		form.Set(name, value)
	}
	f := &panelForm{fields: p.browser.Post("/panel/activate", form).Shows(p.r.t, http.StatusOK).HiddenFields(), mobile: mobile}
	f.fields.Set("step", "confirm")
	return f
}

// confirm sends a form and returns the transaction that it led to; empty if it was refused.
func (p *panelOperator) confirm(f *panelForm) string {
	p.r.t.Helper()
	// The answer to the first confirmation shows the password; a second one leads to the
	// transaction's page.
	p.browser.Post("/panel/activate", f.fields)
	_, id, _ := strings.Cut(p.browser.Post("/panel/activate", f.fields).Location, "/panel/transactions/")
	return id
}

// activate activates a subscriber with a form.
func (p *panelOperator) activate() {
	p.r.t.Helper()
	f := p.fill()
	if f.transaction = p.confirm(f); f.transaction == "" {
		p.r.t.Fatalf("the panel's activation of %s leads to no transaction", f.mobile)
	}
	p.forms = append(p.forms, f)
}

// startBulk imports subscribers and starts their renewal. Of some the provider answers too late,
// so that the renewal is under way for a while.
func (p *panelOperator) startBulk(rows int) {
	p.r.t.Helper()
	job := &bulkJob{}
	file := "lco,subscriber_id,mobile,name,plan_id,expiry\n"
	choice := url.Values{"within": {"7"}}
	for row := range rows {
		mobile := p.newMobile()
		if row%2 == 1 {
			p.r.provider.script(mobile, "timeout_applied")
		}
		job.mobiles = append(job.mobiles, mobile)
		id := "7" + mobile[4:]
		choice.Add("subscriber", id)
		file += fmt.Sprintf("%d,%s,%s,Asha,BASIC-1,%s\n", p.account.id, id, mobile, p.r.now().Add(72*time.Hour).Format(time.DateOnly))
	}
	path := filepath.Join(p.r.t.TempDir(), "subscribers.csv")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		p.r.t.Fatal(err)
	}
	p.r.mustCoax(nil, "admin", "--config", p.r.config, "subscriber", "import", path)
	job.at = p.browser.Post("/panel/bulk", choice).Location
	if !strings.HasPrefix(job.at, "/panel/bulk/") {
		p.r.t.Fatalf("the bulk renewal is at %q", job.at)
	}
	p.browser.Post(job.at+"/start", nil).RedirectsTo(p.r.t, job.at)
	p.jobs = append(p.jobs, job)
}

// finished reports whether a job is through.
func (p *panelOperator) finished(job *bulkJob) bool {
	return strings.Contains(p.browser.Get(job.at).Body, "Finished")
}

// renewed is how many rows of a job the provider has carried out.
func (p *panelOperator) renewed(job *bulkJob) int {
	p.r.t.Helper()
	done, times := 0, p.effects()
	for _, mobile := range job.mobiles {
		if times[mobile] > 0 {
			done++
		}
	}
	return done
}

// effects counts what the provider has carried out for each of the operator's subscribers.
func (p *panelOperator) effects() map[string]int {
	p.r.t.Helper()
	effects := map[string]int{}
	for _, call := range p.r.provider.calls("") {
		if call.Applied && strings.HasPrefix(call.Mobile, "97") {
			effects[call.Mobile]++
		}
	}
	return effects
}

// requireNoSale checks that the panel of a restored store sells nothing: neither a new form nor
// one that is repeated; the bulk jobs are compared by the provider's calls.
func (p *panelOperator) requireNoSale(what string) {
	p.r.t.Helper()
	p.signIn()
	form := p.browser.Get("/panel/activate").Shows(p.r.t, http.StatusOK).HiddenFields()
	f := &panelForm{fields: form, mobile: p.newMobile()}
	for name, value := range map[string]string{"full_name": "Asha Rao", "mobile": f.mobile, "plan_id": "BASIC-1", "step": "confirm", "amount": "199.00"} {
		f.fields.Set(name, value)
	}
	if id := p.confirm(f); id != "" {
		p.r.record.violation(nil, "%s: the panel sells %s before an administrator allowed it", what, id)
	}
	for _, f := range p.forms {
		if id := p.confirm(f); id != "" && id != f.transaction {
			p.r.record.violation(nil, "%s: the form that led to %s leads to %s", what, f.transaction, id)
		}
	}
}

// finish has the staff repeat their forms and continue their jobs, and compares each with
// the provider: every form is its transaction, no row was renewed twice.
func (p *panelOperator) finish() {
	p.r.t.Helper()
	p.signIn()
	for _, f := range p.forms {
		if id := p.confirm(f); id != f.transaction {
			p.r.record.violation(nil, "the panel's form of %s led to %s, and now to %q", f.mobile, f.transaction, id)
		}
	}
	for _, job := range p.jobs {
		page := p.browser.Get(job.at)
		if page.Status != http.StatusOK {
			p.r.record.violation(nil, "the bulk job %s is not found (%d)", job.at, page.Status)
			continue
		}
		if strings.Contains(page.Body, job.at+"/continue") {
			p.browser.Post(job.at+"/continue", nil)
			p.continued++
		}
		if !within(timeout/4, 50*time.Millisecond, func() bool {
			page = p.browser.Get(job.at)
			return strings.Contains(page.Body, "Finished")
		}) {
			p.r.record.violation(nil, "the bulk job %s does not finish:\n%s", job.at, page.Body)
		}
	}
	p.compare()
}

// compare compares the operator's wallet and its subscribers with the provider.
func (p *panelOperator) compare() {
	p.r.t.Helper()
	var wallet map[string]any
	within(timeout/4, pollPause, func() bool { // until rows in review are settled
		wallet = p.r.admin("wallet", "show", "--lco", fmt.Sprint(p.account.id))
		return fmt.Sprint(wallet["held"]) == "0.00"
	})
	const price = 199_00
	sold, times := 0, p.effects()
	check := func(mobile string, least int) {
		sold += times[mobile]
		if times[mobile] < least || times[mobile] > 1 {
			p.r.record.violation(nil, "the provider carried out %d orders for %s; want 1", times[mobile], mobile)
		}
		delete(times, mobile)
	}
	for _, f := range p.forms {
		check(f.mobile, 1)
	}
	for _, job := range p.jobs {
		for _, mobile := range job.mobiles {
			// A row that a kill has hit before the provider heard of it is refunded.
			check(mobile, 0)
		}
	}
	for mobile, n := range times {
		p.r.record.violation(nil, "the provider carried out %d orders for %s, which nobody ordered", n, mobile)
	}
	if has, want := paise(p.r.t, fmt.Sprint(wallet["wallet_balance"])), p.account.paidIn-int64(sold)*price; has != want || fmt.Sprint(wallet["held"]) != "0.00" {
		p.r.record.violation(nil, "the panel's operator has %v; its %d sales leave %d paise", wallet, sold, want)
	}
}
