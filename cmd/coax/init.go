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
	command.Flags().StringArrayVar(&a.sets, "set", nil, "a setting to write into coax.toml, as `key=value`; may be repeated")
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
	values, err := server.ParseSets(a.sets)
	if err != nil {
		return err
	}
	settings, err := server.LoadConfig(server.Sources{Sets: a.sets})
	if err != nil {
		return err
	}
	// Paths are relative to the file that is made.
	inFolder := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(folder, path)
	}
	config, key := filepath.Join(folder, "coax.toml"), inFolder(settings.Secrets.MasterKeyFile)
	made := []string{config, key}
	if settings.Store.Kind == "sqlite" {
		made = append(made, filepath.Dir(inFolder(settings.Store.Path)))
	}
	for _, path := range made {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists already, and init overwrites nothing: choose another --dir, or move it away", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, path := range append(made[2:], filepath.Dir(config), filepath.Dir(key)) {
		if err := fileowner.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("make the folder: %w", err)
		}
	}
	if err := server.WriteMasterKey(key); err != nil {
		return err
	}
	if err := server.WriteNew(config, 0o600, server.RenderConfig(initHead, values)); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	fmt.Fprintf(a.out, "Made %s:\n", folder)
	for i, path := range made {
		if inner, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(inner) {
			path = inner
		}
		switch i {
		case 0:
			fmt.Fprintf(a.out, "  %-12s every setting with its default value, to edit\n", path)
		case 1:
			fmt.Fprintf(a.out, "  %-12s seals the API secrets: keep a copy in a safe place, for without it the store cannot be served\n", path)
		default:
			fmt.Fprintf(a.out, "  %-12s the store's folder\n", path+"/")
		}
	}
	fmt.Fprintf(a.out, `
Next:
  1. Put a TLS certificate and its key beside coax.toml as tls.pem and tls.key, or set server.tls_cert and server.tls_key.
  2. Set provider.url in coax.toml to the provider's address.
  3. coax serve --config %[1]s
  4. coax admin --config %[1]s lco create --name NAME
`, server.ShellQuote(config))
	return nil
}

const initHead = `Coax's configuration. Settings that are commented out have their default value. Paths are
relative to this file. The environment (COAX_SERVER_ADDR for server.addr) wins over
it, and the command line (--set server.addr=...) over both.`
