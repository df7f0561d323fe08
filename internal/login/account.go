package login

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// What people do to their own logins, as the log of acts has it.
const (
	deedPassword = "password change"
	deedTOTP     = "totp set"
	deedNoTOTP   = "totp remove"
)

func (d *Desk) deed(p Person, action string, at time.Time) Deed {
	return Deed{Actor: "web:" + p.Username, Action: action, At: at}
}

// ChangePassword gives somebody a password of their own choice and signs them out
// everywhere else: whoever had the old one has lost it.
func (d *Desk) ChangePassword(ctx context.Context, token, old, new string, address netip.Addr) (fresh string, s Session, err error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if d.session(record).Stage == NeedsCode {
		return "", s, refuse(OutOfTurn, outOfTurnText)
	}
	err = d.prove(ctx, record, now, func() error {
		fresh, s, err = d.changePassword(ctx, token, record, old, new, now)
		return err
	})
	if err != nil {
		d.observeProof(ctx, record, address, "", PasswordChangeFailed, factorPassword, err)
	}
	return fresh, s, err
}

func (d *Desk) changePassword(ctx context.Context, token string, record Record, old, new string, now time.Time) (string, Session, error) {
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
	if !record.Account.TOTP {
		change.SteppedUpAt = now // all there is to prove was just proved
	}
	if err := d.store.ChangePassword(ctx, d.deed(record.Account.Person, deedPassword, now), change); err != nil {
		return "", Session{}, moved(err)
	}
	return d.reread(ctx, next)
}

// BeginTOTP offers somebody a second factor. It takes effect when a code of it comes
// back; until then nothing changes.
func (d *Desk) BeginTOTP(ctx context.Context, token string) (Enrolment, error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return Enrolment{}, err
	}
	switch s := d.session(record); {
	case s.Stage != Whole && s.Stage != NeedsTOTP:
		return Enrolment{}, refuse(OutOfTurn, outOfTurnText)
	case s.Stage == Whole && !s.Fresh(now):
		// A device that was left alone must not become the owner's second factor.
		// Who has none and needs one cannot do anything else, and may take the
		// time that it takes to install an app.
		return Enrolment{}, refuse(Stale, staleText)
	}
	secret := newTOTPSecret()
	sealed, err := d.vault.SealTOTP(secret, record.Account.ID)
	if err != nil {
		return Enrolment{}, fmt.Errorf("seal the second factor of login %d: %w", record.Account.ID, err)
	}
	if err := d.store.OfferTOTP(ctx, record.Account.ID, record.Account.Version, sealed); err != nil {
		return Enrolment{}, moved(err)
	}
	return enrolment(secret, record.Account.Username), nil
}

// ConfirmTOTP sets up the second factor that was offered, for whoever has a code of
// it. The recovery codes are shown this once.
func (d *Desk) ConfirmTOTP(ctx context.Context, token, code string) (codes []string, fresh string, s Session, err error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return nil, "", s, err
	}
	if stage := d.session(record).Stage; stage != Whole && stage != NeedsTOTP {
		return nil, "", s, refuse(OutOfTurn, outOfTurnText)
	}
	if record.Account.PendingTOTP == nil {
		return nil, "", s, refuse(OutOfTurn, noEnrolmentText)
	}
	secret, err := d.vault.OpenTOTP(record.Account.PendingTOTP, record.Account.ID)
	if err != nil {
		return nil, "", s, fmt.Errorf("read the offered second factor of login %d: %w", record.Account.ID, err)
	}
	// There is nothing to guess here: the secret was just shown to this session.
	step, found := stepOfCode(secret, plain(code), now, 0)
	if !found {
		err = refuse(WrongCode, wrongCodeText)
		d.observeProof(ctx, record, record.Address, "", TOTPConfirmFailed, factorTOTP, err)
		return nil, "", s, err
	}
	codes, hashes := newRecoveryCodes()
	next := newToken()
	err = d.store.AdoptTOTP(ctx, d.deed(record.Account.Person, deedTOTP, now), Adoption{
		PersonID: record.Account.ID, Version: record.Account.Version, Sealed: record.Account.PendingTOTP, Step: step,
		RecoveryCodes: hashes, Old: HashToken(token), New: HashToken(next), At: now,
	})
	if err != nil {
		return nil, "", s, moved(err)
	}
	fresh, s, err = d.reread(ctx, next)
	return codes, fresh, s, err
}

// RemoveTOTP takes the second factor away, from whoever may do without.
func (d *Desk) RemoveTOTP(ctx context.Context, token string) error {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return err
	}
	switch s := d.session(record); {
	case s.Stage != Whole:
		return refuse(OutOfTurn, outOfTurnText)
	case d.Requires(s.Person):
		return refuse(Required, requiredText)
	case !s.Fresh(now):
		return refuse(Stale, staleText)
	case !s.Person.TOTP:
		return nil
	}
	if err := d.store.DropTOTP(ctx, d.deed(record.Account.Person, deedNoTOTP, now), record.Account.ID, record.Account.Version); err != nil {
		return moved(err)
	}
	return nil
}

// SetLanguage chooses what the pages speak; anything they do not speak is English.
func (d *Desk) SetLanguage(ctx context.Context, token, language string) error {
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
func (d *Desk) Sessions(ctx context.Context, personID int64) ([]Session, error) {
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
func (d *Desk) EndSession(ctx context.Context, personID int64, id string) error {
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
func (d *Desk) Purge(ctx context.Context, now time.Time) (removed int, err error) {
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
