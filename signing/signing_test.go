package signing_test

import (
	"strings"
	"testing"

	"github.com/coaxhq/coax/signing"
)

const secret = "cxs_published_test_secret_never_issued_0001"

func renewal() signing.Request {
	return signing.Request{
		Method:    "POST",
		Path:      "/api/v1/renew",
		Timestamp: "1767225600",
		Nonce:     "a_nonce_of_this_test",
		Body:      []byte(`{"subscriber_id":"204417","plan_id":"BASIC-1"}`),
	}
}

func TestSign_NilBodyEqualsEmpty(t *testing.T) {
	none, empty := renewal(), renewal()
	none.Body, empty.Body = nil, []byte{}
	if got, want := none.Sign(secret), empty.Sign(secret); got != want {
		t.Errorf("Sign without a body = %s; with an empty one %s", got, want)
	}
}

func TestStringToSign_MethodIsUpperCase(t *testing.T) {
	r := renewal()
	r.Method = "`abcdefghijklmnopqrstuvwxyz{@AZ["
	if got, _, _ := strings.Cut(r.StringToSign(), "\n"); got != "`ABCDEFGHIJKLMNOPQRSTUVWXYZ{@AZ[" {
		t.Errorf("the first line is %q; want the letters in upper case and nothing else changed", got)
	}
}

func TestStringToSign_LongSIsNoPost(t *testing.T) {
	r := renewal()
	r.Method, r.RawQuery = "poſt", "a=1"
	want := "POſT\n/api/v1/renew\na=1\n1767225600\na_nonce_of_this_test\n" + signing.BodySHA256(r.Body)
	if got := r.StringToSign(); got != want {
		t.Errorf("StringToSign = %q; want %q", got, want)
	}
}

func TestVerify_EmptySecret(t *testing.T) {
	r := renewal()
	if r.Verify("", r.Sign("")) {
		t.Error("Verify with an empty secret = true; want false")
	}
}

func TestVerify_RejectsLineFeeds(t *testing.T) {
	a, b := renewal(), renewal()
	a.Timestamp, a.Nonce = "1767225600\n1767225601", "a_nonce_of_this_test"
	b.Timestamp, b.Nonce = "1767225600", "1767225601\na_nonce_of_this_test"
	if a.StringToSign() != b.StringToSign() {
		t.Fatal("the two requests no longer share a string; the test needs another pair")
	}
	if signature := a.Sign(secret); a.Verify(secret, signature) || b.Verify(secret, signature) {
		t.Error("Verify of a request with a line feed in a field = true; want false")
	}
}

func BenchmarkSign(b *testing.B) {
	r := renewal()
	b.ReportAllocs()
	for b.Loop() {
		r.Sign(secret)
	}
}

func BenchmarkVerify(b *testing.B) {
	r := renewal()
	signature := r.Sign(secret)
	b.ReportAllocs()
	for b.Loop() {
		if !r.Verify(secret, signature) {
			b.Fatal("Verify = false; want true")
		}
	}
}
