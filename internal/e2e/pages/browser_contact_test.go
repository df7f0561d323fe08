package pages

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// Contact data from the counter: edited in a browser, told to the provider, found by last digits,
// filtered, sorted, exported, and printed as a due list whose sums are those of the file.
func TestBrowser_ContactData(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(4)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")
	b := w.SignIn(t, w.Demo.Operator)

	one := "/panel/subscribers/" + ids[0]
	tab.Open(w.URL(one + "/contact"))
	tab.Sees("The mobile number cannot be changed")
	tab.Check("panel-contact")
	tab.Fill("Name", "Devi Menon")
	tab.Fill("Area", "Ward 4")
	tab.Fill("Address", "7 Lake Road")
	tab.Fill("Box number", "STB-77123")
	tab.Fill("Notes", "rings twice")
	tab.Press("Save")
	tab.Sees("The provider has this contact data")
	tab.Sees("Changes of contact data")
	tab.Sees("rings twice")
	tab.Check("panel-subscriber-contact")
	b.Post("/panel/subscribers/"+ids[1]+"/contact", contactForm(b, ids[1], url.Values{"area": {"ward 4"}})).Shows(t, http.StatusSeeOther)
	b.Post("/panel/subscribers/"+ids[2]+"/contact", contactForm(b, ids[2], url.Values{"area": {"Hill"}})).Shows(t, http.StatusSeeOther)

	for _, page := range []string{"/panel/activate", one + "/contact"} {
		b.Get(page).Shows(t, http.StatusOK, `list="areas"`, `<option value="Hill"></option>`)
	}

	tab.Open(w.URL("/panel/subscribers"))
	tab.Check("panel-subscribers-filters")
	tab.Set("Search", "123")
	tab.Until("one is found by the last digits of its box number", `document.querySelectorAll("#list tbody tr").length === 1 && document.querySelector("#list tbody").textContent.includes("Devi Menon")`)
	tab.WaitFor(`#list a[href^="tel:+91"]`)
	tab.Open(w.URL("/panel/subscribers?show=active&area=Ward+4&plan=BASIC-1"))
	tab.Until("two are left", `document.querySelectorAll("#list tbody tr").length === 2`)
	tab.Click(`th a[href*="sort=expiry"]`)
	tab.Until("the header says how it is sorted", `document.querySelector('th[aria-sort="ascending"]').textContent.includes("Expires")`)

	rows := csvRows(t, b.Get("/panel/subscribers/export/csv?show=active&area=Ward+4&plan=BASIC-1&sort=expiry"))
	if len(rows) != 3 || rows[1][3] != "Ward 4" && rows[2][3] != "Ward 4" {
		t.Errorf("the file is %q; want a title and the two of the area", rows)
	}

	tab.Open(w.URL("/panel/subscribers/list/due?within=30&ended=none"))
	tab.Sees("Sum of all areas")
	tab.Check("panel-due")
	due := csvRows(t, b.Get("/panel/subscribers/list/due/export/csv?within=30&ended=none"))
	list := csvRows(t, b.Get("/panel/subscribers/export/csv?show=active"))
	page := b.Get("/panel/subscribers/list/due?within=30&ended=none").Shows(t, http.StatusOK, "Hill", "Without an area", "7 Lake Road")
	sum := func(rows [][]string) (paise int) {
		for _, row := range rows[1:] {
			var rupees, part int
			if _, err := fmt.Sscanf(row[7], "%d.%02d", &rupees, &part); err != nil {
				t.Fatalf("price %q: %v", row[7], err)
			}
			paise += rupees*100 + part
		}
		return paise
	}
	if len(due) != len(list) || sum(due) != sum(list) || sum(due) == 0 {
		t.Errorf("%d due with %d paise; the list has %d with %d", len(due)-1, sum(due), len(list)-1, sum(list))
	}
	if want := fmt.Sprintf("₹%d.%02d", sum(due)/100, sum(due)%100); !strings.Contains(strings.ReplaceAll(page.Body, ",", ""), want) {
		t.Errorf("the page does not have the sum %s", want)
	}
	b.Get("/panel/statement?from=2020-01-01").Shows(t, http.StatusOK)
}

// contactForm is the form of a subscriber's contact data with some fields changed.
func contactForm(b *e2e.Browser, id string, changed url.Values) url.Values {
	form := b.Get("/panel/subscribers/" + id + "/contact").HiddenFields()
	form.Set("full_name", "Customer "+id)
	for name, values := range changed {
		form[name] = values
	}
	return form
}

func csvRows(t *testing.T, file e2e.Page) [][]string {
	t.Helper()
	file.Shows(t, http.StatusOK)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(file.Body, "\ufeff"))).ReadAll()
	if err != nil {
		t.Fatalf("%v:\n%s", err, file.Body)
	}
	return rows
}

// An edit stays, whatever the provider makes of it, and its page says what that was.
func TestContact_ProviderDoesNotTakeIt(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(1)
	b := w.SignIn(t, w.Demo.Operator)
	one := "/panel/subscribers/" + ids[0]
	detail, found, err := w.Node.Store.Contact(t.Context(), w.DemoCaller().OperatorID, ids[0], 1)
	if err != nil || !found {
		t.Fatalf("%v, %v", found, err)
	}
	save := func(area string) {
		t.Helper()
		b.Post(one+"/contact", contactForm(b, ids[0], url.Values{"area": {area}})).Shows(t, http.StatusSeeOther)
	}

	w.ScriptProvider(detail.Mobile, "gateway_error")
	save("Ward 1")
	b.Get(one).Shows(t, http.StatusOK, "Ward 1", "has not confirmed this contact data yet", "Tell the provider again")
	b.Post(one+"/contact/tell", url.Values{}).Shows(t, http.StatusSeeOther)
	b.Get(one).Shows(t, http.StatusOK, "The provider has this contact data")

	w.ScriptProvider(detail.Mobile, "reject")
	save("Ward 2")
	b.Get(one).Shows(t, http.StatusOK, "Ward 2", "did not take this contact data: The provider does not accept this order.", "Tell the provider again")

	// A form that is older than the latest change saves nothing, and shows that change.
	old := contactForm(b, ids[0], url.Values{"area": {"Ward 9"}})
	save("Ward 3")
	b.Post(one+"/contact", old).Shows(t, http.StatusConflict, "Somebody has changed this customer", "Ward 3", `value="Ward 9"`)
	if page := b.Get(one).Shows(t, http.StatusOK, "Ward 3"); strings.Contains(page.Body, "Ward 9") {
		t.Error("an edit of an older version was saved")
	}
	b.Post(one+"/contact", contactForm(b, ids[0], url.Values{"box_number": {"no box"}})).Shows(t, http.StatusUnprocessableEntity, "letters, digits and hyphens only")

	// Renewals go on as before: the provider knows the customer by the number.
	order := e2e.Order{"subscriber_id": ids[0], "plan_id": "BASIC-1"}
	if got := w.Operate(w.DemoCaller(), "renew", "after-edit", order); got.Code != fault.OK {
		t.Errorf("a renewal after the edit: %s", got.Raw)
	}
	var told []simulator.Contact
	for _, call := range w.Simulator.Calls(detail.Mobile) {
		if call.Contact != nil {
			told = append(told, *call.Contact)
		}
	}
	if len(told) != 4 || told[3].Area != "Ward 3" || told[3].Version <= told[0].Version {
		t.Errorf("the provider was told %+v", told)
	}
}

// A form with an error goes on from the version that it was filled in from: what another person
// saved meanwhile is not overwritten unseen.
func TestContact_FormWithErrorKeepsItsVersion(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(2)
	b := w.SignIn(t, w.Demo.Operator)
	form := func(id string) string { return "/panel/subscribers/" + id + "/contact" }
	b.Post(form(ids[1]), contactForm(b, ids[1], url.Values{"box_number": {"STB-77"}})).Shows(t, http.StatusSeeOther)

	opened := contactForm(b, ids[0], url.Values{"area": {"Ward 9"}, "box_number": {"no box"}})
	b.Post(form(ids[0]), contactForm(b, ids[0], url.Values{"area": {"Ward 3"}})).Shows(t, http.StatusSeeOther)
	for _, number := range []string{"no box", "STB-77"} { // not a box number, and one of another customer
		opened.Set("box_number", number)
		page := b.Post(form(ids[0]), opened).Shows(t, http.StatusUnprocessableEntity)
		again := page.HiddenFields()
		again.Set("full_name", "Customer")
		again.Set("area", "Ward 9")
		again.Set("box_number", "STB-78")
		b.Post(form(ids[0]), again).Shows(t, http.StatusConflict, "Somebody has changed this customer", "Ward 3", `value="Ward 9"`)
	}
}

// A box number that another customer has is saved, or activated with, only by people who were shown
// whose it is.
func TestBrowser_BoxNumberGivenTwice(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(2)
	b := w.SignIn(t, w.Demo.Operator)
	b.Post("/panel/subscribers/"+ids[0]+"/contact", contactForm(b, ids[0], url.Values{"full_name": {"Devi Menon"}, "box_number": {"STB-77"}})).Shows(t, http.StatusSeeOther)
	box := func(id string) string {
		t.Helper()
		record, found, err := w.Node.Store.Contact(t.Context(), w.DemoCaller().OperatorID, id, 0)
		if err != nil || !found {
			t.Fatalf("%v, %v", found, err)
		}
		return record.BoxNumber
	}
	tab := looktest.New(t)
	tab.Forgive("422")
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")

	tab.Open(w.URL("/panel/subscribers/" + ids[1] + "/contact"))
	tab.Fill("Box number", "stb-77")
	tab.Fill("Area", "Ward 4")
	tab.Press("Save")
	tab.Sees("Box number stb-77 belongs to Devi Menon.")
	tab.Until("the link leads to whose it is, and keeps the form", `document.querySelector('.notice a[href="/panel/subscribers/`+ids[0]+`"]').target === "_blank"`)
	tab.Check("panel-contact-box")
	tab.Shot("panel-contact-box", looktest.Desk, looktest.Light)
	if got := box(ids[1]); got != "" {
		t.Errorf("before it is saved again the box number is %q", got)
	}
	// Another number is another question.
	b.Post("/panel/subscribers/"+ids[1]+"/contact", contactForm(b, ids[1], url.Values{"shared_box": {"STB-78"}, "box_number": {"STB-77"}})).
		Shows(t, http.StatusUnprocessableEntity, "belongs to Devi Menon")
	tab.Press("Save")
	tab.Sees("Saved.")
	if got := box(ids[1]); got != "stb-77" {
		t.Errorf("saved on purpose, the box number is %q", got)
	}
	// What is shared on purpose is not asked about with every other change.
	b.Post("/panel/subscribers/"+ids[1]+"/contact", contactForm(b, ids[1], url.Values{"box_number": {"stb-77"}, "notes": {"same box"}})).Shows(t, http.StatusSeeOther)

	tab.Open(w.URL("/panel/activate"))
	tab.Fill("Full name", "Asha Rao")
	tab.Fill("Mobile", "9812345678")
	tab.Set("Plan", "BASIC-1")
	tab.Fill("Box number (optional)", "STB-77")
	tab.Press("See the price")
	tab.Sees("Box number STB-77 belongs to") // one of both
	tab.Check("panel-activate-box")
	tab.Shot("panel-activate-box", looktest.Desk, looktest.Light)
	tab.Press("Edit")
	tab.Fill("Box number (optional)", "STB-78")
	tab.Press("See the price")
	tab.Sees("Wallet after")
	tab.Until("nobody has that one", `!document.body.innerText.includes("belongs to")`)
	tab.Press("Edit")
	tab.Fill("Box number (optional)", "STB-77")
	tab.Press("See the price")
	tab.Sees("belongs to")
	tab.Press("Pay ₹199.00 from the wallet")
	tab.Sees("The subscriber is activated.")
	w.CheckAudit()
}
