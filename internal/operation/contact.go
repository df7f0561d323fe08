package operation

import (
	"context"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// The fields of contact data that requests of the API do not have.
const (
	fieldArea      = "area"
	fieldBoxNumber = "box_number"
	fieldNotes     = "notes"
)

// Contact is the contact data of a customer. The mobile number is not part of it: the provider knows
// the customer by it, and every order repeats it.
type Contact struct {
	Name, Email, Area, Address, BoxNumber, Notes string
}

// ContactField is a field of contact data.
type ContactField struct {
	Name string // as in forms and files
	At   func(*Contact) *string
}

// ContactFields are the fields of contact data, in the order of forms.
var ContactFields = []ContactField{
	{fieldName, func(c *Contact) *string { return &c.Name }},
	{fieldEmail, func(c *Contact) *string { return &c.Email }},
	{fieldArea, func(c *Contact) *string { return &c.Area }},
	{fieldAddress, func(c *Contact) *string { return &c.Address }},
	{fieldBoxNumber, func(c *Contact) *string { return &c.BoxNumber }},
	{fieldNotes, func(c *Contact) *string { return &c.Notes }},
}

// ParseContact parses contact data, by the limits of an activation. The error names every invalid
// field.
func ParseContact(fields map[string]string) (Contact, error) {
	form := form{request: Request{Fields: fields}, errors: map[string]string{}}
	contact := Contact{
		Name: form.text(fieldName, 1, 100), Email: form.email(), Area: form.area(), Address: form.lines(fieldAddress, 0, 500),
		BoxNumber: form.boxNumber(), Notes: form.lines(fieldNotes, 0, 500),
	}
	if len(form.errors) > 0 {
		return contact, fault.New(fault.ValidationError, "Some fields are not valid.").With("fields", form.errors)
	}
	return contact, nil
}

// area is one line; blanks within it are one each, so that an area is written in one way.
func (f *form) area() string {
	return strings.Join(strings.Fields(f.text(fieldArea, 0, 60)), " ")
}

// boxNumber is the number printed on a set-top box.
func (f *form) boxNumber() string {
	text := f.text(fieldBoxNumber, 0, 30)
	if strings.Trim(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-") != "" {
		f.errors[fieldBoxNumber] = "It may have letters, digits and hyphens only."
	}
	return text
}

// ContactUpdate tells the provider a customer's contact data. It is whole, not a difference, so that
// of two updates the later one is enough.
type ContactUpdate struct {
	// Reference identifies this call: sent twice, it is carried out once.
	Reference            string
	SubscriberID, Mobile string
	// Version increases with each change of a customer's contact data: of two updates the higher one
	// holds, in whatever order they arrive.
	Version int64
	Contact
}

// ContactTaker is a provider that may keep contact data.
type ContactTaker interface {
	// UpdateContact sends an update, once. supported is false if the provider takes none.
	UpdateContact(ctx context.Context, update ContactUpdate) (reply Reply, supported bool)
}

// NewContactReference returns a reference for a ContactUpdate.
func NewContactReference(now time.Time) string {
	return "CT" + strings.TrimPrefix(newID(now), "CX")
}
