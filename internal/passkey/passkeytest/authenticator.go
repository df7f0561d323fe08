// Package passkeytest is an authenticator without a device or a browser, for tests: it makes
// passkeys and answers challenges as a browser's script would send them.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"
)

// Authenticator holds one passkey.
type Authenticator struct {
	t testing.TB
	// Origin is where the browser is.
	Origin string
	// Count is the counter of the next use.
	Count uint32
	// Absent: the user does not touch it.
	Absent bool

	id  []byte
	key *ecdsa.PrivateKey
}

// New returns an authenticator at an origin.
func New(t testing.TB, origin string) *Authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 16)
	rand.Read(id)
	return &Authenticator{t: t, Origin: origin, Count: 1, id: id, key: key}
}

var base64url = base64.RawURLEncoding

// options are what an authenticator needs of those that the server gives.
type options struct {
	Challenge string `json:"challenge"`
	RPID      string `json:"rpId"`
	RP        struct {
		ID string `json:"id"`
	} `json:"rp"`
}

func (a *Authenticator) read(text string) (o options) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		a.t.Fatalf("read the options %q: %v", text, err)
	}
	return o
}

func (a *Authenticator) clientData(kind, challenge string) []byte {
	text, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.Origin, "crossOrigin": false})
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// data is the authenticator's, with so many flags beyond the user's presence.
func (a *Authenticator) data(site string, flags byte) []byte {
	hash := sha256.Sum256([]byte(site))
	if !a.Absent {
		flags |= 0x01
	}
	data := append(hash[:], flags)
	data = binary.BigEndian.AppendUint32(data, a.Count)
	a.Count++
	return data
}

// Create answers the options for a new passkey.
func (a *Authenticator) Create(text string) []byte {
	a.t.Helper()
	o := a.read(text)
	data := a.data(o.RP.ID, 0x40)
	data = append(data, make([]byte, 16)...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(a.id)))
	data = append(append(data, a.id...), a.publicKey()...)
	// CBOR: {"fmt": "none", "attStmt": {}, "authData": data}
	object := append([]byte{0xa3, 0x63}, "fmt"...)
	object = append(append(object, 0x64), "none"...)
	object = append(append(object, 0x67), "attStmt"...)
	object = append(append(object, 0xa0, 0x68), "authData"...)
	object = append(object, 0x58, byte(len(data)))
	object = append(object, data...)
	return a.answer(map[string]any{
		"clientDataJSON": base64url.EncodeToString(a.clientData("webauthn.create", o.Challenge)), "attestationObject": base64url.EncodeToString(object),
		"transports": []string{"internal"},
	})
}

// publicKey is the COSE key: {1: 2, 3: -7, -1: 1, -2: x, -3: y}.
func (a *Authenticator) publicKey() []byte {
	point, err := a.key.PublicKey.Bytes()
	if err != nil {
		a.t.Fatal(err)
	}
	cose := append([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33]...)
	return append(append(cose, 0x22, 0x58, 0x20), point[33:65]...)
}

// Use answers a challenge.
func (a *Authenticator) Use(text string) []byte {
	a.t.Helper()
	o := a.read(text)
	client, data := a.clientData("webauthn.get", o.Challenge), a.data(o.RPID, 0)
	hash := sha256.Sum256(client)
	signed := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, signed[:])
	if err != nil {
		a.t.Fatal(err)
	}
	return a.answer(map[string]any{
		"clientDataJSON": base64url.EncodeToString(client), "authenticatorData": base64url.EncodeToString(data), "signature": base64url.EncodeToString(signature),
	})
}

func (a *Authenticator) answer(response map[string]any) []byte {
	id := base64url.EncodeToString(a.id)
	text, err := json.Marshal(map[string]any{"id": id, "rawId": id, "type": "public-key", "clientExtensionResults": map[string]any{}, "response": response})
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}
