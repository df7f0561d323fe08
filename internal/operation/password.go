package operation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// PasswordReset is a request to the provider to replace a customer's app password. It costs
// nothing and changes no subscription.
type PasswordReset struct {
	// Reference identifies this reset: sent twice, it is carried out once.
	Reference    string
	SubscriberID string
	Mobile       string
	// Password is the new one. It is never stored.
	Password string
}

// PasswordResetter is a provider that can replace a customer's app password.
// After an Unknown reply either password may be valid: the customer can try both, and another
// reset has its own reference.
type PasswordResetter interface {
	ResetPassword(ctx context.Context, reset PasswordReset) Reply
}

// NewPasswordReset returns a reset with a new reference, and with a generated password if none
// is given.
func NewPasswordReset(subscriberID, password string, now time.Time) PasswordReset {
	if password == "" {
		password = newPassword()
	}
	return PasswordReset{
		Reference: "PW" + strings.TrimPrefix(newID(now), "CX"), SubscriberID: subscriberID, Password: password,
	}
}

// Format prints everything but the password, for every verb.
func (r PasswordReset) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.redacted()) }

// LogValue logs the same.
func (r PasswordReset) LogValue() slog.Value { return slog.StringValue(r.redacted()) }

func (r PasswordReset) redacted() string {
	return "password reset " + r.Reference + " of " + r.SubscriberID
}
