package login

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// What people do to their own logins, as in the audit log.
const (
	actionPassword      = "password change"
	actionTOTP          = "totp set"
	actionNoTOTP        = "totp remove"
	actionPasskey       = "passkey add"
	actionNoPasskey     = "passkey remove"
	actionRecoveryCodes = "recovery codes replace"
)

func (svc *Service) ownAction(p Person, action string, at time.Time) OwnAction {
	return OwnAction{Actor: "web:" + p.Username, Action: action, At: at}
}

// ChangePassword replaces the person's password and ends their other sessions, which may
// belong to somebody who knew the old one.
func (svc *Service) ChangePassword(ctx context.Context, token, old, new string, address netip.Addr) (fresh string, s Session, err error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if svc.session(record).Stage == NeedsCode {
		return "", s, refuse(WrongStage, wrongStageText)
	}
	err = svc.proveInSession(ctx, record, now, func() error {
		fresh, s, err = svc.changePassword(ctx, token, record, old, new, now)
		return err
	})
	if err != nil {
		svc.observeProof(ctx, record, address, "", PasswordChangeFailed, factorPassword, err)
	}
	return fresh, s, err
}

func (svc *Service) changePassword(ctx context.Context, token string, record Record, old, new string, now time.Time) (string, Session, error) {
	if err := svc.verifyPassword(ctx, record.Account, old); err != nil {
		return "", Session{}, err
	}
	if err := CheckPassword(new, record.Account.names()...); err != nil {
		return "", Session{}, err
	}
	if new == old {
		return "", Session{}, refuse(WeakPassword, "This is your current password. Choose another one.")
	}
	hash, err := HashPassword(ctx, new)
	if err != nil {
		return "", Session{}, busy(err)
	}
	next := newToken()
	change := PasswordChange{
		PersonID: record.Account.ID, Version: record.Account.Version, Hash: hash,
		Old: HashToken(token), New: HashToken(next), SteppedUpAt: record.SteppedUpAt,
	}
	if !record.Account.SecondFactor() {
		change.SteppedUpAt = now // the password is all there is to verify
	}
	if err := svc.store.ChangePassword(ctx, svc.ownAction(record.Account.Person, actionPassword, now), change); err != nil {
		return "", Session{}, signedOutIfChanged(err)
	}
	return svc.reread(ctx, next)
}

// SetLanguage sets the language of the pages; an unknown one is English.
func (svc *Service) SetLanguage(ctx context.Context, token, language string) error {
	record, err := svc.open(ctx, token, svc.config.Now())
	if err != nil {
		return err
	}
	if language != Hindi {
		language = English
	}
	if err := svc.store.SetLanguage(ctx, record.Account.ID, language); err != nil {
		return fmt.Errorf("set the language of login %d: %w", record.Account.ID, err)
	}
	return nil
}

// Sessions lists where a person is signed in, the last used first.
func (svc *Service) Sessions(ctx context.Context, personID int64) ([]Session, error) {
	records, err := svc.store.SessionsOf(ctx, personID)
	if err != nil {
		return nil, fmt.Errorf("list the sessions of login %d: %w", personID, err)
	}
	now := svc.config.Now()
	sessions := []Session{}
	for _, record := range records {
		if svc.alive(record, now) {
			sessions = append(sessions, svc.session(record))
		}
	}
	return sessions, nil
}

// EndSession ends one of a person's sessions by its ID, and never another person's.
func (svc *Service) EndSession(ctx context.Context, personID int64, id string) error {
	records, err := svc.store.SessionsOf(ctx, personID)
	if err != nil {
		return fmt.Errorf("list the sessions of login %d: %w", personID, err)
	}
	if err := svc.store.CloseSessionOf(ctx, personID, id); err != nil {
		return fmt.Errorf("end a session of login %d: %w", personID, err)
	}
	for _, record := range records {
		if record.ID == id {
			svc.observe(ctx, Event{Kind: SessionEnded, Person: record.Account.Person, SessionID: id})
		}
	}
	return nil
}

// purgeBatch is small because a batch blocks the store's writer, and requests wait for it.
const purgeBatch = 500

// Purge removes expired sessions and old counters of tries, in small batches, until there
// are none left or ctx ends. It finds sessions by their last use: one that has reached its
// absolute end is not used any more, and soon idle, too.
func (svc *Service) Purge(ctx context.Context, now time.Time) (removed int, err error) {
	sessions := func() (int, error) { return svc.store.PurgeSessions(ctx, now.Add(-svc.config.Idle), purgeBatch) }
	tries := func() (int, error) { return svc.store.PurgeTries(ctx, now.Add(-2*tryWindow), purgeBatch) }
	for _, purge := range []func() (int, error){sessions, tries} {
		for batch := purgeBatch; batch == purgeBatch; removed += batch {
			if err = ctx.Err(); err == nil {
				batch, err = purge()
			}
			if err != nil {
				return removed, fmt.Errorf("purge sessions and counters of tries: %w", err)
			}
		}
	}
	return removed, nil
}
