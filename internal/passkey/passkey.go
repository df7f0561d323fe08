// Package passkey creates WebAuthn challenges and verifies the responses of authenticators.
// It has no state, clock or HTTP: the caller stores the state of a challenge, expires it, and
// makes sure that it is used once.
//
// It is the only package that imports go-webauthn.
package passkey

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

// Site is the relying party. A passkey works only at the site it was registered at, so a
// phishing page cannot use it.
type Site struct {
	// ID is the relying party's id: the host of the pages, without a port.
	ID string `json:"id"`
	// Origin is the origin as a browser sends it, with scheme and port.
	Origin string `json:"origin"`
}

// SiteOf returns the site of an origin such as https://panel.example.com:8443. It is false
// for an IP address or without HTTPS, where passkeys do not work.
func SiteOf(origin string) (Site, bool) {
	at, err := url.Parse(strings.ToLower(origin))
	if err != nil || at.Scheme != "https" || at.User != nil || strings.TrimSuffix(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "" {
		return Site{}, false
	}
	id := strings.TrimSuffix(at.Hostname(), ".")
	if protocol.ValidateRPID(id) != nil {
		return Site{}, false
	}
	host := at.Host
	if at.Port() == "443" {
		host = at.Hostname()
	}
	return Site{ID: id, Origin: "https://" + host}, true
}

// User is the owner of passkeys.
type User struct {
	ID             int64
	Username, Name string
}

// Key is the stored part of a passkey.
type Key struct {
	CredentialID, PublicKey []byte
	SignCount               uint32
	// BackupEligible is set if the authenticator may copy it to other devices. It never
	// changes.
	BackupEligible bool
	// Transports are how a browser reaches the authenticator, separated by commas.
	Transports string
}

// Use is the result of a verified response to a challenge.
type Use struct {
	CredentialID []byte
	SignCount    uint32
	// CounterWentBack is set if the authenticator's counter is not higher than at the last
	// use: there may be a copy of the passkey.
	CounterWentBack bool
}

// maxKeyBytes is the maximum size of a passkey's public key and transports. The largest
// algorithm in use, RSA with 4096 bits, needs about 600.
const maxKeyBytes = 2048

// state is the stored state of a challenge.
type state struct {
	Site    Site                 `json:"site"`
	Session webauthn.SessionData `json:"session"`
}

// BeginAdding creates a challenge to register a passkey: options for the browser, and the
// state to verify its response with. The user's present passkeys are excluded.
func BeginAdding(site Site, user User, present []Key) (options, saved []byte, err error) {
	party, err := partyOf(site)
	if err != nil {
		return nil, nil, err
	}
	someone := account{user, present}
	var exclude []protocol.CredentialDescriptor
	for _, c := range someone.WebAuthnCredentials() {
		exclude = append(exclude, c.Descriptor())
	}
	creation, session, err := party.BeginRegistration(someone, webauthn.WithExclusions(exclude))
	if err != nil {
		return nil, nil, fmt.Errorf("make a challenge for a new passkey: %w", detailed(err))
	}
	return encode(creation.Response, state{site, *session})
}

// FinishAdding verifies the browser's response to a challenge of BeginAdding.
func FinishAdding(user User, saved, answer []byte) (Key, error) {
	party, before, err := resume(saved)
	if err != nil {
		return Key{}, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return Key{}, fmt.Errorf("read a new passkey: %w", detailed(err))
	}
	made, err := party.CreateCredential(account{User: user}, before.Session, parsed)
	if err != nil {
		return Key{}, fmt.Errorf("check a new passkey: %w", detailed(err))
	}
	var transports []string
	for _, t := range made.Transport {
		transports = append(transports, string(t))
	}
	if size := len(made.PublicKey) + len(strings.Join(transports, ",")); size > maxKeyBytes {
		return Key{}, fmt.Errorf("check a new passkey: its key and transports have %d bytes; at most %d are allowed", size, maxKeyBytes)
	}
	return Key{
		CredentialID: made.ID, PublicKey: made.PublicKey, SignCount: made.Authenticator.SignCount,
		BackupEligible: made.Flags.BackupEligible, Transports: strings.Join(transports, ","),
	}, nil
}

// BeginUsing creates a challenge to sign in with one of these passkeys.
func BeginUsing(site Site, user User, keys []Key) (options, saved []byte, err error) {
	party, err := partyOf(site)
	if err != nil {
		return nil, nil, err
	}
	assertion, session, err := party.BeginLogin(account{user, keys})
	if err != nil {
		return nil, nil, fmt.Errorf("make a challenge for a passkey: %w", detailed(err))
	}
	return encode(assertion.Response, state{site, *session})
}

// FinishUsing verifies the browser's response to a challenge of BeginUsing. keys are the
// user's passkeys at the challenge's site.
func FinishUsing(user User, keys []Key, saved, answer []byte) (Use, error) {
	party, before, err := resume(saved)
	if err != nil {
		return Use{}, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Use{}, fmt.Errorf("read a passkey's answer: %w", detailed(err))
	}
	used, err := party.ValidateLogin(account{user, keys}, before.Session, parsed)
	if err != nil {
		return Use{}, fmt.Errorf("check a passkey's answer: %w", detailed(err))
	}
	return Use{
		CredentialID: used.ID, SignCount: parsed.Response.AuthenticatorData.Counter, CounterWentBack: used.Authenticator.CloneWarning,
	}, nil
}

// SiteIn returns the site that a challenge was created for.
func SiteIn(saved []byte) (Site, error) {
	var before state
	err := json.Unmarshal(saved, &before)
	return before.Site, err
}

func resume(saved []byte) (*webauthn.WebAuthn, state, error) {
	var before state
	if err := json.Unmarshal(saved, &before); err != nil {
		return nil, before, fmt.Errorf("read a challenge: %w", err)
	}
	party, err := partyOf(before.Site)
	return party, before, err
}

// partyOf requires the user's presence, and prefers verification of the user (a PIN or a
// fingerprint), which may be missing because a password was given before. It requests no
// attestation, since every make of authenticator is accepted, and no discoverable credential,
// because hardware keys store few of them.
func partyOf(site Site) (*webauthn.WebAuthn, error) {
	party, err := webauthn.New(&webauthn.Config{
		RPID: site.ID, RPDisplayName: "Coax", RPOrigins: []string{site.Origin}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementDiscouraged, RequireResidentKey: protocol.ResidentKeyNotRequired(),
			UserVerification: protocol.VerificationPreferred,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("passkeys of %s: %w", site.Origin, err)
	}
	return party, nil
}

func encode(options any, before state) (shown, saved []byte, err error) {
	if shown, err = json.Marshal(options); err == nil {
		saved, err = json.Marshal(before)
	}
	return shown, saved, err
}

// detailed adds go-webauthn's details for developers, for the log.
func detailed(err error) error {
	var failure *protocol.Error
	if errors.As(err, &failure) && failure.DevInfo != "" {
		return fmt.Errorf("%w (%s)", err, failure.DevInfo)
	}
	return err
}

// account implements webauthn.User.
type account struct {
	User
	keys []Key
}

// WebAuthnID has no personal data, as the standard requires.
func (a account) WebAuthnID() []byte          { return fmt.Appendf(nil, "coax login %d", a.ID) }
func (a account) WebAuthnName() string        { return a.Username }
func (a account) WebAuthnDisplayName() string { return a.Name }

func (a account) WebAuthnCredentials() []webauthn.Credential {
	all := make([]webauthn.Credential, len(a.keys))
	for i, key := range a.keys {
		all[i] = webauthn.Credential{
			ID: key.CredentialID, PublicKey: key.PublicKey, Authenticator: webauthn.Authenticator{SignCount: key.SignCount},
			Flags: webauthn.CredentialFlags{BackupEligible: key.BackupEligible},
		}
		for transport := range strings.SplitSeq(key.Transports, ",") {
			if transport != "" {
				all[i].Transport = append(all[i].Transport, protocol.AuthenticatorTransport(transport))
			}
		}
	}
	return all
}
