package signing

import (
	"encoding/hex"
	"strings"
	"testing"
)

// The cases of RFC 4231, section 4. Their messages are no requests, so they go to
// the one unexported method below Sign and Verify.
func TestMAC_RFC4231(t *testing.T) {
	tests := []struct{ name, key, data, want string }{
		{
			"1: a short key",
			strings.Repeat("\x0b", 20), "Hi There",
			"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
		},
		{
			"2: a key shorter than the hash",
			"Jefe", "what do ya want for nothing?",
			"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		},
		{
			"3: key and data longer than a block together",
			strings.Repeat("\xaa", 20), strings.Repeat("\xdd", 50),
			"773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
		},
		{
			"4: a key of all different bytes",
			"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19",
			strings.Repeat("\xcd", 50),
			"82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
		},
		{
			"5: the RFC gives only the first 128 bits",
			strings.Repeat("\x0c", 20), "Test With Truncation",
			"a3b6167473100ee06e0c796c2955552b",
		},
		{
			"6: a key longer than a block",
			strings.Repeat("\xaa", 131), "Test Using Larger Than Block-Size Key - Hash Key First",
			"60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
		},
		{
			"7: key and data longer than a block",
			strings.Repeat("\xaa", 131),
			"This is a test using a larger than block-size key and a larger than block-size data. " +
				"The key needs to be hashed before being used by the HMAC algorithm.",
			"9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state := NewKey(tt.key).states.Get().(*macState)
			for _, use := range []string{"first", "second", "third"} {
				sum := state.macOf([]byte(tt.data))
				if got := string(sum[:len(tt.want)]); got != tt.want {
					t.Errorf("%s use: mac = %s; want %s", use, got, tt.want)
				}
				if _, err := hex.DecodeString(string(sum)); err != nil || len(sum) != 64 {
					t.Errorf("%s use: mac = %q; want 64 hex characters", use, sum)
				}
				state.macOf([]byte("another request"))
			}
		})
	}
}
