package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/signing"
	"github.com/spf13/cobra"
)

// credentials are what a client needs: the JSON that demo prints, or parts of it from the
// environment.
type credentials struct {
	BaseURL   string `json:"base_url"`
	CACert    string `json:"ca_cert"`
	APIKey    string `json:"api_key"`
	APISecret string `json:"api_secret"`
	// ClockOffset is how far a demo's clock was moved.
	ClockOffset string `json:"clock_offset"`
}

// readCredentials reads a file, if one is named, which the environment overrides:
// COAX_BASE_URL for base_url, and so on. It fails if one of needs is missing.
func (a *app) readCredentials(file string, needs ...string) (credentials, error) {
	var c credentials
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return c, fmt.Errorf("read the credentials: %w", err)
		}
		if err := json.Unmarshal(text, &c); err != nil {
			return c, fmt.Errorf("the credentials in %s are not the JSON object that demo writes: %w", file, err)
		}
	}
	values := map[string]*string{"base_url": &c.BaseURL, "ca_cert": &c.CACert, "api_key": &c.APIKey, "api_secret": &c.APISecret}
	for name, value := range values {
		for _, entry := range a.environ {
			if text, found := strings.CutPrefix(entry, server.EnvironmentName(name)+"="); found && text != "" {
				*value = text
			}
		}
	}
	for _, name := range needs {
		if *values[name] == "" {
			return c, fmt.Errorf("%s is missing: give --credentials FILE, or set %s", name, server.EnvironmentName(name))
		}
	}
	return c, nil
}

// request has the flags that call and sign share.
type request struct {
	credentials string
	data        string
	key         string
}

func (r *request) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&r.credentials, "credentials", "", "the `FILE` that demo wrote, or one like it (base_url, api_key, api_secret, ca_cert)")
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
	var include, failing bool
	command := &cobra.Command{
		Use:   "call METHOD PATH",
		Short: "Sign one request, send it, and print the answer",
		Long: `Sign one request, send it, and print the answer's body. The path may carry a query, and
begins with /api/v1/ or is an endpoint's name alone.

Credentials come from --credentials or from the environment (COAX_BASE_URL, COAX_API_KEY,
COAX_API_SECRET, COAX_CA_CERT), which wins.`,
		Example: `  coax call GET /api/v1/balance --credentials .demo/demo.json
  coax call GET '/api/v1/subscription?mobile=9876543210' --credentials .demo/demo.json
  coax call POST renew --data '{"subscriber_id":"100001","plan_id":"BASIC-1"}' --idempotency-key order-4711 --credentials .demo/demo.json`,
		Args: wants(2, "a METHOD and a PATH, such as GET /api/v1/balance"),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := r.body(c.InOrStdin())
			if err != nil {
				return err
			}
			given, err := a.readCredentials(r.credentials, "base_url", "api_key", "api_secret")
			if err != nil {
				return err
			}
			sender, err := newClient(given, http.DefaultTransport.(*http.Transport).Clone())
			if err != nil {
				return err
			}
			header := http.Header{}
			if c.Flags().Changed("idempotency-key") {
				header.Set("Idempotency-Key", r.key)
			}
			response, err := sender.Send(c.Context(), strings.ToUpper(args[0]), args[1], body, header)
			if err != nil {
				return sendError(err, given)
			}
			if include {
				printHead(a.out, response)
			}
			printBody(a.out, response.Body)
			if failing && response.Status >= 400 {
				return fmt.Errorf("the service answered %d", response.Status)
			}
			return nil
		},
	}
	r.addFlags(command)
	command.Flags().BoolVarP(&include, "include", "i", false, "print the status and the headers too")
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

// newClient returns a client that sends through the transport and trusts the credentials'
// CA, if they name one.
func newClient(given credentials, transport *http.Transport) (*client.Client, error) {
	if err := trust(transport, given.CACert); err != nil {
		return nil, err
	}
	now, err := given.clock()
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{
		BaseURL: given.BaseURL, Key: given.APIKey, Secret: client.Secret(given.APISecret), Now: now,
		HTTP: &http.Client{Transport: transport, Timeout: 2 * time.Minute},
	})
}

// clock returns the service's clock, by the credentials' clock offset.
func (c credentials) clock() (func() time.Time, error) {
	if c.ClockOffset == "" {
		return time.Now, nil
	}
	offset, err := time.ParseDuration(c.ClockOffset)
	if err != nil {
		return nil, fmt.Errorf("the credentials' clock_offset: %w", err)
	}
	return server.Clock(offset), nil
}

// trust makes a transport trust the CA in a file instead of the system's; no file
// leaves it as it is.
func trust(transport *http.Transport, caFile string) error {
	if caFile == "" {
		return nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return fmt.Errorf("read the CA certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s holds no certificate in PEM", caFile)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return nil
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

func (a *app) signCommand() *cobra.Command {
	var r request
	var timestamp, nonce string
	command := &cobra.Command{
		Use:   "sign METHOD PATH",
		Short: "Print what is signed, line by line, and the signature",
		Long: `Print what is signed for a request, line by line, with the canonical query and the
signature, to compare with one's own code. Nothing is sent. With --timestamp and --nonce
the result is always the same.`,
		Example: `  coax sign GET '/api/v1/subscription?mobile=98765+43210' --credentials .demo/demo.json
  COAX_API_SECRET=cxs_… coax sign POST /api/v1/renew --data @body.json --timestamp 1800000000 --nonce 0123456789abcdef`,
		Args: wants(2, "a METHOD and a PATH, such as GET /api/v1/balance"),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := r.body(c.InOrStdin())
			if err != nil {
				return err
			}
			given, err := a.readCredentials(r.credentials, "api_secret")
			if err != nil {
				return err
			}
			path, query, _ := strings.Cut(args[1], "?")
			if !strings.HasPrefix(path, "/") {
				path = "/api/v1/" + path
			}
			if timestamp == "" {
				timestamp = strconv.FormatInt(time.Now().Unix(), 10)
			}
			if nonce == "" {
				nonce = client.NewNonce()
			}
			signed := signing.Request{
				Method: strings.ToUpper(args[0]), Path: path, RawQuery: query, Timestamp: timestamp, Nonce: nonce, Body: body,
			}
			printSigned(a.out, signed, given.APISecret)
			return nil
		},
	}
	r.addFlags(command)
	command.Flags().StringVar(&timestamp, "timestamp", "", "Unix `SECONDS` to sign; now if not given")
	command.Flags().StringVar(&nonce, "nonce", "", "the `NONCE` to sign; a new one if not given")
	return command
}

func printSigned(w io.Writer, signed signing.Request, secret string) {
	labels := []string{"method", "path", "canonical query", "timestamp", "nonce", "body sha-256"}
	lines := strings.Split(signed.StringToSign(), "\n")
	fmt.Fprintln(w, "The six lines that are signed, joined by line feeds:")
	for i, line := range lines {
		label := "?"
		if i < len(labels) {
			label = labels[i]
		}
		fmt.Fprintf(w, "%d %-16s %s\n", i+1, label, line)
	}
	fmt.Fprintf(w, "\ncanonical query    %s\n", lines[2])
	fmt.Fprintf(w, "X-Timestamp        %s\nX-Nonce            %s\nX-Signature        %s\n", signed.Timestamp, signed.Nonce, signed.Sign(secret))
}
