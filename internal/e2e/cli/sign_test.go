package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/internal/e2e"
)

func TestSign_PublishedVectors(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"get.json", "post.json"} {
		text, err := contract.Vectors.ReadFile("vectors/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Vectors []struct {
				Name, Secret, Method, Path, Timestamp, Nonce, Body, Signature string
				RawQuery                                                      string `json:"raw_query"`
				CanonicalQuery                                                string `json:"canonical_query"`
				Lines                                                         []string
			}
		}
		if err := json.Unmarshal(text, &file); err != nil || len(file.Vectors) == 0 {
			t.Fatalf("%s: %v, %d vectors", name, err, len(file.Vectors))
		}
		for _, vector := range file.Vectors {
			t.Run(vector.Name, func(t *testing.T) {
				target := vector.Path
				if vector.RawQuery != "" {
					target += "?" + vector.RawQuery
				}
				body := e2e.WriteFile(t, filepath.Join(t.TempDir(), "body"), vector.Body)
				got := e2e.RunWithEnv(t, []string{"COAX_API_SECRET=" + vector.Secret}, "sign", strings.ToLower(vector.Method), target,
					"--data", "@"+body, "--timestamp", vector.Timestamp, "--nonce", vector.Nonce)
				lines := strings.Split(e2e.RequireOK(t, got).Out, "\n")
				// After a heading, each of the six with its number and name.
				for i, want := range vector.Lines {
					if at := lines[1+i]; !strings.HasPrefix(at, fmt.Sprintf("%d ", i+1)) || !strings.HasSuffix(at, " "+want) {
						t.Errorf("line %d is %q; want it to end in %q", i+1, at, want)
					}
				}
				rest := strings.Join(lines[1+len(vector.Lines):], "\n")
				for label, want := range map[string]string{
					"canonical query": vector.CanonicalQuery, "X-Timestamp": vector.Timestamp, "X-Nonce": vector.Nonce, "X-Signature": vector.Signature,
				} {
					if !regexp.MustCompile(`(?m)^` + label + ` +` + regexp.QuoteMeta(want) + `$`).MatchString(rest) {
						t.Errorf("%s is not %q in\n%s", label, want, rest)
					}
				}
				cliCheckSecretHidden(t, got, vector.Secret)
			})
		}
	}
}

// sign takes the arguments of call and sends nothing.
func TestSign_TakesArgumentsOfCall(t *testing.T) {
	t.Parallel()
	received, environ := cliRecorder(t, "")
	args := []string{"sign", "POST", "renew", "--data", `{"a":1}`, "--idempotency-key", "order-1"}
	e2e.CheckMentions(t, "sign", e2e.RequireOK(t, e2e.RunWithEnv(t, environ, args...)).Out, "/api/v1/renew")
	select {
	case got := <-received:
		t.Errorf("sign sent %+v", got)
	default:
	}
}

func TestSign_NeedsOnlySecret(t *testing.T) {
	t.Parallel()
	const secret = "cxs_do_not_show_me"
	environ := []string{"COAX_API_SECRET=" + secret}
	first := e2e.RequireOK(t, e2e.RunWithEnv(t, environ, "sign", "GET", "balance"))
	e2e.CheckMentions(t, "sign by name", first.Out, "GET", "/api/v1/balance")
	cliCheckSecretHidden(t, first, secret)
	if second := e2e.RequireOK(t, e2e.RunWithEnv(t, environ, "sign", "GET", "balance")); second.Out == first.Out {
		t.Error("two signatures of one request are the same; want a new nonce each")
	}
	file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "c.json"), `{"api_secret":"`+secret+`"}`)
	cliCheckSecretHidden(t, e2e.RequireOK(t, e2e.Run(t, "sign", "GET", "balance", "--credentials", file)), secret)

	e2e.CheckRefused(t, e2e.Run(t, "sign", "GET", "balance"), "api_secret is missing", "--credentials", "COAX_API_SECRET")
	e2e.CheckRefused(t, e2e.RunWithEnv(t, environ, "sign", "POST", "renew", "--data", "@/none/body.json"), "body", "/none/body.json")
}
