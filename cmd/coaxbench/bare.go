package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/baseline"
	"github.com/spf13/cobra"
)

// bareHandlerCommand runs a baseline of compare, which starts it in a process of its
// own.
func (a *app) bareHandlerCommand() *cobra.Command {
	var answer, cert, key string
	command := &cobra.Command{
		Use:   "bare-handler --answer FILE --cert FILE --key FILE",
		Short: "Answer every request with the same bytes: what compare holds reads against",
		Long: `Answer every request over TLS with the same bytes, by net/http alone, on a free loopback port.
compare starts it in a process of its own, with an answer of the service's as the bytes, and holds
the service's reads against it.`,
		Example: `  coaxbench bare-handler --answer answer.json --cert tls.pem --key tls.key`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := os.ReadFile(answer)
			if err != nil {
				return err
			}
			var example baseline.Example
			if err := json.Unmarshal(text, &example); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return err
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "The bare handler listens on %s\n", listener.Addr())
			server := baseline.BareHandler(example, pair)
			context.AfterFunc(c.Context(), func() { _ = server.Close() })
			if err := baseline.ServeBare(server, listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&answer, "answer", "", "the answer's header and body as JSON, in `FILE`")
	flags.StringVar(&cert, "cert", "", "certificate in PEM, in `FILE`")
	flags.StringVar(&key, "key", "", "its private key in PEM, in `FILE`")
	return command
}
