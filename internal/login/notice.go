package login

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// FactorChanged is a kind of change of a person's second factors.
type FactorChanged string

// The changes that the next sign-in shows.
const (
	TOTPSet              FactorChanged = "totp set"
	TOTPReplaced         FactorChanged = "totp replaced"
	TOTPRemoved          FactorChanged = "totp removed"
	PasskeyAdded         FactorChanged = "passkey added"
	PasskeyRemoved       FactorChanged = "passkey removed"
	RecoveryCodesChanged FactorChanged = "recovery codes replaced"
	FactorsReset         FactorChanged = "reset" // all of them, by somebody else
)

// FactorNotice is a change of a person's second factors that they have not acknowledged.
type FactorNotice struct {
	What FactorChanged `json:"what"`
	At   time.Time     `json:"at"`
	// By is who did a reset; Name is a passkey's name.
	By   string `json:"by,omitempty"`
	Name string `json:"name,omitempty"`
	// Session is the session that made the change; the notice is for the others.
	Session string `json:"session,omitempty"`
}

// maxNotices is how many notices are stored, the latest ones.
const maxNotices = 5

// AddNotice returns an account's FactorNotice with one more change.
func AddNotice(stored string, notice FactorNotice) (string, error) {
	all := append(readNotices(stored), notice)
	return writeNotices(all[max(0, len(all)-maxNotices):])
}

func writeNotices(all []FactorNotice) (string, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("write a notice: %w", err)
	}
	return string(text), nil
}

// readNotices returns none for what cannot be read: a sign-in must not fail because of it.
func readNotices(stored string) []FactorNotice {
	var all []FactorNotice
	if stored == "" || json.Unmarshal([]byte(stored), &all) != nil {
		return nil
	}
	return all
}

// noticesFor returns the notices that a session shows.
func noticesFor(stored, sessionID string) (shown []FactorNotice) {
	for _, notice := range readNotices(stored) {
		if notice.Session == "" || notice.Session != sessionID {
			shown = append(shown, notice)
		}
	}
	return shown
}

// AcknowledgeNotices removes the notices that a session has shown. Those of changes made in
// the session itself stay for the next one, so that an attacker cannot hide them.
func (svc *Service) AcknowledgeNotices(ctx context.Context, token string) error {
	record, err := svc.open(ctx, token, svc.config.Now())
	if err != nil {
		return err
	}
	if svc.session(record).Stage != Complete {
		return refuse(WrongStage, wrongStageText)
	}
	var left []FactorNotice
	for _, notice := range readNotices(record.Account.FactorNotice) {
		if notice.Session != "" && notice.Session == record.ID {
			left = append(left, notice)
		}
	}
	stored := ""
	if left != nil {
		if stored, err = writeNotices(left); err != nil {
			return err
		}
	}
	if err := svc.store.ReplaceFactorNotice(ctx, record.Account.ID, record.Account.FactorNotice, stored); err != nil {
		return fmt.Errorf("clear the notices of login %d: %w", record.Account.ID, err)
	}
	return nil
}
