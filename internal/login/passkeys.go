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
	// MaxPasskeys is how many passkeys a person can have.
	MaxPasskeys = 10
	// MaxPasskeyName is how many characters a passkey's name can have.
	MaxPasskeyName = 40
)

// Site is the relying party of passkeys.
type Site = passkey.Site

// SiteOf returns the site of an origin such as https://panel.example.com; false where
// passkeys do not work, such as at an IP address.
func SiteOf(origin string) (Site, bool) { return passkey.SiteOf(origin) }

// PasskeyChallenge is what a page needs to request a passkey.
type PasskeyChallenge struct {
	// Options are for the browser, in JSON; empty if none of the person's passkeys works
	// at this site.
	Options string
	// Elsewhere are the sites of the person's passkeys, if none is of this one.
	Elsewhere []string
}

// PasskeyOffer is a passkey that is being added.
type PasskeyOffer struct {
	// Options are for the browser, in JSON. Ticket goes with its response.
	Options, Ticket string
}

// pendingPasskey is what is stored of a passkey that is being added.
type pendingPasskey struct {
	Name  string `json:"name"`
	State []byte `json:"state"`
}

func userOf(p Person) passkey.User {
	return passkey.User{ID: p.ID, Username: p.Username, Name: p.Name}
}

// Passkeys lists a person's passkeys, the oldest first.
func (svc *Service) Passkeys(ctx context.Context, personID int64) ([]Passkey, error) {
	all, err := svc.store.Passkeys(ctx, personID)
	if err != nil {
		return nil, fmt.Errorf("list the passkeys of login %d: %w", personID, err)
	}
	return all, nil
}

// RecoveryCodesLeft counts a person's unused recovery codes.
func (svc *Service) RecoveryCodesLeft(ctx context.Context, personID int64) (int, error) {
	left, err := svc.store.RecoveryCodesLeft(ctx, personID)
	if err != nil {
		return 0, fmt.Errorf("count the recovery codes of login %d: %w", personID, err)
	}
	return left, nil
}

// passkeysAt returns a person's passkeys of a site, and the sites of the others.
func (svc *Service) passkeysAt(ctx context.Context, personID int64, siteID string) (here []Passkey, keys []passkey.Key, elsewhere []string, err error) {
	all, err := svc.Passkeys(ctx, personID)
	for _, p := range all {
		if p.SiteID != siteID {
			elsewhere = append(elsewhere, p.SiteID)
			continue
		}
		here, keys = append(here, p), append(keys, p.Key)
	}
	return here, keys, elsewhere, err
}

// ChallengePasskey makes a challenge for the passkeys of a session's person, replacing an
// earlier one. It is valid once, and for a few minutes.
func (svc *Service) ChallengePasskey(ctx context.Context, token string, site Site) (PasskeyChallenge, error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil || record.Account.Passkeys == 0 {
		return PasskeyChallenge{}, err
	}
	_, keys, elsewhere, err := svc.passkeysAt(ctx, record.Account.ID, site.ID)
	if err != nil || len(keys) == 0 {
		return PasskeyChallenge{Elsewhere: elsewhere}, err
	}
	options, state, err := passkey.BeginUsing(site, userOf(record.Account.Person), keys)
	if err != nil {
		return PasskeyChallenge{}, err
	}
	err = svc.store.SaveChallenge(ctx, Challenge{
		ChallengeRef: ChallengeRef{SessionID: record.ID, Kind: ChallengeUse, Ticket: HashToken(newToken())}, State: state, ExpiresAt: now.Add(challengeFor),
	})
	if err != nil {
		return PasskeyChallenge{}, signedOutIfChanged(err)
	}
	return PasskeyChallenge{Options: string(options)}, nil
}

// passkeyProof verifies a passkey's response to the session's challenge. A passkey whose
// counter went back is refused: it may be a copy.
func (svc *Service) passkeyProof(ctx context.Context, record Record, response []byte, address netip.Addr, now time.Time) (Proof, error) {
	challenge, found, err := svc.store.ChallengeOf(ctx, record.ID, ChallengeUse)
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
	here, keys, _, err := svc.passkeysAt(ctx, record.Account.ID, site.ID)
	if err != nil {
		return Proof{}, err
	}
	use, err := passkey.FinishUsing(userOf(record.Account.Person), keys, challenge.State, response)
	if err != nil {
		return Proof{}, refuse(WrongPasskey, wrongPasskeyText)
	}
	for _, p := range here {
		if !bytes.Equal(p.Key.CredentialID, use.CredentialID) {
			continue
		}
		if use.CounterWentBack {
			svc.observe(ctx, Event{
				Kind: PasskeyWentBack, Reason: string(PasskeyCopied), Person: record.Account.Person, SessionID: record.ID, Factor: factorPasskey,
				Address: address, Agent: record.Agent,
			})
			return Proof{}, refuse(PasskeyCopied, copiedText)
		}
		return Proof{Passkey: &PasskeyProof{ID: p.ID, SignCount: use.SignCount, Challenge: challenge.ChallengeRef}}, nil
	}
	return Proof{}, refuse(WrongPasskey, wrongPasskeyText)
}

// VerifyPasskey is the second step of signing in, by a passkey.
func (svc *Service) VerifyPasskey(ctx context.Context, token string, answer []byte, address netip.Addr, browsers string) (fresh string, s Session, err error) {
	return svc.verifyFactor(ctx, token, Credentials{Passkey: answer}, address, browsers)
}

// StepUpPasskey is StepUp with a passkey as the second factor.
func (svc *Service) StepUpPasskey(ctx context.Context, token, password string, answer []byte, address netip.Addr) (fresh string, s Session, err error) {
	return svc.stepUp(ctx, token, Credentials{Password: password, Passkey: answer}, address)
}

// BeginPasskey starts adding a passkey under a name. FinishPasskey adds it, given the
// browser's response and the ticket.
func (svc *Service) BeginPasskey(ctx context.Context, token string, site Site, name string, given Credentials, address netip.Addr) (offer PasskeyOffer, fresh string, s Session, err error) {
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n == 0 || n > MaxPasskeyName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return offer, "", s, refuse(InvalidPasskey, nameText)
	}
	if site.ID == "" {
		return offer, "", s, refuse(InvalidPasskey, noSiteText)
	}
	offer.Ticket, fresh, s, err = svc.begin(ctx, token, given, address, ChallengeAdd, func(record Record) ([]byte, error) {
		if record.Account.Passkeys >= MaxPasskeys {
			return nil, refuse(InvalidPasskey, tooManyText)
		}
		_, keys, _, err := svc.passkeysAt(ctx, record.Account.ID, site.ID)
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

// FinishPasskey adds the passkey that the browser has created. With the first second
// factor it returns recovery codes, to be shown once.
func (svc *Service) FinishPasskey(ctx context.Context, token, ticket string, answer []byte, address netip.Addr) (codes []string, fresh string, s Session, err error) {
	record, challenge, err := svc.finish(ctx, token, ticket, ChallengeAdd)
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
		err = refuse(InvalidPasskey, badPasskeyText)
		svc.observeProof(ctx, record, address, "", FactorChangeFailed, factorPasskey, err)
		return nil, "", s, err
	}
	now := svc.config.Now()
	c := FactorChange{Challenge: &challenge.ChallengeRef, At: now, AddPasskey: &Passkey{Name: pending.Name, CreatedAt: now, SiteID: site.ID, Key: key}}
	if !record.Account.SecondFactor() {
		c.RecoveryCodes = &RecoveryCodes{}
		if codes, *c.RecoveryCodes, err = newRecoveryCodes(ctx); err != nil {
			return nil, "", s, busy(err)
		}
	}
	fresh, s, err = svc.change(ctx, token, record, actionPasskey, c, FactorNotice{What: PasskeyAdded, Name: pending.Name})
	if err != nil {
		return nil, "", s, err
	}
	return codes, fresh, s, nil
}

// RemovePasskey removes a passkey, unless it is the last second factor and one is required.
// The recovery codes are removed with the last second factor.
func (svc *Service) RemovePasskey(ctx context.Context, token string, id int64, given Credentials, address netip.Addr) (fresh string, s Session, err error) {
	return svc.changeAtOnce(ctx, token, given, address, actionNoPasskey, func(record Record) (FactorChange, FactorNotice, error) {
		p := record.Account.Person
		c := FactorChange{DropPasskey: id}
		all, err := svc.Passkeys(ctx, p.ID)
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
			return c, FactorNotice{}, refuse(WrongStage, noFactorText)
		case last && svc.RequiresSecondFactor(p):
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
		return nil, fmt.Errorf("encode a pending passkey: %w", err)
	}
	return text, nil
}

func decodePending(text []byte) (p pendingPasskey, err error) {
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read a pending passkey: %w", err)
	}
	return p, nil
}
