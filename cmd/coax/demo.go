package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/telemetry"
)

// demoLine is what demo --json prints, and what it keeps in DIR/demo.json. A
// demo may keep a secret in a file; the service itself cannot show one twice.
type demoLine struct {
	BaseURL      string `json:"base_url"`
	CACert       string `json:"ca_cert"`
	Config       string `json:"config"`
	LCOID        int64  `json:"lco_id"`
	APIKey       string `json:"api_key"`
	APISecret    string `json:"api_secret"`
	SimulatorURL string `json:"simulator_url"`
	InternalURL  string `json:"internal_url"`
	PlainURL     string `json:"plain_url"`
	// PanelURL is where people begin, and these are who can: one of the MSO's
	// staff, and one of the operator's people.
	PanelURL string    `json:"panel_url"`
	Admin    demoLogin `json:"admin"`
	Operator demoLogin `json:"operator"`
	// ClockOffset is how far the demo's clock is moved, for those who sign by
	// it; empty if it is not.
	ClockOffset string `json:"clock_offset,omitempty"`
}

// demoLogin is who can sign in to the demo's pages, and how.
type demoLogin struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (a *app) demoCommand() *cobra.Command {
	var folder, addr string
	var untilEOF, history bool
	command := &cobra.Command{
		Use:   "demo [--dir DIR] [--addr HOST:PORT]",
		Short: "Run a whole Coax with nothing to configure",
		Long: `Run a whole Coax with nothing to configure: a certificate of its own, an embedded store, a
few plans, an operator who has an API key and 10,000.00 to spend, and logins for the pages.
It prints where to sign in, and a first command to try. Ctrl-C ends it; started again in the same folder it finds everything again.

With --history a new demo has three months behind it: some hundred made-up subscribers, what
they bought, what went wrong, and two more operators. The wallet holds 10,000.00 all the same.
A demo that was begun without stays without.

Settings given with --set are kept in DIR/coax.toml, so that coax admin --config
DIR/coax.toml works on the same store, also while the demo runs.`,
		Example: "  coax demo\n  coax demo --dir /tmp/try --addr 127.0.0.1:0 --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("addr") {
				addr = "" // server.addr may say otherwise
			} else if err := findSetting("server.addr").read(&Config{}, addr); err != nil {
				return usage("--addr: %v", err)
			}
			ctx := c.Context()
			if untilEOF {
				var stop context.CancelFunc
				ctx, stop = context.WithCancel(ctx)
				defer stop()
				go func() {
					_, _ = io.Copy(io.Discard, c.InOrStdin())
					stop()
				}()
			}
			return stoppedIsDone(ctx, a.demo(ctx, folder, addr, history))
		},
	}
	command.Flags().StringVar(&folder, "dir", "coax-demo", "the `DIR` to keep everything in; made if it is not there")
	command.Flags().StringVar(&addr, "addr", defaultAddr, "`HOST:PORT` to serve on; port 0 takes a free one")
	command.Flags().BoolVar(&a.asJSON, "json", false, "print one line of JSON once ready, for scripts")
	command.Flags().BoolVar(&untilEOF, "until-eof", false, "end when standard input does: whoever holds its other end takes the demo along, however they die")
	command.Flags().BoolVar(&history, "history", false, "give a new demo three months of made-up history")
	a.addSetFlag(command)
	return command
}

func (a *app) demo(ctx context.Context, folder, addr string, history bool) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	// Before anything is written: a demo that runs here must not find its files
	// changed under it.
	lock, err := sqlite.LockFolder(filepath.Join(folder, "demo.lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	provider, err := startSimulator(simulatorListener, filepath.Join(folder, "simulator.json"))
	if err != nil {
		return err
	}
	defer provider.stop()
	config, err := a.prepareDemo(folder, addr, provider.url)
	if err != nil {
		return err
	}
	format := "text"
	if a.asJSON {
		format = "json"
	}
	log, err := newLogger(a.err, config, format)
	if err != nil {
		return err
	}
	defer telemetry.Flush(log)
	collectLess(a.environ)
	if config.Store.Kind == "sqlite" {
		waitBesideWork(a.environ)
	}
	node, err := openNode(ctx, config, a.environ, log, clock(config.Clock.Offset))
	if err != nil {
		return err
	}
	begins, err := a.beginningOf(ctx, node, config.Provider.URL == provider.url, history)
	if err != nil {
		return errors.Join(err, node.close())
	}
	line, err := furnishFrom(ctx, node, filepath.Join(folder, "demo.json"), begins)
	if err != nil {
		return errors.Join(err, node.close())
	}
	if begins.history {
		if err := a.fillHistory(ctx, node, provider, begins.now()); err != nil {
			return errors.Join(err, node.close())
		}
	}
	if err := node.listen(); err != nil {
		return errors.Join(err, node.close())
	}
	line.BaseURL = "https://" + reachable(node.apiAddr) + "/api/v1"
	line.PanelURL = "https://" + reachable(node.apiAddr) + "/"
	line.CACert = filepath.Join(folder, "ca.pem")
	line.Config = filepath.Join(folder, "coax.toml")
	line.SimulatorURL = provider.url
	line.InternalURL = plainURL(node.internalAddr)
	line.PlainURL = plainURL(node.plainAddr)
	line.ClockOffset = ""
	if config.Clock.Offset != 0 {
		line.ClockOffset = config.Clock.Offset.String()
	}
	if err := keepLine(filepath.Join(folder, "demo.json"), line); err != nil {
		return errors.Join(err, node.close())
	}
	if err := a.announce(line, folder); err != nil {
		return errors.Join(err, node.close())
	}
	return errors.Join(node.serve(ctx), node.close())
}

// prepareDemo gives the folder its certificate, master key and configuration, or
// finds them, and reads the configuration.
func (a *app) prepareDemo(folder, addr, providerURL string) (Config, error) {
	var config Config
	file := filepath.Join(folder, "coax.toml")
	given, err := parseSets(a.sets)
	if err != nil {
		return config, err
	}
	earlier := ""
	kept := map[string]string{}
	if _, err := os.Stat(file); err == nil {
		earlier = file
		if kept, err = readConfigFile(file); err != nil {
			return config, err
		}
	}
	// The simulator has another port at each start; whoever wants another
	// provider says so each time.
	var overrides []string
	if !inEnvironment(a.environ, "provider.url") {
		overrides = append(overrides, "provider.url="+providerURL)
	}
	overrides = append(overrides, a.sets...)
	if addr != "" {
		overrides = append(overrides, "server.addr="+addr)
	}

	// Every value is judged before anything is written: a demo that was given
	// rubbish must not keep it.
	config, err = loadConfig(sources{file: earlier, sets: overrides, environ: a.environ})
	if err != nil {
		return config, err
	}
	if _, err := openProvider(config, nil); err != nil {
		return config, err
	}
	maps.Copy(kept, given)
	// Whoever tries the console for a minute should not have to find a telephone
	// first.
	if _, chosen := kept[staffTOTP]; !chosen && !inEnvironment(a.environ, staffTOTP) {
		kept[staffTOTP] = "false"
	}
	kept["provider.url"] = config.Provider.URL
	if err := replaceFile(file, 0o600, renderConfig(demoHead, kept)); err != nil {
		return config, fmt.Errorf("write the configuration: %w", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "master.key")); errors.Is(err, fs.ErrNotExist) {
		if err := writeMasterKey(filepath.Join(folder, "master.key")); err != nil {
			return config, err
		}
	}
	if err := ensureCertificate(folder, config.Server.Addr); err != nil {
		return config, err
	}

	// The demo's own listeners take free ports unless somebody chose: two demos
	// should not get into each other's way. These are not kept in the file.
	for _, key := range []string{"server.internal_addr", "server.plain_addr"} {
		if _, chosen := kept[key]; !chosen && !inEnvironment(a.environ, key) {
			overrides = append(overrides, key+"=127.0.0.1:0")
		}
	}
	return loadConfig(sources{file: file, sets: overrides, environ: a.environ})
}

const staffTOTP = "panel.staff_totp"

const demoHead = `The demo's configuration, written anew at each start: what was given with --set stays.
coax admin --config THIS_FILE works on the demo's store, also while it runs.`

func inEnvironment(environ []string, key string) bool {
	values, _ := environmentSettings(environ)
	_, found := values[key]
	return found
}

// readLine reads what an earlier start kept; nothing, if there was none.
func readLine(path string) (demoLine, error) {
	var line demoLine
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

func keepLine(path string, line demoLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if err := replaceFile(path, 0o600, append(text, '\n')); err != nil {
		return fmt.Errorf("keep the demo's credentials: %w", err)
	}
	return nil
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, mode os.FileMode, content []byte) error {
	draft, err := writeDraft(path, mode, content)
	if err != nil {
		return err
	}
	defer os.Remove(draft)
	return os.Rename(draft, path)
}

// writeDraft writes a file beside the one it is to become, onto the disk.
func writeDraft(path string, mode os.FileMode, content []byte) (string, error) {
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return "", err
	}
	_, err = draft.Write(content)
	if err := errors.Join(err, draft.Chmod(mode), draft.Sync(), draft.Close()); err != nil {
		_ = os.Remove(draft.Name())
		return "", err
	}
	return draft.Name(), nil
}

// plainURL is the address of a plain HTTP listener; empty if there is none.
func plainURL(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return "http://" + reachable(addr)
}

// reachable is an address as a client on this machine would dial it.
func reachable(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}

// announce says that the demo is ready: to a script in one line, to a person
// with what to do first.
func (a *app) announce(line demoLine, folder string) error {
	if a.asJSON {
		return json.NewEncoder(a.out).Encode(line)
	}
	program, err := os.Executable()
	if err != nil {
		program = "coax"
	}
	kept := shellQuote(filepath.Join(folder, "demo.json"))
	_, err = fmt.Fprintf(a.out, `
  Coax is running.

  Panel        %s  (the certificate is the demo's own, so the browser warns)
  Operator     sign in as %s with %s
  Staff        sign in as %s with %s

  API          %s
  Account      lco %d, with a prepaid wallet
  API key      %s
  API secret   %s
  CA           %s
  Simulator    %s
  Metrics      %s/metrics

  Make a first signed call, from another terminal:

    %s call GET /api/v1/balance --credentials %s

  Activate a subscriber:

    %s call POST /api/v1/activate --idempotency-key first-order --credentials %s \
        --data '{"full_name":"Asha Rao","mobile":"9876543210","plan_id":"BASIC-1"}'

  Look behind the counter:

    %s admin --config %s ledger --lco %d

  Ctrl-C ends it. Started again with --dir %s it finds everything again.

`, line.PanelURL, line.Operator.Username, line.Operator.Password, line.Admin.Username, line.Admin.Password,
		line.BaseURL, line.LCOID, line.APIKey, line.APISecret, line.CACert, line.SimulatorURL, line.InternalURL,
		shellQuote(program), kept, shellQuote(program), kept, shellQuote(program), shellQuote(line.Config), line.LCOID, shellQuote(folder))
	return err
}
