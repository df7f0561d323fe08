package receipt

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"
)

// ring has keys by their ids.
type ring struct {
	current uint32
	keys    map[uint32][]byte
}

func (r *ring) CurrentID() uint32 { return r.current }

func (r *ring) Key(id uint32) ([]byte, bool) {
	key, known := r.keys[id]
	return key, known
}

const transaction = "CX06GXWGBNHVRF24V8T9H0X4VBBC"

func TestLinks_OpenWhatWasSigned(t *testing.T) {
	now := time.Date(2027, 3, 1, 6, 30, 0, 0, time.UTC)
	keys := &ring{1, map[uint32][]byte{1: []byte("first")}}
	links := NewLinks(keys, func() time.Time { return now })
	token, ends, ok := links.Make(transaction)
	if !ok || !ends.Equal(now.Add(30*24*time.Hour)) {
		t.Fatalf("made %v, ending %s", ok, ends)
	}
	opens := func(token string) bool {
		id, _, ok := links.Open(token)
		return ok && id == transaction
	}
	if !opens(token) {
		t.Fatal("it does not open")
	}

	// After the master key was replaced twice, the data key is still there.
	keys.current, keys.keys[2], keys.keys[3] = 3, []byte("second"), []byte("third")
	if !opens(token) {
		t.Error("it does not open under a new master key")
	}
	if newer, _, _ := links.Make(transaction); newer == token || !opens(newer) {
		t.Error("a newer link is not signed with the newer key")
	}

	// Any other character makes another link, which nobody has signed.
	for i := range token {
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=. " {
			if forged := token[:i] + string(c) + token[i+1:]; forged != token && opens(forged) {
				t.Fatalf("%s opens as well as %s", forged, token)
			}
		}
		if opens(token[:i]) || opens(token+token[:i+1]) {
			t.Fatalf("a part of the link opens, or more than it: %d", i)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	if opens(base64.URLEncoding.EncodeToString(raw)) && len(raw)%3 != 0 {
		t.Error("it opens with padding, too")
	}

	now = ends.Add(-time.Second)
	if !opens(token) {
		t.Error("it does not open in its last second")
	}
	now = ends
	if opens(token) {
		t.Error("it opens after its end")
	}
	delete(keys.keys, 3)
	if _, _, ok := links.Make(transaction); ok {
		t.Error("a link was made without a key")
	}
}

func TestReceipt_WhatsAppMessageArrivesAsItIs(t *testing.T) {
	r := Receipt{Customer: "Meena Das", Mobile: "9876543210"}
	const message = "Receipt R26-27/000001: ₹199.00 & more + 50%\nhttps://panel.example/r/a-b_c?x=1#y नमस्ते"
	got := r.WhatsApp(message)
	link, err := url.Parse(got)
	if err != nil || link.Host != "wa.me" || link.Path != "/919876543210" || link.Query().Get("text") != message || len(link.Query()) != 1 {
		t.Errorf("%s opens %v, %v", got, link, err)
	}
	if strings.ContainsAny(got, " \n+") {
		t.Errorf("%s has characters that a message may lose", got)
	}
	r.Customer, r.Mobile = "(forgotten)", "0000000000"
	if r.WhatsApp(message) != "" || r.MaskedMobile() != "" {
		t.Errorf("a forgotten customer has %q and %q", r.WhatsApp(message), r.MaskedMobile())
	}
}

func TestReceipt_MasksTheMobileNumber(t *testing.T) {
	if got := (Receipt{Mobile: "9876543210"}).MaskedMobile(); got != "••••••3210" {
		t.Errorf("the masked number is %q", got)
	}
}
