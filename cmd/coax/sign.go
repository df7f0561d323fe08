package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/signing"
	"github.com/spf13/cobra"
)

func (a *app) signCommand() *cobra.Command {
	var r request
	var timestamp, nonce, compare string
	command := &cobra.Command{
		Use:   "sign METHOD PATH",
		Short: "Print what is signed, line by line, and the signature",
		Long: `Print what is signed for a request, line by line, with the canonical query and the
signature, to compare with one's own code. Nothing is sent. With --timestamp and --nonce
the result is always the same.

--compare takes the string that your own code signs, and prints the first byte that
differs, and the probable cause. Timestamp and nonce are then read from it, unless they
are given. The exit status is 1 if the two differ.`,
		Example: `  coax sign GET '/api/v1/subscription?mobile=98765+43210' --credentials .demo/demo.json
  COAX_API_SECRET=cxs_… coax sign POST /api/v1/renew --data @body.json --timestamp 1800000000 --nonce 0123456789abcdef
  coax sign POST renew --data @body.json --compare signed.txt --profile shop`,
		Args: wants(2, "a METHOD and a PATH, such as GET /api/v1/balance"),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := r.body(c.InOrStdin())
			if err != nil {
				return err
			}
			given, err := a.readCredentials(r.credentials, r.profile, "api_secret")
			if err != nil {
				return err
			}
			path, query, _ := strings.Cut(args[1], "?")
			if !strings.HasPrefix(path, "/") {
				path = "/api/v1/" + path
			}
			var theirs string
			if compare != "" {
				if theirs, err = readCompared(compare, c.InOrStdin()); err != nil {
					return err
				}
				timestamp, nonce = cmp.Or(timestamp, lineOf(theirs, 4)), cmp.Or(nonce, lineOf(theirs, 5))
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
			if compare != "" {
				return compareSigned(a.out, signed.StringToSign(), theirs, string(body))
			}
			return nil
		},
	}
	r.addFlags(command)
	command.Flags().StringVar(&compare, "compare", "", "a `FILE` with the string that your own code signs, or - for standard input")
	command.Flags().StringVar(&timestamp, "timestamp", "", "Unix `SECONDS` to sign; now if not given")
	command.Flags().StringVar(&nonce, "nonce", "", "the `NONCE` to sign; a new one if not given")
	return command
}

// lineLabels name the six lines that are signed.
var lineLabels = []string{"method", "path", "canonical query", "timestamp", "nonce", "body sha-256"}

// printLines prints the lines that are signed.
func printLines(w io.Writer, signed signing.Request) {
	fmt.Fprintln(w, "The six lines that are signed, joined by line feeds:")
	for i, line := range strings.Split(signed.StringToSign(), "\n") {
		label := "?"
		if i < len(lineLabels) {
			label = lineLabels[i]
		}
		fmt.Fprintf(w, "%d %-16s %s\n", i+1, label, line)
	}
}

func printSigned(w io.Writer, signed signing.Request, secret string) {
	printLines(w, signed)
	fmt.Fprintf(w, "\ncanonical query    %s\n", strings.Split(signed.StringToSign(), "\n")[2])
	fmt.Fprintf(w, "X-Timestamp        %s\nX-Nonce            %s\nX-Signature        %s\n", signed.Timestamp, signed.Nonce, signed.Sign(secret))
}

func readCompared(file string, stdin io.Reader) (string, error) {
	if file == "-" {
		text, err := io.ReadAll(stdin)
		return string(text), err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the string to compare: %w", err)
	}
	return string(text), nil
}

// lineOf returns a line of a string to sign, if it has all six.
func lineOf(text string, number int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 6 {
		return ""
	}
	return strings.TrimSuffix(lines[number-1], "\r")
}

// compareSigned prints where a string to sign first differs from the right one, and why.
func compareSigned(w io.Writer, right, theirs, body string) error {
	found := requestlog.CompareWithBody(right, theirs, body)
	if found.Same {
		fmt.Fprintln(w, "\nYour string is the same. If the service still answers INVALID_SIGNATURE, the secret is another one,")
		fmt.Fprintln(w, "or the HMAC is made or written otherwise: compare your signature with X-Signature above.")
		return nil
	}
	fmt.Fprintf(w, "\nYour string differs in line %d (%s), byte %d: %s instead of %s.\n",
		found.First.Line, found.Lines[found.First.Line-1].Name, found.First.Byte, found.First.Theirs, found.First.Server)
	for i, line := range found.Lines {
		if line.Same {
			continue
		}
		fmt.Fprintf(w, "%d right  %s\n", i+1, line.Server)
		fmt.Fprintf(w, "  yours  %s\n         %s^\n", line.Theirs, strings.Repeat(" ", utf8.RuneCountInString(line.Theirs.Common)))
	}
	fmt.Fprintln(w)
	for _, hint := range found.Hints {
		fmt.Fprintln(w, hint)
	}
	return errors.New("the two strings differ")
}
