package operation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// PasswordReset asks the provider to replace a customer's app password. It costs
// nothing and changes no subscription.
type PasswordReset struct {
	// Reference names this reset alone: asked twice, it is done once.
	Reference    string
	SubscriberID string
	Mobile       string
	// Password is the new one. It is kept nowhere.
	Password string
}

// PasswordResetter is a provider that can replace a customer's app password.
// Where the answer is Unknown, either password may hold; the customer can try,
// and another reset has a reference of its own.
type PasswordResetter interface {
	ResetPassword(ctx context.Context, reset PasswordReset) Reply
}

// NewPasswordReset is a reset with a reference of its own, and with a new password
// if none is given.
func NewPasswordReset(subscriberID, password string, now time.Time) PasswordReset {
	if password == "" {
		password = newPassword()
	}
	return PasswordReset{
		Reference: "PW" + strings.TrimPrefix(newID(now), "CX"), SubscriberID: subscriberID, Password: password,
	}
}

// Format shows everything but the password, whatever is asked for.
func (r PasswordReset) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.shown()) }

// LogValue shows the same to a log.
func (r PasswordReset) LogValue() slog.Value { return slog.StringValue(r.shown()) }

func (r PasswordReset) shown() string {
	return "password reset " + r.Reference + " of " + r.SubscriberID
}
