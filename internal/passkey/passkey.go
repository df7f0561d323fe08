// Package passkey makes the challenges of WebAuthn and checks what authenticators answer to
// them. It keeps nothing, asks for no time and knows no HTTP: whoever calls it stores the
// state of a challenge, lets it end, and uses it once.
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

// Site is where passkeys are made and used. A passkey that was made at one site is
// worthless at another, which is why a page that imitates ours gets nothing from it.
type Site struct {
	// ID is the relying party's: the host of the pages, without a port.
	ID string `json:"id"`
	// Origin is the host with scheme and port, as a browser names it.
	Origin string `json:"origin"`
}

// SiteOf is the site of an origin such as https://panel.example.com:8443. Passkeys need HTTPS
// and a name: an IP address is no site.
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

// User is whose passkeys they are.
type User struct {
	ID             int64
	Username, Name string
}

// Key is what is kept of a passkey.
type Key struct {
	CredentialID, PublicKey []byte
	SignCount               uint32
	// BackupEligible: the authenticator may copy it to other devices. That never changes.
	BackupEligible bool
	// Transports are how a browser reaches the authenticator, separated by commas.
	Transports string
}

// Use is what came of an answer to a challenge.
type Use struct {
	CredentialID []byte
	SignCount    uint32
	// CounterWentBack: the authenticator's counter is not higher than at the last use, so
	// that there may be a copy of the passkey.
	CounterWentBack bool
}

// largest is how many bytes of key and transports are kept of a passkey. Those of the
// largest algorithm in use, RSA of 4096 bits, have some 600.
const largest = 2048

// state is what is kept of a challenge until it is answered.
type state struct {
	Site    Site                 `json:"site"`
	Session webauthn.SessionData `json:"session"`
}

// BeginAdding makes a challenge to register a passkey: options for the browser, and the
// state to check its answer against. The user's present passkeys are not offered again.
func BeginAdding(site Site, user User, present []Key) (options, kept []byte, err error) {
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

// FinishAdding checks the browser's answer to a challenge of BeginAdding.
func FinishAdding(user User, kept, answer []byte) (Key, error) {
	party, before, err := resume(kept)
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
	if size := len(made.PublicKey) + len(strings.Join(transports, ",")); size > largest {
		return Key{}, fmt.Errorf("check a new passkey: its key and transports have %d bytes; at most %d are kept", size, largest)
	}
	return Key{
		CredentialID: made.ID, PublicKey: made.PublicKey, SignCount: made.Authenticator.SignCount,
		BackupEligible: made.Flags.BackupEligible, Transports: strings.Join(transports, ","),
	}, nil
}

// BeginUsing makes a challenge to show one of these passkeys.
func BeginUsing(site Site, user User, keys []Key) (options, kept []byte, err error) {
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

// FinishUsing checks the browser's answer to a challenge of BeginUsing. keys are the user's
// passkeys of the challenge's site.
func FinishUsing(user User, keys []Key, kept, answer []byte) (Use, error) {
	party, before, err := resume(kept)
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

// SiteIn is the site that a challenge was made for.
func SiteIn(kept []byte) (Site, error) {
	var before state
	err := json.Unmarshal(kept, &before)
	return before.Site, err
}

func resume(kept []byte) (*webauthn.WebAuthn, state, error) {
	var before state
	if err := json.Unmarshal(kept, &before); err != nil {
		return nil, before, fmt.Errorf("read a challenge: %w", err)
	}
	party, err := partyOf(before.Site)
	return party, before, err
}

// partyOf demands the user's presence always, and verification of the user (a PIN or a
// finger) where the authenticator can: the password was given already. It asks for no
// attestation, since every make of authenticator is welcome, and for no discoverable
// credential, of which hardware keys store few.
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

func encode(options any, before state) (shown, kept []byte, err error) {
	if shown, err = json.Marshal(options); err == nil {
		kept, err = json.Marshal(before)
	}
	return shown, kept, err
}

// detailed adds what go-webauthn has to say to developers; it is for the log.
func detailed(err error) error {
	var told *protocol.Error
	if errors.As(err, &told) && told.DevInfo != "" {
		return fmt.Errorf("%w (%s)", err, told.DevInfo)
	}
	return err
}

// account is a user as go-webauthn sees one.
type account struct {
	User
	keys []Key
}

// WebAuthnID tells nothing about the person.
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
