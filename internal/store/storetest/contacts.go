package storetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

var contactTests = []test{
	{"contact data is changed with its history", contactChanged},
	{"contact data is changed by nobody else, and not twice at once", contactRefused},
	{"the state of contact data is that of its latest version", contactStates},
	{"who has a box number is found, whoever it was given by", boxHolders},
	{"contact data comes with an activation and with an import", contactFromElsewhere},
	{"subscribers are found by area, address, box number and last digits", contactSearches},
	{"filters of subscribers combine, in each order, in parts", filtersCombine},
	{"who is due is listed by calendar days", fallingDue},
	{"plans of subscribers follow their cycles", plansFollow},
}

// contactEdit changes contact data, and returns its version.
func (s *fixture) contactEdit(id string, seen int64, c operation.Contact) (int64, error) {
	action := admin.StaffAction{Actor: "web:ravi", Action: admin.CustomerContactChange, At: noon}
	return s.ChangeContact(s.Context(), action, admin.ContactEdit{OperatorID: s.operator.ID, SubscriberID: id, Seen: seen, Contact: c})
}

func (s *fixture) contact(id string) admin.ContactRecord {
	s.Helper()
	record, found, err := s.Contact(s.Context(), s.operator.ID, id, 100)
	if err != nil || !found {
		s.Fatalf("contact data of %s: %v, %v", id, found, err)
	}
	return record
}

func contactChanged(h *harness) {
	s := h.fixture("5000")
	s.subscriber("000001", "9800000001")
	before := s.contact("000001")
	if before.Name != "Asha" || before.Mobile != "9800000001" || before.Version != 0 || before.State != admin.ContactUnchanged || !before.Settled {
		h.Errorf("before: %+v", before)
	}
	acts := len(s.auditEntries())
	wanted := operation.Contact{Name: "Asha Rao", Email: "a@example.com", Area: "Ward 4", Address: "7 Lake Road\nKochi", BoxNumber: "STB-991", Notes: "rings twice"}
	version, err := s.contactEdit("000001", 0, wanted)
	if err != nil || version != 5 {
		h.Fatalf("version %d, %v; want 5: five fields differ", version, err)
	}
	got := s.contact("000001")
	if got.Contact != wanted || got.Version != 5 || got.State != admin.ContactUntold {
		h.Errorf("after: %+v", got)
	}
	var changes []string
	for _, c := range got.Changes {
		changes = append(changes, c.Field+": "+c.Old+" -> "+c.New)
		if c.Actor != "web:ravi" || !c.At.Equal(noon) {
			h.Errorf("a change is %+v", c)
		}
	}
	want := []string{
		"notes:  -> rings twice", "box_number:  -> STB-991", "address: 12 Street -> 7 Lake Road\nKochi", "area:  -> Ward 4", "full_name: Asha -> Asha Rao",
	}
	if !slices.Equal(changes, want) {
		h.Errorf("changes %q; want %q", changes, want)
	}
	entries := s.auditEntries()
	if len(entries) != acts+1 {
		h.Fatalf("%d staff actions; want one", len(entries)-acts)
	}
	entry := entries[len(entries)-1]
	if entry.Subject != "subscriber 000001" || !strings.Contains(entry.After, "full_name, area, address, box_number, notes") || strings.Contains(entry.After, "Lake") {
		h.Errorf("the staff action is %+v", entry)
	}
	// The same once more changes nothing.
	if version, err = s.contactEdit("000001", 5, wanted); err != nil || version != 5 || len(s.auditEntries()) != acts+1 {
		h.Errorf("the same once more: version %d, %v", version, err)
	}
	// A renewal that was drafted before the edit is drafted again, and afterwards the customer has both.
	s.settle(s.reserve(s.renewal("renew-1", "000001")), operation.Success)
	if after := s.contact("000001"); after.Contact != wanted {
		h.Errorf("after a renewal: %+v", after)
	}
	data, err := s.ExportSubscriber(h.Context(), "000001")
	h.must(err)
	if len(data.ContactChanges) != 5 || data.Subscription.Area != "Ward 4" || data.Subscription.BoxNumber != "STB-991" || data.Subscription.Notes != "rings twice" {
		h.Errorf("exported: %+v", data)
	}
	if _, err := s.forget("000001", noon.Add(200*day), 0); err != nil {
		h.Fatal(err)
	}
	if gone := s.contact("000001"); gone.Contact != (operation.Contact{Name: "(forgotten)"}) || len(gone.Changes) != 0 || gone.Version != 0 {
		h.Errorf("once forgotten: %+v", gone)
	}
	for _, search := range []string{"rao", "lake", "stb", "991", "ward", "0001"} {
		s.listed("once forgotten: "+search, report.SubscriberFilter{Search: search})
	}
	if _, err := s.contactEdit("000001", 0, wanted); err == nil {
		h.Error("a forgotten subscriber has contact data again")
	}
}

func contactRefused(h *harness) {
	s := h.fixture("5000")
	s.subscriber("000001", "9800000001")
	s.reserve(s.activation("open", "9800000002", "000002"))
	other := &fixture{harness: h, operator: h.operator("other"), plan: s.plan}
	edited := operation.Contact{Name: "Someone"}
	_, err := other.contactEdit("000001", 0, edited)
	h.refused("another operator's", err)
	_, err = s.contactEdit("000009", 0, edited)
	h.refused("nobody's", err)
	_, err = s.contactEdit("000002", 0, edited)
	h.refused("while it is being activated", err)
	if _, found, err := s.Contact(h.Context(), other.operator.ID, "000001", 1); found || err != nil {
		h.Errorf("another operator reads it: %v, %v", found, err)
	}
	if _, err := s.contactEdit("000001", 0, edited); err != nil {
		h.Fatal(err)
	}
	if _, err := s.contactEdit("000001", 0, operation.Contact{Name: "Otherwise"}); !errors.Is(err, admin.ErrContactChanged) {
		h.Errorf("an edit of what was shown before: %v; want ErrContactChanged", err)
	}
	suspended := subscription.OperatorInactive
	inactive := admin.OperatorChange{Status: &suspended}
	_, err = s.ChangeOperator(h.Context(), staffAction("lco set"), s.operator.ID, inactive)
	h.must(err)
	_, err = s.contactEdit("000001", s.contact("000001").Version, edited)
	h.refused("of a suspended operator", err)
}

func contactStates(h *harness) {
	s := h.fixture("5000")
	s.subscriber("000001", "9800000001")
	first, err := s.contactEdit("000001", 0, operation.Contact{Name: "One"})
	h.must(err)
	second, err := s.contactEdit("000001", first, operation.Contact{Name: "Two"})
	h.must(err)
	h.must(s.SetContactState(h.Context(), "000001", first, admin.ContactTold, "", noon))
	if got := s.contact("000001"); got.State != admin.ContactUntold {
		h.Errorf("the provider has an old version, and the state is %+v", got)
	}
	h.must(s.SetContactState(h.Context(), "000001", second, admin.ContactRefused, "No such box.", noon.Add(time.Minute)))
	if got := s.contact("000001"); got.State != admin.ContactRefused || got.Message != "No such box." || !got.At.Equal(noon.Add(time.Minute)) {
		h.Errorf("it was refused, and the state is %+v", got)
	}
	if _, err := s.contactEdit("000001", second, operation.Contact{Name: "Three"}); err != nil {
		h.Fatal(err)
	}
	if got := s.contact("000001"); got.State != admin.ContactUntold || got.Message != "" {
		h.Errorf("changed again, the state is %+v", got)
	}
}

func boxHolders(h *harness) {
	s := h.fixture("5000")
	s.subscriber("000001", "9800000001")
	s.subscriber("000002", "9800000002")
	open := s.activation("open", "9800000003", "000003")
	open.Profile.BoxNumber = "STB-3"
	op := s.reserve(open)
	if _, err := s.contactEdit("000001", 0, operation.Contact{Name: "Devi STB-9", Area: "Ward", BoxNumber: "Stb-77"}); err != nil {
		h.Fatal(err)
	}
	is := func(what, box, except string, want admin.BoxHolder) {
		h.Helper()
		got, found, err := s.BoxHolder(h.Context(), admin.BoxQuery{OperatorID: s.operator.ID, BoxNumber: box, Except: except})
		if err != nil || got != want || found != (want.SubscriberID != "") {
			h.Errorf("%s: %+v, %v, %v; want %+v", what, got, found, err, want)
		}
	}
	devi := admin.BoxHolder{SubscriberID: "000001", Name: "Devi STB-9"}
	is("for somebody else", "STB-77", "000002", devi)
	is("for somebody new", "stb-77", "", devi)
	is("for whom it is", "STB-77", "000001", admin.BoxHolder{})
	is("a part of it", "STB-7", "", admin.BoxHolder{})
	is("a longer one", "STB-771", "", admin.BoxHolder{})
	is("a word of an area", "ward", "", admin.BoxHolder{})
	is("a word of a name", "STB-9", "", admin.BoxHolder{})
	is("while it is being activated", "STB-3", "", admin.BoxHolder{SubscriberID: "000003", Name: open.CustomerName})
	s.settle(op, operation.Failed)
	is("once the activation failed", "STB-3", "", admin.BoxHolder{})
	if _, err := s.contactEdit("000002", 0, operation.Contact{Name: "Binu", BoxNumber: "STB-77"}); err != nil {
		h.Errorf("two have the same: %v", err)
	}
	is("of two, for one of them", "STB-77", "000001", admin.BoxHolder{SubscriberID: "000002", Name: "Binu"})
	other := h.operator("other")
	if _, found, err := s.BoxHolder(h.Context(), admin.BoxQuery{OperatorID: other.ID, BoxNumber: "STB-77"}); found || err != nil {
		h.Errorf("another operator finds it: %v, %v", found, err)
	}
	if _, err := s.forget("000001", noon.Add(200*day), 0); err != nil {
		h.Fatal(err)
	}
	is("once its subscriber was forgotten", "STB-77", "000002", admin.BoxHolder{})
}

func contactFromElsewhere(h *harness) {
	s := h.fixture("5000")
	draft := s.activation("act", "9800000001", "000001")
	draft.Profile.Area, draft.Profile.BoxNumber, draft.Profile.Notes = "Ward 4", "STB1", "second floor"
	s.settle(s.reserve(draft), operation.Success)
	if got := s.contact("000001"); got.Area != "Ward 4" || got.BoxNumber != "STB1" || got.Notes != "second floor" || got.Address != "12 Street" || got.Version != 0 {
		h.Errorf("activated: %+v", got)
	}
	row := admin.ImportRow{
		Line: 2, OperatorID: s.operator.ID, SubscriberID: "000002", Mobile: "9800000002", Name: "Binu", PlanID: s.plan.ID, Expires: noon.Add(day),
		Contact: operation.Contact{Name: "Binu", Email: "b@example.com", Area: "Ward 5", Address: "3 Hill", BoxNumber: "STB2", Notes: "n"},
	}
	load := func() (int, error) {
		return s.ImportSubscribers(h.Context(), staffAction("subscriber import"), []admin.ImportRow{row})
	}
	if added, err := load(); added != 1 || err != nil {
		h.Fatalf("imported %d, %v", added, err)
	}
	if got := s.contact("000002"); got.Contact != row.Contact {
		h.Errorf("imported: %+v", got)
	}
	// A file that was imported before is known, although the name has changed since.
	if _, err := s.contactEdit("000002", 0, operation.Contact{Name: "Binu K"}); err != nil {
		h.Fatal(err)
	}
	if added, err := load(); added != 0 || err != nil {
		h.Errorf("imported again: %d, %v", added, err)
	}
	row.Name = "Somebody"
	_, err := load()
	h.refused("another name", err)
}
