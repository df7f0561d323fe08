package signing_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/signing"
)

// vector is one published test vector. Valid and invalid ones share the request;
// contract/vectors/README.md says which other fields belong to which.
type vector struct {
	Name       string  `json:"name"`
	Secret     string  `json:"secret"`
	Method     string  `json:"method"`
	Path       string  `json:"path"`
	RawQuery   string  `json:"raw_query"`
	Timestamp  string  `json:"timestamp"`
	Nonce      string  `json:"nonce"`
	Body       *string `json:"body"`
	BodyBase64 []byte  `json:"body_base64"`

	CanonicalQuery string   `json:"canonical_query"`
	BodySHA256     string   `json:"body_sha256"`
	Lines          []string `json:"lines"`
	StringToSign   string   `json:"string_to_sign"`
	Signature      string   `json:"signature"`

	Reason           string `json:"reason"`
	CorrectSignature string `json:"correct_signature"`
	MadeFrom         *struct {
		Secret string `json:"secret"`
		Text   string `json:"text"`
	} `json:"made_from"`
}

func (v vector) request() signing.Request {
	body := v.BodyBase64
	if v.Body != nil {
		body = []byte(*v.Body)
	}
	return signing.Request{
		Method:    v.Method,
		Path:      v.Path,
		RawQuery:  v.RawQuery,
		Timestamp: v.Timestamp,
		Nonce:     v.Nonce,
		Body:      body,
	}
}

// vectors returns the published vectors that do, or do not, verify.
func vectors(t *testing.T, verifies bool) []vector {
	t.Helper()
	names, err := fs.Glob(contract.Vectors, "vectors/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var found []vector
	for _, name := range names {
		text, err := contract.Vectors.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			About    string   `json:"about"`
			Verifies bool     `json:"verifies"`
			Vectors  []vector `json:"vectors"`
		}
		// An unknown field is a typo, and its check would never run.
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if file.Verifies == verifies {
			found = append(found, file.Vectors...)
		}
	}
	return found
}

func TestVectors_Match(t *testing.T) {
	found := vectors(t, true)
	// Without files the test would pass.
	if len(found) < 180 {
		t.Fatalf("found %d vectors; want at least 180", len(found))
	}
	for _, v := range found {
		t.Run(v.Name, func(t *testing.T) {
			r := v.request()
			if !strings.EqualFold(v.Method, "POST") {
				if got := signing.CanonicalQuery(v.RawQuery); got != v.CanonicalQuery {
					t.Errorf("CanonicalQuery(%q) = %q; want %q", v.RawQuery, got, v.CanonicalQuery)
				}
			}
			if got := signing.BodySHA256(r.Body); got != v.BodySHA256 {
				t.Errorf("BodySHA256 = %s; want %s", got, v.BodySHA256)
			}
			got := r.StringToSign()
			if got != v.StringToSign {
				t.Errorf("StringToSign = %q; want %q", got, v.StringToSign)
			}
			if lines := strings.Split(got, "\n"); !slices.Equal(lines, v.Lines) {
				t.Errorf("lines = %q; want %q", lines, v.Lines)
			}
			if got := r.Sign(v.Secret); got != v.Signature {
				t.Errorf("Sign = %s; want %s", got, v.Signature)
			}
			if !r.Verify(v.Secret, v.Signature) {
				t.Error("Verify = false; want true")
			}
		})
	}
}

func TestVectors_InvalidDoNotVerify(t *testing.T) {
	found := vectors(t, false)
	if len(found) < 90 {
		t.Fatalf("found %d invalid vectors; want at least 90", len(found))
	}
	for _, v := range found {
		t.Run(v.Name, func(t *testing.T) {
			r := v.request()
			if r.Verify(v.Secret, v.Signature) {
				t.Errorf("Verify(%q) = true; want false: %s", v.Signature, v.Reason)
			}
			// The rest of the vector is valid, so only the mistake makes it fail.
			if v.CorrectSignature != "" && !r.Verify(v.Secret, v.CorrectSignature) {
				t.Error("Verify of the correct signature = false; want true")
			}
		})
	}
}

func TestVerify_IgnoresQueryOrder(t *testing.T) {
	for _, v := range vectors(t, true) {
		r := v.request()
		parts := strings.Split(r.RawQuery, "&")
		slices.Reverse(parts)
		r.RawQuery = strings.Join(parts, "&")
		if !r.Verify(v.Secret, v.Signature) {
			t.Errorf("%s: Verify with the query reversed to %q = false; want true", v.Name, r.RawQuery)
		}
	}
}

func TestVerify_CoversEverySignedPart(t *testing.T) {
	for _, v := range vectors(t, true) {
		changes := map[string]func(*signing.Request){
			"method":           func(r *signing.Request) { r.Method = "PUT" },
			"path":             func(r *signing.Request) { r.Path += "/" },
			"timestamp":        func(r *signing.Request) { r.Timestamp += "0" },
			"nonce":            func(r *signing.Request) { r.Nonce += "x" },
			"body":             func(r *signing.Request) { r.Body = append(slices.Clone(r.Body), ' ') },
			"digit to nonce":   func(r *signing.Request) { r.Timestamp, r.Nonce = move(r.Timestamp, r.Nonce) },
			"letter to query":  func(r *signing.Request) { r.Path, r.RawQuery = move(r.Path, r.RawQuery) },
			"empty query part": func(r *signing.Request) { r.RawQuery += "&" },
		}
		if strings.EqualFold(v.Method, "POST") {
			delete(changes, "empty query part") // a POST's query is not signed
		}
		for what, change := range changes {
			r := v.request()
			change(&r)
			if r.Verify(v.Secret, v.Signature) {
				t.Errorf("%s: Verify with another %s = true; want false", v.Name, what)
			}
		}
		if v.request().Verify(v.Secret+"x", v.Signature) || v.request().Verify(v.Secret[1:], v.Signature) {
			t.Errorf("%s: Verify with another secret = true; want false", v.Name)
		}
	}
}

// move moves the last byte of a to the start of b: joined without a separator the
// two would be the same.
func move(a, b string) (string, string) {
	last := len(a) - 1
	return a[:last], a[last:] + b
}

func TestVerify_ComparesEveryDigit(t *testing.T) {
	v := vectors(t, true)[0]
	r := v.request()
	for i := range v.Signature {
		for _, digit := range []byte("0123456789abcdefABCDEFg \n\x00") {
			changed := []byte(v.Signature)
			changed[i] = digit
			want := digit == v.Signature[i]
			if got := r.Verify(v.Secret, string(changed)); got != want {
				t.Errorf("Verify(%q) = %t; want %t", changed, got, want)
			}
		}
	}
}
