// Package demo makes a whole Coax with nothing to configure: a folder with certificate,
// keys and configuration, a provider simulator on a socket, an operator with money,
// plans, keys and logins, and three months of history where that is wanted.
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
	// PanelURL is where people begin, and these are who can: two of the MSO's
	// staff, so that one can approve what the other proposes, and one of the
	// operator's people.
	PanelURL string `json:"panel_url"`
	Admin    Login  `json:"admin"`
	Operator Login  `json:"operator"`
	Finance  Login  `json:"finance"`
	// ClockOffset is how far the demo's clock is moved, for those who sign by
	// it; empty if it is not.
	ClockOffset string `json:"clock_offset,omitempty"`
}

// Login is who can sign in to the demo's pages, and how.
type Login struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// Folder is where a demo keeps everything, and the settings it was started with.
type Folder struct {
	Path          string
	Sets, Environ []string
}

// Prepare gives the folder its certificate, master key and configuration, or
// finds them, and reads the configuration.
func Prepare(in Folder, addr, providerURL string) (server.Config, error) {
	folder := in.Path
	var config server.Config
	file := filepath.Join(folder, "coax.toml")
	given, err := server.ParseSets(in.Sets)
	if err != nil {
		return config, err
	}
	earlier := ""
	kept := map[string]string{}
	if _, err := os.Stat(file); err == nil {
		earlier = file
		if kept, err = server.ReadConfigFile(file); err != nil {
			return config, err
		}
	}
	// The simulator has another port at each start; whoever wants another
	// provider says so each time.
	var overrides []string
	if !inEnvironment(in.Environ, "provider.url") {
		overrides = append(overrides, "provider.url="+providerURL)
	}
	overrides = append(overrides, in.Sets...)
	if addr != "" {
		overrides = append(overrides, "server.addr="+addr)
	}

	// Every value is judged before anything is written: a demo that was given
	// rubbish must not keep it.
	config, err = server.LoadConfig(server.Sources{File: earlier, Sets: overrides, Environ: in.Environ})
	if err != nil {
		return config, err
	}
	if _, err := server.OpenProvider(config, nil); err != nil {
		return config, err
	}
	maps.Copy(kept, given)
	for key, value := range demoSettings {
		if _, chosen := kept[key]; !chosen && !inEnvironment(in.Environ, key) {
			kept[key] = value
		}
	}
	kept["provider.url"] = config.Provider.URL
	if err := server.ReplaceFile(file, 0o600, server.RenderConfig(demoHead, kept)); err != nil {
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

	// The demo's own listeners take free ports unless somebody chose: two demos
	// should not get into each other's way. These are not kept in the file.
	for _, key := range []string{"server.internal_addr", "server.plain_addr"} {
		if _, chosen := kept[key]; !chosen && !inEnvironment(in.Environ, key) {
			overrides = append(overrides, key+"=127.0.0.1:0")
		}
	}
	return server.LoadConfig(server.Sources{File: file, Sets: overrides, Environ: in.Environ})
}

// demoSettings are the demo's own defaults: a newcomer has no app for codes at hand, and
// the terminal is for what they are told.
var demoSettings = map[string]string{"panel.staff_totp": "false", "log.security_file": "security.log"}

const demoHead = `The demo's configuration, written anew at each start: what was given with --set stays.
coax admin --config THIS_FILE works on the demo's store, also while it runs.`

func inEnvironment(environ []string, key string) bool {
	values, _ := server.EnvironmentSettings(environ)
	_, found := values[key]
	return found
}

// readLine reads what an earlier start kept; nothing, if there was none.
func readLine(path string) (Info, error) {
	var line Info
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return line, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &line)
	}
	if err != nil {
		return line, fmt.Errorf("read what the demo kept in %s: %w (remove the folder to begin anew)", path, err)
	}
	return line, nil
}

func KeepLine(path string, line Info) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if err := server.ReplaceFile(path, 0o600, append(text, '\n')); err != nil {
		return fmt.Errorf("keep the demo's credentials: %w", err)
	}
	return nil
}
