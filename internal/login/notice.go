package login

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// FactorChanged is what became of somebody's second factors.
type FactorChanged string

// The changes that the next sign-in tells of.
const (
	TOTPSet              FactorChanged = "totp set"
	TOTPReplaced         FactorChanged = "totp replaced"
	TOTPRemoved          FactorChanged = "totp removed"
	PasskeyAdded         FactorChanged = "passkey added"
	PasskeyRemoved       FactorChanged = "passkey removed"
	RecoveryCodesChanged FactorChanged = "recovery codes replaced"
	FactorsReset         FactorChanged = "reset" // all of them, by somebody else
)

// FactorNotice is a change of somebody's second factors that they have not taken notice of.
type FactorNotice struct {
	What FactorChanged `json:"what"`
	At   time.Time     `json:"at"`
	// By is who did it, of a reset; Name is a passkey's.
	By   string `json:"by,omitempty"`
	Name string `json:"name,omitempty"`
	// Session is where it was done by the person; the notice is for the others.
	Session string `json:"session,omitempty"`
}

// noticesMost is how many changes are kept, the last ones.
const noticesMost = 5

// AddNotice returns an account's FactorNotice with one more change.
func AddNotice(kept string, notice FactorNotice) (string, error) {
	all := append(readNotices(kept), notice)
	return writeNotices(all[max(0, len(all)-noticesMost):])
}

func writeNotices(all []FactorNotice) (string, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("write a notice: %w", err)
	}
	return string(text), nil
}

// readNotices takes what cannot be read for none: a sign-in must not fail by it.
func readNotices(kept string) []FactorNotice {
	var all []FactorNotice
	if kept == "" || json.Unmarshal([]byte(kept), &all) != nil {
		return nil
	}
	return all
}

// noticesFor are those that a session shows.
func noticesFor(kept, sessionID string) (shown []FactorNotice) {
	for _, notice := range readNotices(kept) {
		if notice.Session == "" || notice.Session != sessionID {
			shown = append(shown, notice)
		}
	}
	return shown
}

// TakeNotice forgets the changes that a session has shown. Those that were made in it stay
// for the next one: whoever made them must not be able to hide them.
func (d *Service) TakeNotice(ctx context.Context, token string) error {
	record, err := d.open(ctx, token, d.config.Now())
	if err != nil {
		return err
	}
	if d.session(record).Stage != Whole {
		return refuse(OutOfTurn, outOfTurnText)
	}
	var left []FactorNotice
	for _, notice := range readNotices(record.Account.FactorNotice) {
		if notice.Session != "" && notice.Session == record.ID {
			left = append(left, notice)
		}
	}
	kept := ""
	if left != nil {
		if kept, err = writeNotices(left); err != nil {
			return err
		}
	}
	if err := d.store.ReplaceFactorNotice(ctx, record.Account.ID, record.Account.FactorNotice, kept); err != nil {
		return fmt.Errorf("clear the notices of login %d: %w", record.Account.ID, err)
	}
	return nil
}
