package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

// request has the flags that call and sign share.
type request struct {
	credentials string
	profile     string
	data        string
	key         string
}

func (r *request) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&r.credentials, "credentials", "", "the `FILE` that demo wrote, or one like it (base_url, api_key, api_secret, ca_cert)")
	command.Flags().StringVar(&r.profile, "profile", "", "credentials by `NAME`, from ~/.config/coax/profiles.toml or the file that COAX_PROFILES names")
	command.Flags().StringVar(&r.key, "idempotency-key", "", "the `KEY` of this business action, which a POST needs; it is sent, not signed")
	command.Flags().StringVar(&r.data, "data", "", "the body: `JSON`, @FILE, or @- for standard input")
}

func (r *request) body(stdin io.Reader) ([]byte, error) {
	name, isFile := strings.CutPrefix(r.data, "@")
	switch {
	case !isFile:
		return []byte(r.data), nil
	case name == "-":
		return io.ReadAll(stdin)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return text, nil
}

func (a *app) callCommand() *cobra.Command {
	var r request
	var include, failing, explain bool
	command := &cobra.Command{
		Use:   "call METHOD PATH",
		Short: "Sign one request, send it, and print the answer",
		Long: `Sign one request, send it, and print the answer's body. The path may carry a query, and
begins with /api/v1/ or is an endpoint's name alone.

Credentials come from --credentials, from a --profile, or from the environment
(COAX_BASE_URL, COAX_API_KEY, COAX_API_SECRET, COAX_CA_CERT), which wins. Profiles are
tables of a TOML file, by name:

  [shop]
  base_url = "https://coax.example/api/v1"
  api_key = "cxk_…"
  api_secret = "cxs_…"
  ca_cert = "ca.pem"

--explain also prints what was signed, what came back, and what to do next, to standard
error.`,
		Example: `  coax call GET /api/v1/balance --credentials .demo/demo.json
  coax call GET '/api/v1/subscription?mobile=9876543210' --credentials .demo/demo.json
  coax call GET balance --profile shop --explain
  coax call POST renew --data '{"subscriber_id":"100001","plan_id":"BASIC-1"}' --idempotency-key order-4711 --credentials .demo/demo.json`,
		Args: wants(2, "a METHOD and a PATH, such as GET /api/v1/balance"),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := r.body(c.InOrStdin())
			if err != nil {
				return err
			}
			given, err := a.readCredentials(r.credentials, r.profile, "base_url", "api_key", "api_secret")
			if err != nil {
				return err
			}
			transport := &recorder{Transport: http.DefaultTransport.(*http.Transport).Clone()}
			sender, err := newClient(given, transport.Transport, transport)
			if err != nil {
				return err
			}
			header := http.Header{}
			if c.Flags().Changed("idempotency-key") {
				header.Set("Idempotency-Key", r.key)
			}
			response, err := sender.Send(c.Context(), strings.ToUpper(args[0]), args[1], body, header)
			if explain && transport.sent != nil {
				explainRequest(a.err, transport.sent, body)
			}
			if err != nil {
				if explain && transport.sent != nil {
					explainNoAnswer(a.err, transport.sent)
				}
				return sendError(err, given)
			}
			if include {
				printHead(a.out, response)
			} else if explain {
				printHead(a.err, response)
			}
			printBody(a.out, response.Body)
			if explain {
				explainAnswer(a.err, transport.sent, response)
			}
			if failing && response.Status >= 400 {
				return fmt.Errorf("the service answered %d", response.Status)
			}
			return nil
		},
	}
	r.addFlags(command)
	command.Flags().BoolVarP(&include, "include", "i", false, "print the status and the headers too")
	command.Flags().BoolVar(&explain, "explain", false, "print what was signed, what came back, and what to do next")
	command.Flags().BoolVarP(&failing, "fail", "f", false, "exit with 1 if the status is 400 or above")
	return command
}

// sendError adds what to do about an unknown CA.
func sendError(err error, given credentials) error {
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		return err
	}
	if given.CACert == "" {
		return fmt.Errorf("%w; if it is an installation's own CA, name its file as ca_cert in the credentials, or set %s", err, server.EnvironmentName("ca_cert"))
	}
	return fmt.Errorf("%w; it does not come from the CA in %s", err, given.CACert)
}

func printHead(w io.Writer, response *client.Response) {
	fmt.Fprintf(w, "HTTP %d %s\n", response.Status, http.StatusText(response.Status))
	names := make([]string, 0, len(response.Header))
	for name := range response.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range response.Header[name] {
			fmt.Fprintf(w, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintln(w)
}

// printBody indents JSON, which keeps every digit of every amount.
func printBody(w io.Writer, body []byte) {
	var pretty bytes.Buffer
	if json.Indent(&pretty, body, "", "  ") == nil {
		body = pretty.Bytes()
	}
	fmt.Fprintf(w, "%s\n", bytes.TrimRight(body, "\n"))
}
