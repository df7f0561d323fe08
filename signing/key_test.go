package signing

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestKey_IsSafeForConcurrentUse(t *testing.T) {
	key := NewKey("cxs_secret")
	var signing sync.WaitGroup
	for worker := range 8 {
		signing.Go(func() {
			for n := range 200 {
				request := Request{
					Method: "POST", Path: "/api/v1/renew", Timestamp: "1800000000", Nonce: fmt.Sprint("nonce-", worker, "-", n),
					Body: []byte(strings.Repeat("x", n)),
				}
				signature := key.Sign(request)
				if want := request.Sign("cxs_secret"); signature != want {
					t.Errorf("signed %s; want %s", signature, want)
				}
				if !key.Verify(request, signature) {
					t.Error("its own signature was refused")
				}
				request.Nonce += "x"
				if key.Verify(request, signature) {
					t.Error("the signature of another request was accepted")
				}
			}
		})
	}
	signing.Wait()
}

func TestKey_IsRedacted(t *testing.T) {
	key := NewKey("hunter2")
	key.Sign(Request{Method: "GET"})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		for _, value := range []any{key, struct{ k *Key }{key}} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
				t.Errorf("%s shows %s", verb, text)
			}
		}
	}
}

func TestKey_EmptySecret(t *testing.T) {
	request := Request{Method: "GET", Path: "/api/v1/balance"}
	key := NewKey("")
	if key.Verify(request, key.Sign(request)) {
		t.Error("a signature under no secret was accepted")
	}
}

func BenchmarkKey(b *testing.B) {
	request := Request{Method: "GET", Path: "/api/v1/balance", Timestamp: "1800000000", Nonce: "0123456789abcdef0123456789abcdef"}
	secret := "cxs_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	signature := request.Sign(secret)
	b.Run("with a Key", func(b *testing.B) {
		key := NewKey(secret)
		b.ReportAllocs()
		for b.Loop() {
			if !key.Verify(request, signature) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("with the secret", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !request.Verify(secret, signature) {
				b.Fatal("refused")
			}
		}
	})
}
