package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Whoever has only a session's cookie must not get at the second factors. So each change
// takes the password and a present second factor, however young the session or its last
// step-up, and each ends the person's other sessions.

// SecondFactor reports whether signing in takes more than the password.
func (p Person) SecondFactor() bool { return p.TOTP || p.Passkeys > 0 }

// Credentials are what somebody gives to prove who they are. Of the second factor it is a
// code (of the app, or a recovery code) or a passkey's answer to the session's challenge.
type Credentials struct {
	Password, Code string
	// Passkey is the browser's answer, in JSON. If it is there, the code does not count.
	Passkey []byte
}

// factor names what was given, for events.
func (c Credentials) factor(account Account) string {
	if c.Passkey != nil {
		return factorPasskey
	}
	return codeFactor(account, c.Code)
}

// challengeFor is how long something that was begun can be finished.
const challengeFor = 10 * time.Minute

// counted makes an attempt to prove oneself in a session, within the limits that step-up
// has. Wrong ones are told as failed.
func (d *Service) counted(ctx context.Context, record Record, address netip.Addr, passed, failed EventKind, factor string, attempt func() error) error {
	err := d.proveInSession(ctx, record, d.config.Now(), attempt)
	d.observeProof(ctx, record, address, passed, failed, factor, err)
	return err
}

// secondProof reads what was shown of the second factor. Whether it was used before is the
// store's to say.
func (d *Service) secondProof(ctx context.Context, record Record, given Credentials, address netip.Addr, now time.Time) (Proof, error) {
	if given.Passkey != nil && record.Account.SecondFactor() {
		return d.passkeyProof(ctx, record, given.Passkey, address, now)
	}
	return d.proofOf(ctx, record.Account, given.Code, now)
}

// spent refuses a proof that was used before.
func spent(proof Proof) *Refusal {
	if proof.Passkey != nil {
		return refuse(WrongPasskey, wrongPasskeyText)
	}
	return refuse(WrongCode, wrongCodeText)
}

// prove demands the password and, where there is one, a second factor.
func (d *Service) prove(ctx context.Context, record Record, given Credentials, address netip.Addr, now time.Time) (Proof, error) {
	if err := d.demandPassword(ctx, record.Account, given.Password); err != nil {
		return Proof{}, err
	}
	return d.secondProof(ctx, record, given, address, now)
}

// begin starts a change of second factors that takes two forms: whoever has proved
// themselves gets a ticket for the second. state is what is kept until then.
func (d *Service) begin(ctx context.Context, token string, given Credentials, address netip.Addr, kind ChallengeKind,
	state func(Record) ([]byte, error)) (ticket, fresh string, s Session, err error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return "", "", s, err
	}
	if stage := d.session(record).Stage; stage != Whole && stage != NeedsTOTP {
		return "", "", s, refuse(OutOfTurn, outOfTurnText)
	}
	kept, err := state(record)
	if err != nil {
		return "", "", s, err
	}
	ticket, fresh = newToken(), newToken()
	challenge := Challenge{ChallengeRef: ChallengeRef{SessionID: record.ID, Kind: kind, Ticket: HashToken(ticket)}, State: kept, ExpiresAt: now.Add(challengeFor)}
	err = d.counted(ctx, record, address, "", FactorChangeFailed, provedBy(record.Account, given), func() error {
		proof, err := d.prove(ctx, record, given, address, now)
		if err != nil {
			return err
		}
		return refusedBy(proof, d.store.RaiseSession(ctx, Rise{
			Old: HashToken(token), New: HashToken(fresh), PersonID: record.Account.ID, Version: record.Account.Version,
			Proof: proof, SteppedUpAt: now, Begins: &challenge,
		}))
	})
	if err != nil {
		return "", "", s, err
	}
	fresh, s, err = d.reread(ctx, fresh)
	return ticket, fresh, s, err
}

// finish reads what begin kept, for whoever has its ticket.
func (d *Service) finish(ctx context.Context, token, ticket string, kind ChallengeKind) (Record, Challenge, error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return record, Challenge{}, err
	}
	if stage := d.session(record).Stage; stage != Whole && stage != NeedsTOTP {
		return record, Challenge{}, refuse(OutOfTurn, outOfTurnText)
	}
	challenge, found, err := d.store.ChallengeOf(ctx, record.ID, kind)
	if err != nil {
		return record, challenge, fmt.Errorf("read a challenge: %w", err)
	}
	given := HashToken(ticket)
	if !found || !now.Before(challenge.ExpiresAt) || subtle.ConstantTimeCompare(given[:], challenge.Ticket[:]) != 1 {
		return record, challenge, refuse(OutOfTurn, noEnrolmentText)
	}
	return record, challenge, nil
}

// change makes a change of second factors in a session, which gets another token.
func (d *Service) change(ctx context.Context, token string, record Record, action string, c FactorChange, notice FactorNotice) (fresh string, s Session, err error) {
	notice.At, notice.Session = c.At, record.ID
	if c.Notice, err = AddNotice(record.Account.FactorNotice, notice); err != nil {
		return "", s, err
	}
	fresh = newToken()
	c.PersonID, c.Version, c.Old, c.New = record.Account.ID, record.Account.Version, HashToken(token), HashToken(fresh)
	if err := d.store.ChangeFactors(ctx, d.deed(record.Account.Person, action, c.At), c); err != nil {
		return "", s, refusedBy(c.Proof, err)
	}
	return d.reread(ctx, fresh)
}

// refusedBy is a store's error as the person is told it.
func refusedBy(proof Proof, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrSpent) && proof.Shown():
		return spent(proof)
	case errors.Is(err, ErrSpent):
		return refuse(OutOfTurn, noEnrolmentText)
	case errors.Is(err, ErrKnown):
		return refuse(Unsuitable, knownPasskeyText)
	}
	return moved(err)
}

func provedBy(account Account, given Credentials) string {
	if second := given.factor(account); second != "" {
		return factorPassword + ", " + second
	}
	return factorPassword
}

// changeAtOnce makes a change of second factors that takes one form. Of whoever has proved
// themselves, wanted says what it is, or why it is not possible.
func (d *Service) changeAtOnce(ctx context.Context, token string, given Credentials, address netip.Addr, action string,
	wanted func(Record) (FactorChange, FactorNotice, error)) (fresh string, s Session, err error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if d.session(record).Stage != Whole {
		return "", s, refuse(OutOfTurn, outOfTurnText)
	}
	err = d.counted(ctx, record, address, "", FactorChangeFailed, provedBy(record.Account, given), func() error {
		proof, err := d.prove(ctx, record, given, address, now)
		if err != nil {
			return err
		}
		c, notice, err := wanted(record)
		if err != nil {
			return err
		}
		c.Proof, c.At = proof, now
		fresh, s, err = d.change(ctx, token, record, action, c, notice)
		return err
	})
	return fresh, s, err
}

// Offer is a second factor of codes that is being set up.
type Offer struct {
	Enrolment
	// Ticket goes with the code that sets it up.
	Ticket string
}

// BeginTOTP offers somebody codes of an app as a second factor. It takes effect when a code
// of it comes back with the ticket; until then nothing changes but the session's token.
func (d *Service) BeginTOTP(ctx context.Context, token string, given Credentials, address netip.Addr) (offer Offer, fresh string, s Session, err error) {
	secret := newTOTPSecret()
	offer.Ticket, fresh, s, err = d.begin(ctx, token, given, address, ChallengeTOTP, func(record Record) ([]byte, error) {
		offer.Enrolment = enrolment(secret, record.Account.Username)
		sealed, err := d.vault.SealTOTP(secret, record.Account.ID)
		if err != nil {
			return nil, fmt.Errorf("seal the second factor of login %d: %w", record.Account.ID, err)
		}
		return sealed, nil
	})
	if err != nil {
		return Offer{}, "", s, err
	}
	return offer, fresh, s, nil
}

// ConfirmTOTP sets up the codes that were offered, for whoever has the ticket and a code.
// The recovery codes are shown this once.
func (d *Service) ConfirmTOTP(ctx context.Context, token, ticket, code string, address netip.Addr) (codes []string, fresh string, s Session, err error) {
	now := d.config.Now()
	record, challenge, err := d.finish(ctx, token, ticket, ChallengeTOTP)
	if err != nil {
		return nil, "", s, err
	}
	secret, err := d.vault.OpenTOTP(challenge.State, record.Account.ID)
	if err != nil {
		return nil, "", s, fmt.Errorf("read the offered second factor of login %d: %w", record.Account.ID, err)
	}
	// There is nothing to guess here: the secret was just shown to this session.
	step, found := stepOfCode(secret, plain(code), now, 0)
	if !found {
		err = refuse(WrongCode, wrongCodeText)
		d.observeProof(ctx, record, address, "", TOTPConfirmFailed, factorTOTP, err)
		return nil, "", s, err
	}
	codes, kept, err := newRecoveryCodes(ctx)
	if err != nil {
		return nil, "", s, busy(err)
	}
	notice := FactorNotice{What: TOTPSet}
	if record.Account.TOTP {
		notice.What = TOTPReplaced
	}
	fresh, s, err = d.change(ctx, token, record, deedTOTP, FactorChange{
		Challenge: &challenge.ChallengeRef, At: now, SetTOTP: &NewTOTP{Sealed: challenge.State, Step: step}, RecoveryCodes: &kept,
	}, notice)
	if err != nil {
		return nil, "", s, err
	}
	return codes, fresh, s, nil
}

// RemoveTOTP takes the codes of an app away, from whoever may do without. The recovery
// codes go with the last second factor.
func (d *Service) RemoveTOTP(ctx context.Context, token string, given Credentials, address netip.Addr) (fresh string, s Session, err error) {
	return d.changeAtOnce(ctx, token, given, address, deedNoTOTP, func(record Record) (FactorChange, FactorNotice, error) {
		p := record.Account.Person
		c := FactorChange{DropTOTP: true}
		switch {
		case !p.TOTP:
			return c, FactorNotice{}, refuse(OutOfTurn, noFactorText)
		case p.Passkeys == 0 && d.Requires(p):
			return c, FactorNotice{}, refuse(Required, requiredText)
		case p.Passkeys == 0:
			c.RecoveryCodes = &RecoveryCodes{}
		}
		return c, FactorNotice{What: TOTPRemoved}, nil
	})
}

// ReplaceRecoveryCodes makes new recovery codes, which are shown this once. The old ones
// are worth nothing from then on.
func (d *Service) ReplaceRecoveryCodes(ctx context.Context, token string, given Credentials, address netip.Addr) (codes []string, fresh string, s Session, err error) {
	fresh, s, err = d.changeAtOnce(ctx, token, given, address, deedRecoveryCodes, func(record Record) (FactorChange, FactorNotice, error) {
		if !record.Account.SecondFactor() {
			return FactorChange{}, FactorNotice{}, refuse(OutOfTurn, noFactorText)
		}
		made, kept, err := newRecoveryCodes(ctx)
		codes = made
		return FactorChange{RecoveryCodes: &kept}, FactorNotice{What: RecoveryCodesChanged}, busy(err)
	})
	if err != nil {
		return nil, "", s, err
	}
	return codes, fresh, s, nil
}
