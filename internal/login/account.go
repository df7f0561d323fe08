package login

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// What people do to their own logins, as the log of acts has it.
const (
	deedPassword      = "password change"
	deedTOTP          = "totp set"
	deedNoTOTP        = "totp remove"
	deedPasskey       = "passkey add"
	deedNoPasskey     = "passkey remove"
	deedRecoveryCodes = "recovery codes replace"
)

func (d *Service) deed(p Person, action string, at time.Time) OwnAction {
	return OwnAction{Actor: "web:" + p.Username, Action: action, At: at}
}

// ChangePassword gives somebody a password of their own choice and signs them out
// everywhere else: whoever had the old one has lost it.
func (d *Service) ChangePassword(ctx context.Context, token, old, new string, address netip.Addr) (fresh string, s Session, err error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if d.session(record).Stage == NeedsCode {
		return "", s, refuse(OutOfTurn, outOfTurnText)
	}
	err = d.proveInSession(ctx, record, now, func() error {
		fresh, s, err = d.changePassword(ctx, token, record, old, new, now)
		return err
	})
	if err != nil {
		d.observeProof(ctx, record, address, "", PasswordChangeFailed, factorPassword, err)
	}
	return fresh, s, err
}

func (d *Service) changePassword(ctx context.Context, token string, record Record, old, new string, now time.Time) (string, Session, error) {
	if err := d.demandPassword(ctx, record.Account, old); err != nil {
		return "", Session{}, err
	}
	if err := CheckPassword(new, record.Account.names()...); err != nil {
		return "", Session{}, err
	}
	if new == old {
		return "", Session{}, refuse(WeakPassword, "This is the password that you have. Choose another one.")
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
		change.SteppedUpAt = now // all there is to prove was just proved
	}
	if err := d.store.ChangePassword(ctx, d.deed(record.Account.Person, deedPassword, now), change); err != nil {
		return "", Session{}, moved(err)
	}
	return d.reread(ctx, next)
}

// SetLanguage chooses what the pages speak; anything they do not speak is English.
func (d *Service) SetLanguage(ctx context.Context, token, language string) error {
	record, err := d.open(ctx, token, d.config.Now())
	if err != nil {
		return err
	}
	if language != Hindi {
		language = English
	}
	if err := d.store.SetLanguage(ctx, record.Account.ID, language); err != nil {
		return fmt.Errorf("set the language of login %d: %w", record.Account.ID, err)
	}
	return nil
}

// Sessions lists where a person is signed in, the last used first.
func (d *Service) Sessions(ctx context.Context, personID int64) ([]Session, error) {
	records, err := d.store.SessionsOf(ctx, personID)
	if err != nil {
		return nil, fmt.Errorf("list the sessions of login %d: %w", personID, err)
	}
	now := d.config.Now()
	sessions := []Session{}
	for _, record := range records {
		if d.alive(record, now) {
			sessions = append(sessions, d.session(record))
		}
	}
	return sessions, nil
}

// EndSession ends one of a person's sessions, by its public name. Somebody else's is
// not touched, whatever its name.
func (d *Service) EndSession(ctx context.Context, personID int64, id string) error {
	records, err := d.store.SessionsOf(ctx, personID)
	if err != nil {
		return fmt.Errorf("list the sessions of login %d: %w", personID, err)
	}
	if err := d.store.CloseSessionOf(ctx, personID, id); err != nil {
		return fmt.Errorf("end a session of login %d: %w", personID, err)
	}
	for _, record := range records {
		if record.ID == id {
			d.observe(ctx, Event{Kind: SessionEnded, Person: record.Account.Person, SessionID: id})
		}
	}
	return nil
}

// purgeBatch is small because a batch keeps the store's writer busy, and requests
// wait behind it.
const purgeBatch = 500

// Purge removes sessions that are over and counters of tries that are too old to
// count, in small batches, until there are none left or ctx ends. A session that has come
// to its absolute end is not used any more, and so is soon idle, too.
func (d *Service) Purge(ctx context.Context, now time.Time) (removed int, err error) {
	sessions := func() (int, error) { return d.store.PurgeSessions(ctx, now.Add(-d.config.Idle), purgeBatch) }
	tries := func() (int, error) { return d.store.PurgeTries(ctx, now.Add(-2*tryWindow), purgeBatch) }
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
