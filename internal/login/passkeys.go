package login

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/passkey"
)

const (
	// PasskeysMost is how many passkeys one person can have.
	PasskeysMost = 10
	// PasskeyNameMost is how many characters the name of one can have.
	PasskeyNameMost = 40
)

// Site is where pages are reached, as passkeys know it.
type Site = passkey.Site

// SiteOf is the site of an origin such as https://panel.example.com; false where passkeys do
// not work, such as at an IP address.
func SiteOf(origin string) (Site, bool) { return passkey.SiteOf(origin) }

// PasskeyChallenge is what a page needs to ask for a passkey.
type PasskeyChallenge struct {
	// Options are for the browser, in JSON; empty where none of the person's passkeys works
	// at this site.
	Options string
	// Elsewhere are the sites that the person has passkeys of, where none is of this one.
	Elsewhere []string
}

// PasskeyOffer is a passkey that is being added.
type PasskeyOffer struct {
	// Options are for the browser, in JSON. Ticket goes with its answer.
	Options, Ticket string
}

// pendingPasskey is what is kept of a passkey that is being added.
type pendingPasskey struct {
	Name  string `json:"name"`
	State []byte `json:"state"`
}

func userOf(p Person) passkey.User {
	return passkey.User{ID: p.ID, Username: p.Username, Name: p.Name}
}

// Passkeys lists a person's passkeys, the oldest first.
func (d *Service) Passkeys(ctx context.Context, personID int64) ([]Passkey, error) {
	all, err := d.store.Passkeys(ctx, personID)
	if err != nil {
		return nil, fmt.Errorf("list the passkeys of login %d: %w", personID, err)
	}
	return all, nil
}

// RecoveryCodesLeft counts a person's recovery codes that were not used.
func (d *Service) RecoveryCodesLeft(ctx context.Context, personID int64) (int, error) {
	left, err := d.store.RecoveryCodesLeft(ctx, personID)
	if err != nil {
		return 0, fmt.Errorf("count the recovery codes of login %d: %w", personID, err)
	}
	return left, nil
}

// passkeysAt are a person's passkeys of a site.
func (d *Service) passkeysAt(ctx context.Context, personID int64, siteID string) (here []Passkey, keys []passkey.Key, elsewhere []string, err error) {
	all, err := d.Passkeys(ctx, personID)
	for _, p := range all {
		if p.SiteID != siteID {
			elsewhere = append(elsewhere, p.SiteID)
			continue
		}
		here, keys = append(here, p), append(keys, p.Key)
	}
	return here, keys, elsewhere, err
}

// ChallengePasskey makes a challenge for the passkeys of whoever a session is of, in place of
// an earlier one. It is good once, and for a few minutes.
func (d *Service) ChallengePasskey(ctx context.Context, token string, site Site) (PasskeyChallenge, error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil || record.Account.Passkeys == 0 {
		return PasskeyChallenge{}, err
	}
	_, keys, elsewhere, err := d.passkeysAt(ctx, record.Account.ID, site.ID)
	if err != nil || len(keys) == 0 {
		return PasskeyChallenge{Elsewhere: elsewhere}, err
	}
	options, state, err := passkey.BeginUsing(site, userOf(record.Account.Person), keys)
	if err != nil {
		return PasskeyChallenge{}, err
	}
	err = d.store.KeepChallenge(ctx, Challenge{
		ChallengeRef: ChallengeRef{SessionID: record.ID, Kind: ChallengeUse, Ticket: HashToken(newToken())}, State: state, ExpiresAt: now.Add(challengeFor),
	})
	if err != nil {
		return PasskeyChallenge{}, moved(err)
	}
	return PasskeyChallenge{Options: string(options)}, nil
}

// passkeyProof checks a passkey's answer to the session's challenge. One whose counter went
// back is refused: it may be a copy.
func (d *Service) passkeyProof(ctx context.Context, record Record, answer []byte, address netip.Addr, now time.Time) (Proof, error) {
	challenge, found, err := d.store.ChallengeOf(ctx, record.ID, ChallengeUse)
	if err != nil {
		return Proof{}, fmt.Errorf("read a challenge: %w", err)
	}
	if !found || !now.Before(challenge.ExpiresAt) {
		return Proof{}, refuse(WrongPasskey, wrongPasskeyText)
	}
	site, err := passkey.SiteIn(challenge.State)
	if err != nil {
		return Proof{}, fmt.Errorf("read a challenge: %w", err)
	}
	here, keys, _, err := d.passkeysAt(ctx, record.Account.ID, site.ID)
	if err != nil {
		return Proof{}, err
	}
	use, err := passkey.FinishUsing(userOf(record.Account.Person), keys, challenge.State, answer)
	if err != nil {
		return Proof{}, refuse(WrongPasskey, wrongPasskeyText)
	}
	for _, p := range here {
		if !bytes.Equal(p.Key.CredentialID, use.CredentialID) {
			continue
		}
		if use.CounterWentBack {
			d.observe(ctx, Event{
				Kind: PasskeyWentBack, Reason: string(PasskeyCopied), Person: record.Account.Person, SessionID: record.ID, Factor: factorPasskey,
				Address: address, Agent: record.Agent,
			})
			return Proof{}, refuse(PasskeyCopied, copiedText)
		}
		return Proof{Passkey: &PasskeyProof{ID: p.ID, SignCount: use.SignCount, Challenge: challenge.ChallengeRef}}, nil
	}
	return Proof{}, refuse(WrongPasskey, wrongPasskeyText)
}

// GivePasskey is the second half of signing in, by a passkey.
func (d *Service) GivePasskey(ctx context.Context, token string, answer []byte, address netip.Addr, browsers string) (fresh string, s Session, err error) {
	return d.giveFactor(ctx, token, Credentials{Passkey: answer}, address, browsers)
}

// StepUpPasskey has somebody who is signed in prove themselves again, by the password and a
// passkey.
func (d *Service) StepUpPasskey(ctx context.Context, token, password string, answer []byte, address netip.Addr) (fresh string, s Session, err error) {
	return d.stepUp(ctx, token, Credentials{Password: password, Passkey: answer}, address)
}

// BeginPasskey offers to add a passkey under a name. It is added when the browser's answer
// comes back with the ticket.
func (d *Service) BeginPasskey(ctx context.Context, token string, site Site, name string, given Credentials, address netip.Addr) (offer PasskeyOffer, fresh string, s Session, err error) {
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n == 0 || n > PasskeyNameMost || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return offer, "", s, refuse(Unsuitable, nameText)
	}
	if site.ID == "" {
		return offer, "", s, refuse(Unsuitable, noSiteText)
	}
	offer.Ticket, fresh, s, err = d.begin(ctx, token, given, address, ChallengeAdd, func(record Record) ([]byte, error) {
		if record.Account.Passkeys >= PasskeysMost {
			return nil, refuse(Unsuitable, tooManyText)
		}
		_, keys, _, err := d.passkeysAt(ctx, record.Account.ID, site.ID)
		if err != nil {
			return nil, err
		}
		options, state, err := passkey.BeginAdding(site, userOf(record.Account.Person), keys)
		if err != nil {
			return nil, err
		}
		offer.Options = string(options)
		return encodePending(pendingPasskey{name, state})
	})
	if err != nil {
		return PasskeyOffer{}, "", s, err
	}
	return offer, fresh, s, nil
}

// FinishPasskey adds the passkey that the browser has made. Recovery codes come with the
// first second factor, and are shown this once.
func (d *Service) FinishPasskey(ctx context.Context, token, ticket string, answer []byte, address netip.Addr) (codes []string, fresh string, s Session, err error) {
	record, challenge, err := d.finish(ctx, token, ticket, ChallengeAdd)
	if err != nil {
		return nil, "", s, err
	}
	pending, err := decodePending(challenge.State)
	if err != nil {
		return nil, "", s, err
	}
	site, err := passkey.SiteIn(pending.State)
	if err != nil {
		return nil, "", s, fmt.Errorf("read a challenge: %w", err)
	}
	key, err := passkey.FinishAdding(userOf(record.Account.Person), pending.State, answer)
	if err != nil {
		err = refuse(Unsuitable, badPasskeyText)
		d.observeProof(ctx, record, address, "", FactorChangeFailed, factorPasskey, err)
		return nil, "", s, err
	}
	now := d.config.Now()
	c := FactorChange{Challenge: &challenge.ChallengeRef, At: now, AddPasskey: &Passkey{Name: pending.Name, CreatedAt: now, SiteID: site.ID, Key: key}}
	if !record.Account.SecondFactor() {
		c.RecoveryCodes = &RecoveryCodes{}
		if codes, *c.RecoveryCodes, err = newRecoveryCodes(ctx); err != nil {
			return nil, "", s, busy(err)
		}
	}
	fresh, s, err = d.change(ctx, token, record, deedPasskey, c, FactorNotice{What: PasskeyAdded, Name: pending.Name})
	if err != nil {
		return nil, "", s, err
	}
	return codes, fresh, s, nil
}

// RemovePasskey takes a passkey away, from whoever may do without. The recovery codes go
// with the last second factor.
func (d *Service) RemovePasskey(ctx context.Context, token string, id int64, given Credentials, address netip.Addr) (fresh string, s Session, err error) {
	return d.changeAtOnce(ctx, token, given, address, deedNoPasskey, func(record Record) (FactorChange, FactorNotice, error) {
		p := record.Account.Person
		c := FactorChange{DropPasskey: id}
		all, err := d.Passkeys(ctx, p.ID)
		if err != nil {
			return c, FactorNotice{}, err
		}
		name := ""
		for _, one := range all {
			if one.ID == id {
				name = one.Name
			}
		}
		last := !p.TOTP && p.Passkeys == 1
		switch {
		case name == "":
			return c, FactorNotice{}, refuse(OutOfTurn, noFactorText)
		case last && d.Requires(p):
			return c, FactorNotice{}, refuse(Required, requiredText)
		case last:
			c.RecoveryCodes = &RecoveryCodes{}
		}
		return c, FactorNotice{What: PasskeyRemoved, Name: name}, nil
	})
}

func encodePending(p pendingPasskey) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("keep a passkey that is being added: %w", err)
	}
	return text, nil
}

func decodePending(text []byte) (p pendingPasskey, err error) {
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read a passkey that is being added: %w", err)
	}
	return p, nil
}
