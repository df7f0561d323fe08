package sdk

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
)

// Every SDK signs the published requests as published, and makes none of the published
// mistakes.
func TestVectors(t *testing.T) {
	forEach(t, func(t *testing.T, l language) {
		d := l.start(t)
		checked := 0
		files, err := fs.Glob(contract.Vectors, "vectors/*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(contract.Vectors, file)
			if err != nil {
				t.Fatal(err)
			}
			var set struct {
				Verifies bool
				Vectors  []struct {
					Name, Secret, Method, Path, Timestamp, Nonce, Signature, Body string
					RawQuery                                                      string  `json:"raw_query"`
					Base64                                                        string  `json:"body_base64"`
					Correct                                                       *string `json:"correct_signature"`
				}
			}
			if err := json.Unmarshal(text, &set); err != nil {
				t.Fatal(err)
			}
			for _, v := range set.Vectors {
				if !set.Verifies && v.Correct == nil {
					continue // no signature is right
				}
				body := v.Base64
				if body == "" {
					body = base64.StdEncoding.EncodeToString([]byte(v.Body))
				}
				got := d.do(t, order{
					ID: v.Name, BaseURL: "https://coax.example/api/v1", APIKey: "cxk_" + strings.Repeat("0", 32), APISecret: v.Secret,
					Operation: "sign", Method: v.Method, Path: v.Path, Query: v.RawQuery, Bytes: body, Timestamp: v.Timestamp, Nonce: v.Nonce,
				})
				want := v.Signature
				if v.Correct != nil {
					want = *v.Correct
				}
				checked++
				if got.Signature != want {
					t.Errorf("%s: %s is signed %q; want %s", file, v.Name, got.Signature, want)
				}
			}
		}
		if checked < 50 {
			t.Errorf("only %d vectors were checked", checked)
		}
	})
}
