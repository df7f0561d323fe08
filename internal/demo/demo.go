// Package demo sets up and runs a complete Coax without configuration: a folder with
// certificate, keys and configuration, a provider simulator on a socket, an operator with
// money, plans, keys and logins, and optionally three months of history.
package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/coaxhq/coax/internal/server"
)

// Info is what demo --json prints and saves in DIR/demo.json. A demo may save a
// secret in a file; the service itself never shows one twice.
type Info struct {
	BaseURL      string `json:"base_url"`
	CACert       string `json:"ca_cert"`
	Config       string `json:"config"`
	LCOID        int64  `json:"lco_id"`
	APIKey       string `json:"api_key"`
	APISecret    string `json:"api_secret"`
	SimulatorURL string `json:"simulator_url"`
	InternalURL  string `json:"internal_url"`
	PlainURL     string `json:"plain_url"`
	// PanelURL is where people sign in with these logins: two of the MSO's staff, so that
	// one can approve what the other proposes, and one of the operator.
	PanelURL string `json:"panel_url"`
	Admin    Login  `json:"admin"`
	Operator Login  `json:"operator"`
	Finance  Login  `json:"finance"`
	// ClockOffset is the setting clock.offset, which clients need to sign requests; empty
	// if it is zero.
	ClockOffset string `json:"clock_offset,omitempty"`
}

// Login is a login of the demo's pages.
type Login struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// Folder is a demo's folder and the settings that it was started with.
type Folder struct {
	Path          string
	Sets, Environ []string
}

// Prepare creates the folder's certificate, master key and configuration if they are
// missing, and loads the configuration.
func Prepare(in Folder, addr, providerURL string) (server.Config, error) {
	folder := in.Path
	var config server.Config
	file := filepath.Join(folder, "coax.toml")
	given, err := server.ParseSets(in.Sets)
	if err != nil {
		return config, err
	}
	earlier := ""
	saved := map[string]string{}
	if _, err := os.Stat(file); err == nil {
		earlier = file
		if saved, err = server.ReadConfigFile(file); err != nil {
			return config, err
		}
	}
	// The simulator has another port at each start; another provider has to be given at
	// each start.
	var overrides []string
	if !inEnvironment(in.Environ, "provider.url") {
		overrides = append(overrides, "provider.url="+providerURL)
	}
	overrides = append(overrides, in.Sets...)
	if addr != "" {
		overrides = append(overrides, "server.addr="+addr)
	}

	// Every value is checked before anything is written, so that no invalid value is saved.
	config, err = server.LoadConfig(server.Sources{File: earlier, Sets: overrides, Environ: in.Environ})
	if err != nil {
		return config, err
	}
	if _, err := server.OpenProvider(config, nil); err != nil {
		return config, err
	}
	maps.Copy(saved, given)
	for key, value := range demoSettings {
		if _, chosen := saved[key]; !chosen && !inEnvironment(in.Environ, key) {
			saved[key] = value
		}
	}
	saved["provider.url"] = config.Provider.URL
	if err := server.ReplaceFile(file, 0o600, server.RenderConfig(demoHead, saved)); err != nil {
		return config, fmt.Errorf("write the configuration: %w", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "master.key")); errors.Is(err, fs.ErrNotExist) {
		if err := server.WriteMasterKey(filepath.Join(folder, "master.key")); err != nil {
			return config, err
		}
	}
	if err := server.EnsureCertificate(folder, config.Server.Addr); err != nil {
		return config, err
	}

	// The other listeners take free ports unless set, so that two demos can run at once.
	// These ports are not saved.
	for _, key := range []string{"server.internal_addr", "server.plain_addr"} {
		if _, chosen := saved[key]; !chosen && !inEnvironment(in.Environ, key) {
			overrides = append(overrides, key+"=127.0.0.1:0")
		}
	}
	return server.LoadConfig(server.Sources{File: file, Sets: overrides, Environ: in.Environ})
}

// demoSettings are the demo's own defaults: a newcomer has no authenticator app at hand,
// security events would clutter the terminal, and the bank's details are made up.
var demoSettings = map[string]string{
	"panel.staff_totp": "false", "log.security_file": "security.log",
	"payments.account_name": "Demo Cable Distribution", "payments.account_number": "50100000012345", "payments.ifsc": "DEMO0000001", "payments.bank": "Demo Bank, Pune",
	"payments.upi_id": "democable@demobank",
}

const demoHead = `The demo's configuration, written again at each start: what was given with --set stays.
coax admin --config THIS_FILE works on the demo's store, also while it runs.`

func inEnvironment(environ []string, key string) bool {
	values, _ := server.EnvironmentSettings(environ)
	_, found := values[key]
	return found
}

// readInfo reads the info that an earlier start saved; it is empty if there is none.
func readInfo(path string) (Info, error) {
	var info Info
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return info, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	if err != nil {
		return info, fmt.Errorf("read what the demo saved in %s: %w (remove the folder to start over)", path, err)
	}
	return info, nil
}

func saveInfo(path string, info Info) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := server.ReplaceFile(path, 0o600, append(text, '\n')); err != nil {
		return fmt.Errorf("save the demo's credentials: %w", err)
	}
	return nil
}
