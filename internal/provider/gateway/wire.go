package gateway

import (
	"encoding/json"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// The protocol's paths, below the provider's base address.
const (
	pathPassword  = "v1/reset-password"
	pathContact   = "v1/contact"
	pathStatus    = "v1/status"
	pathVoid      = "v1/void"
	pathReverse   = "v1/reverse"
	pathOrders    = "v1/orders"
	pathCatalogue = "v1/catalogue"
)

var paths = map[operation.Kind]string{
	operation.Activate:     "v1/activate",
	operation.Renew:        "v1/renew",
	operation.AdvanceRenew: "v1/advance-renew",
}

// orderBody names the customer and the component an order is about.
type orderBody struct {
	Reference    string `json:"reference"`
	SubscriberID string `json:"subscriber_id"`
	Mobile       string `json:"mobile"`
	Component    string `json:"component"`
}

type applyCall struct {
	orderBody
	ClientKey string `json:"client_key,omitempty"`
	Months    int    `json:"months"`
	StartDate string `json:"start_date,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"`
	*newCustomer
}

// newCustomer is sent with an activation only.
type newCustomer struct {
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
	Password string `json:"password,omitempty"`
}

func applyBody(order operation.Order) []byte {
	call := applyCall{orderBody: about(order), ClientKey: order.ClientKey, Months: order.Months}
	if !order.StartDate.IsZero() {
		call.StartDate = order.StartDate.In(subscription.IST).Format(time.DateOnly)
	}
	if !order.ExpiresAt.IsZero() {
		call.ExpiresAt = order.ExpiresAt.In(subscription.IST).Format(time.RFC3339)
	}
	// For a renewal the provider knows the customer.
	if order.Kind == operation.Activate {
		call.newCustomer = &newCustomer{Name: order.Name, Email: order.Email, Password: order.Password}
	}
	return encode(call)
}

// passwordBody has no component: the password is the customer's, for all components.
func passwordBody(reset operation.PasswordReset) []byte {
	return encode(struct {
		Reference    string `json:"reference"`
		SubscriberID string `json:"subscriber_id"`
		Mobile       string `json:"mobile"`
		Password     string `json:"password"`
	}{reset.Reference, reset.SubscriberID, reset.Mobile, reset.Password})
}

// contactBody has all of the contact data but the notes, which are the operator's own: a field that
// is empty is empty at the provider, too.
func contactBody(update operation.ContactUpdate) []byte {
	return encode(struct {
		Reference    string `json:"reference"`
		SubscriberID string `json:"subscriber_id"`
		Mobile       string `json:"mobile"`
		Version      int64  `json:"version"`
		Name         string `json:"name"`
		Email        string `json:"email"`
		Area         string `json:"area"`
		Address      string `json:"address"`
		BoxNumber    string `json:"box_number"`
	}{update.Reference, update.SubscriberID, update.Mobile, update.Version, update.Name, update.Email, update.Area, update.Address, update.BoxNumber})
}

func voidBody(order operation.Order) []byte { return encode(about(order)) }

func about(order operation.Order) orderBody {
	return orderBody{
		Reference:    order.Reference,
		SubscriberID: order.SubscriberID,
		Mobile:       order.Mobile,
		Component:    order.Component,
	}
}

func encode(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // structs of strings and numbers always encode
	}
	return text
}
