package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/server"
	"github.com/pelletier/go-toml/v2"
)

// credentials are what a client needs: the JSON that demo prints, or parts of it from the
// environment.
type credentials struct {
	BaseURL   string `json:"base_url" toml:"base_url"`
	CACert    string `json:"ca_cert" toml:"ca_cert"`
	APIKey    string `json:"api_key" toml:"api_key"`
	APISecret string `json:"api_secret" toml:"api_secret"`
	// ClockOffset is how far a demo's clock was moved.
	ClockOffset string `json:"clock_offset" toml:"clock_offset"`
}

// readCredentials reads a file or a profile, if one is named, which the environment
// overrides: COAX_BASE_URL for base_url, and so on. It fails if one of needs is missing.
func (a *app) readCredentials(file, profile string, needs ...string) (credentials, error) {
	var c credentials
	switch {
	case file != "" && profile != "":
		return c, usage("--credentials and --profile exclude each other")
	case profile != "":
		var err error
		if c, err = a.readProfile(profile); err != nil {
			return c, err
		}
	case file != "":
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
		if text := a.getenv(server.EnvironmentName(name)); text != "" {
			*value = text
		}
	}
	for _, name := range needs {
		if *values[name] == "" {
			return c, fmt.Errorf("%s is missing: give --credentials FILE or --profile NAME, or set %s", name, server.EnvironmentName(name))
		}
	}
	return c, nil
}

// getenv returns a variable of the environment that the program was started with.
func (a *app) getenv(name string) string {
	for _, entry := range a.environ {
		if text, found := strings.CutPrefix(entry, name+"="); found {
			return text
		}
	}
	return ""
}

// profilesFile returns the path of the file with profiles.
func (a *app) profilesFile() (string, error) {
	if file := a.getenv("COAX_PROFILES"); file != "" {
		return file, nil
	}
	folder := a.getenv("XDG_CONFIG_HOME")
	if folder == "" {
		home := a.getenv("HOME")
		if home == "" {
			return "", errors.New("there is no HOME to look for profiles in: set COAX_PROFILES to the file that has them")
		}
		folder = filepath.Join(home, ".config")
	}
	return filepath.Join(folder, "coax", "profiles.toml"), nil
}

// readProfile reads the credentials under a name in the file with profiles. A relative
// ca_cert is relative to that file.
func (a *app) readProfile(name string) (credentials, error) {
	file, err := a.profilesFile()
	if err != nil {
		return credentials{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return credentials{}, fmt.Errorf("read the profiles: %w; the file has a table [%s] with base_url, api_key, api_secret and ca_cert", err, name)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return credentials{}, fmt.Errorf("%s has secrets and can be read by other users: run chmod 600 %s", file, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return credentials{}, fmt.Errorf("read the profiles: %w", err)
	}
	profiles := map[string]credentials{}
	decoder := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := decoder.Decode(&profiles); err != nil {
		var unknown *toml.StrictMissingError
		if errors.As(err, &unknown) {
			// The error's own text has the lines around the key, secrets among them.
			return credentials{}, fmt.Errorf("%s has the key %s, which no profile has", file, strings.Join(unknown.Errors[0].Key(), "."))
		}
		return credentials{}, fmt.Errorf("%s is not TOML with a table for each profile: %w", file, err)
	}
	found, there := profiles[name]
	if !there {
		return credentials{}, fmt.Errorf("%s has no profile %q; it has %s", file, name, strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))
	}
	if found.CACert != "" && !filepath.IsAbs(found.CACert) {
		found.CACert = filepath.Join(filepath.Dir(file), found.CACert)
	}
	return found, nil
}

// newClient returns a client that sends through a round tripper around the transport,
// which is made to trust the credentials' CA, if they name one.
func newClient(given credentials, transport *http.Transport, through http.RoundTripper) (*client.Client, error) {
	if err := trust(transport, given.CACert); err != nil {
		return nil, err
	}
	now, err := given.clock()
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{
		BaseURL: given.BaseURL, Key: given.APIKey, Secret: client.Secret(given.APISecret), Now: now, ReturnPending: true,
		HTTP: &http.Client{Transport: through, Timeout: 2 * time.Minute},
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
