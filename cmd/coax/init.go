package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	var folder string
	command := &cobra.Command{
		Use:   "init --dir DIR",
		Short: "Make the start of a real installation",
		Long: `Make the start of a real installation in DIR: a commented coax.toml, a master key that
only its owner can read, and the data folder. Existing files are not overwritten.

The settings of coax.toml, each with its default value:

` + settingsHelp(),
		Example: "  coax init --dir /etc/coax",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.init(folder)
		},
	}
	command.Flags().StringVar(&folder, "dir", "", "the `DIR` to make")
	_ = command.MarkFlagRequired("dir")
	return command
}

func settingsHelp() string {
	var out strings.Builder
	for _, s := range server.Settings {
		value := s.Default
		if value == "" {
			value = "(empty)"
		}
		fmt.Fprintf(&out, "  %-36s %s\n  %36s %s\n", s.Key, value, "", s.Doc)
	}
	return out.String()
}

func (a *app) init(folder string) error {
	config, key, data := filepath.Join(folder, "coax.toml"), filepath.Join(folder, "master.key"), filepath.Join(folder, "data")
	for _, path := range []string{config, key, data} {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists already, and init overwrites nothing: choose another --dir, or move it away", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := fileowner.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := server.WriteMasterKey(key); err != nil {
		return err
	}
	if err := server.WriteNew(config, 0o600, server.RenderConfig(initHead, nil)); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	fmt.Fprintf(a.out, `Made %[1]s:
  coax.toml    every setting with its default value, to edit
  master.key   seals the API secrets: keep a copy in a safe place, for without it the store cannot be served
  data/        the store's folder

Next:
  1. Put a TLS certificate and its key beside coax.toml as tls.pem and tls.key, or set server.tls_cert and server.tls_key.
  2. Set provider.url in coax.toml to the provider's address.
  3. coax serve --config %[2]s
  4. coax admin --config %[2]s lco create --name NAME
`, folder, server.ShellQuote(config))
	return nil
}

const initHead = `Coax's configuration. Settings that are commented out have their default value. Paths are
relative to this file. The environment (COAX_SERVER_ADDR for server.addr) wins over
it, and the command line (--set server.addr=...) over both.`
