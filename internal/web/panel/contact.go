package panel

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// contactPage is the form of a subscriber's contact data.
type contactPage struct {
	Subscriber report.SubscriberDetail
	Fields     map[string]string
	Areas      []string
	// Seen is the version that the form shows.
	Seen    int64
	Changes []contactChange
	// Box is set if another subscriber has the box number, which is saved only if the form is sent
	// again.
	Box *sharedBox
	refusal
}

// sharedBox is a box number that another subscriber has.
type sharedBox struct {
	Number string
	admin.BoxHolder
}

// sharedBox returns nil if no other of the operator's subscribers has the number.
func (p panel) sharedBox(v *web.Visit, number, subscriberID string) (*sharedBox, error) {
	holder, found, err := p.Contacts.BoxHolder(v.Context(), admin.BoxQuery{OperatorID: v.Operator(), BoxNumber: number, Except: subscriberID})
	if err != nil || !found {
		return nil, err
	}
	return &sharedBox{number, holder}, nil
}

// contactChange is one changed field for people.
type contactChange struct {
	Field, Old, New, By string
	At                  time.Time
}

var contactFieldNames = map[string]string{
	"full_name": look.Text("Name"), "email": look.Text("E-mail"), "area": look.Text("Area"), "address": look.Text("Address"),
	"box_number": look.Text("Box number"), "notes": look.Text("Notes"),
}

func contactChanges(record admin.ContactRecord) []contactChange {
	var list []contactChange
	for _, c := range record.Changes {
		by := c.Name
		if by == "" {
			_, by, _ = strings.Cut(c.Actor, ":")
		}
		list = append(list, contactChange{contactFieldNames[c.Field], c.Old, c.New, by, c.At})
	}
	return list
}

// contact reads the contact data of the visitor's own subscriber.
func (p panel) contact(v *web.Visit) (contactPage, admin.ContactRecord, error) {
	detail, err := p.found(v)
	if err != nil {
		return contactPage{}, admin.ContactRecord{}, err
	}
	record, _, err := p.Contacts.Record(v.Context(), v.Operator(), detail.ID)
	return contactPage{Subscriber: detail, Seen: record.Version}, record, err
}

func (p panel) contactForm(v *web.Visit) error {
	page, record, err := p.contact(v)
	if err != nil {
		return err
	}
	page.Fields = map[string]string{}
	for _, field := range operation.ContactFields {
		page.Fields[field.Name] = *field.At(&record.Contact)
	}
	return p.showContact(v, page)
}

func (p panel) showContact(v *web.Visit, page contactPage) (err error) {
	if page.Areas, err = p.Report.Areas(v.Context(), v.Operator()); err != nil {
		return err
	}
	return v.Show("panel/contact", page)
}

func (p panel) changeContact(v *web.Visit) error {
	page, record, err := p.contact(v)
	if err != nil {
		return err
	}
	// Whatever is wrong with the form, it goes on from the version that was filled in.
	if page.Seen, err = strconv.ParseInt(v.Field("seen"), 10, 64); err != nil {
		page.Seen = -1
	}
	page.Fields = map[string]string{}
	for _, field := range operation.ContactFields {
		page.Fields[field.Name] = strings.ReplaceAll(v.Field(field.Name), "\r\n", "\n")
	}
	contact, err := operation.ParseContact(page.Fields)
	if err != nil {
		page.refusal, v.Status = explain(v, err), http.StatusUnprocessableEntity
		return p.showContact(v, page)
	}
	if !strings.EqualFold(contact.BoxNumber, record.BoxNumber) && contact.BoxNumber != v.Field("shared_box") {
		if page.Box, err = p.sharedBox(v, contact.BoxNumber, page.Subscriber.ID); err != nil {
			return err
		}
		if page.Box != nil {
			v.Status = http.StatusUnprocessableEntity
			return p.showContact(v, page)
		}
	}
	err = p.Contacts.Change(v.Context(), v.Actor(), admin.ContactEdit{
		OperatorID: v.Operator(), SubscriberID: page.Subscriber.ID, Seen: page.Seen, Contact: contact,
	})
	switch {
	case errors.Is(err, admin.ErrContactChanged):
		// The form is shown as it was filled in, with what has been changed meanwhile.
		latest, record, failed := p.contact(v)
		if failed != nil {
			return failed
		}
		page.Seen, page.Changes, v.Status = latest.Seen, contactChanges(record), http.StatusConflict
		page.Notice = v.T("Somebody has changed this customer since you opened the form. Nothing was saved yet: compare with the latest changes below, then save again.")
		return p.showContact(v, page)
	case err != nil:
		if page.Problem = told(v, err); page.Problem == "" {
			return err
		}
		v.Status = http.StatusUnprocessableEntity
		return p.showContact(v, page)
	}
	return v.Redirect("/panel/subscribers/"+page.Subscriber.ID, v.Success(look.Text("Saved.")))
}

// tellContact tells the provider once more what it has not been told.
func (p panel) tellContact(v *web.Visit) error {
	detail, err := p.found(v)
	if err != nil {
		return err
	}
	if err := p.Contacts.Tell(v.Context(), v.Operator(), detail.ID); err != nil {
		return err
	}
	return v.Redirect("/panel/subscribers/"+detail.ID, nil)
}
