package subscription

import (
	"fmt"
	"strings"
)

// What replaces the personal data of a subscriber that was forgotten. ForgottenMobile is that of
// operations and bulk renewals; a subscriber has ForgottenHolder, because numbers are unique.
const (
	ForgottenName   = "(forgotten)"
	ForgottenMobile = "0000000000"
	forgottenPrefix = "forgotten:"
)

// ForgottenHolder is the mobile number of a subscriber that was forgotten.
func ForgottenHolder(id string) string { return forgottenPrefix + id }

// IsForgotten reports whether a subscriber with this mobile number was forgotten,
// also after its number was released.
func IsForgotten(mobile string) bool {
	return strings.HasPrefix(mobile, forgottenPrefix) || strings.HasPrefix(mobile, "released:") && strings.Contains(mobile, ":"+forgottenPrefix)
}

// NumberInUse returns the number that a subscriber's operations have, from the one that the subscriber
// has: that may have been released, or forgotten.
func NumberInUse(operatorID int64, mobile string) string {
	mobile = strings.TrimPrefix(mobile, fmt.Sprintf("released:%d:", operatorID))
	if IsForgotten(mobile) {
		return ForgottenMobile
	}
	return mobile
}
