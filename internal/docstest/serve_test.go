package docstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Commands that serve are started and left running until the page stops them or ends.
var servesPattern = regexp.MustCompile(`^(make demo|(runuser -u coax -- )?(\S*/)?coax (demo|serve|simulator))( |$)`)

func serves(command string) bool { return servesPattern.MatchString(command) }

// What each of them prints when it is ready.
var (
	readyOut = regexp.MustCompile(`(?m)^  Ctrl-C ends it\.|^The simulator listens on`)
	readyErr = regexp.MustCompile(`"msg":"serving","addr":"([^"]+)","internal_addr":"([^"]+)"`)
)

// server is a process that runs beside the page.
type server struct {
	command        string
	process        *exec.Cmd
	stdout, stderr watched
	ended          chan struct{} // closed once the process is gone
}

// watched is a buffer that signals when its content matches until.
type watched struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	copyTo io.Writer
	until  *regexp.Regexp
	seen   chan struct{}
	done   bool
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if w.copyTo != nil {
		_, _ = w.copyTo.Write(p)
	}
	if !w.done && w.until.Match(w.buf.Bytes()) {
		w.done = true
		close(w.seen)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// freePort replaces the port of a command by a free one.
var freePort = regexp.MustCompile(`(--addr +127\.0\.0\.1):\d+`)

// serve starts a command and waits until it is ready.
func (w *pageEnv) serve(command string) *server {
	w.t.Helper()
	journal, err := os.OpenFile(filepath.Join(w.root, "played/journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &server{
		command: command, ended: make(chan struct{}),
		stdout: watched{until: readyOut, seen: make(chan struct{})},
		stderr: watched{until: readyErr, seen: make(chan struct{}), copyTo: journal},
	}
	s.process = exec.Command("bash", "-c", w.prelude()+"exec "+freePort.ReplaceAllString(command, "$1:0"))
	s.process.Env = append(w.environment(), "PLAYED="+filepath.Join(w.root, "played"))
	s.process.Stdout, s.process.Stderr = &s.stdout, &s.stderr
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // make and its child end together, as on a terminal
	if err := s.process.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.running = append(w.running, s)
	go func() {
		_ = s.process.Wait()
		_ = journal.Close()
		close(s.ended)
	}()
	select {
	case <-s.stdout.seen:
	case <-s.stderr.seen:
		// The addresses of the standard settings, and of this run.
		found := readyErr.FindStringSubmatch(s.stderr.String())
		w.moved("127.0.0.1:8443", found[1])
		w.moved("127.0.0.1:9443", found[2])
		// Wait until a new node has read the provider's catalogue; a reader types more
		// slowly than that. A restarted node may have it already.
		if w.compared {
			break
		}
		w.compared = true
		w.until("the provider's catalogue has been read", func() bool {
			metrics, err := http.Get("http://" + found[2] + "/metrics")
			if err != nil {
				return false
			}
			defer metrics.Body.Close()
			text, _ := io.ReadAll(metrics.Body)
			return bytes.Contains(text, []byte(`what="catalogue"`))
		})
	case <-s.ended:
		w.t.Fatalf("%s: $ %s\nended before it was ready:\n%s%s", w.page.name, command, s.stdout.String(), s.stderr.String())
	case <-time.After(3 * time.Minute):
		w.t.Fatalf("%s: $ %s\nis not ready:\n%s%s", w.page.name, command, s.stdout.String(), s.stderr.String())
	}
	return s
}

// stop ends a server as Ctrl-C or systemd would, and expects a clean exit.
func (w *pageEnv) stop(s *server) {
	w.t.Helper()
	w.running = slices.DeleteFunc(w.running, func(other *server) bool { return other == s })
	_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(3 * time.Minute):
		_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL)
		<-s.ended
		w.t.Errorf("%s: $ %s\ndid not end when it was told to", w.page.name, s.command)
		return
	}
	// make reports an interrupted child as an error, even after a clean exit.
	if status := s.process.ProcessState.ExitCode(); status != 0 && !strings.HasPrefix(s.command, "make ") {
		w.t.Errorf("%s: $ %s\nexits %d when it is ended; want 0:\n%s", w.page.name, s.command, status, s.stderr.String())
	}
}

// moved records the address of a listener in this run, and updates exported variables
// that hold the old one: on a reader's machine the address would not change.
func (w *pageEnv) moved(address, to string) {
	exports := filepath.Join(w.root, "played/exports")
	if text, err := os.ReadFile(exports); err == nil && w.known[address] != "" {
		w.write("played/exports", strings.ReplaceAll(string(text), w.known[address], to), 0o644)
	}
	w.known[address] = to
}

// until polls a condition.
func (w *pageEnv) until(what string, condition func() bool) {
	w.t.Helper()
	timeout := time.After(3 * time.Minute)
	for !condition() {
		select {
		case <-timeout:
			w.t.Fatalf("%s: gave up waiting until %s", w.page.name, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (w *pageEnv) stopAll() {
	for _, s := range slices.Backward(slices.Clone(w.running)) {
		w.stop(s)
	}
}

// installPackage does what the package does: it puts the program in place and runs the
// package's own script, whose folders are below the temporary root and whose account is
// whoever runs the tests. An upgrade restarts what runs. make packages-test installs the
// package itself.
func (w *pageEnv) installPackage() string {
	w.t.Helper()
	program := filepath.Join(w.root, "usr/bin/coax")
	// It may run, so it is replaced and not written over, as dpkg does.
	if err := os.Remove(program); err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	copyProgram(w.t, filepath.Join(w.clone, "bin/coax"), program)
	script, err := os.ReadFile(filepath.Join(w.clone, "packaging/postinst"))
	if err != nil {
		w.t.Fatal(err)
	}
	text := strings.ReplaceAll(string(script), " -o coax -g coax", "")
	w.write("played/postinst", realRoots.ReplaceAllString(text, "${1}"+w.root+"${2}"), 0o755)
	for _, tool := range []string{"getent", "deb-systemd-helper", "deb-systemd-invoke"} {
		w.write("played/"+tool, "#!/bin/sh\nexit 0\n", 0o755)
	}
	printed, status := w.run("sed -i 's|/run/systemd/system|/nowhere|' \"$PLAYED/postinst\"; sh \"$PLAYED/postinst\" configure")
	if status != 0 {
		w.t.Errorf("%s: postinst exits %d: %s", w.page.name, status, printed)
	}
	for _, s := range slices.Clone(w.running) {
		if strings.Contains(s.command, " serve ") {
			w.stop(s)
			w.serve(s.command)
		}
	}
	return "Setting up coax\n" + printed
}

// systemctl is a stand-in for systemd: it starts, stops, restarts and reloads the
// package's service. Timers do not run.
func (w *pageEnv) systemctl(args []string) {
	w.t.Helper()
	verb, units := args[0], slices.DeleteFunc(slices.Clone(args[1:]), func(a string) bool { return strings.HasPrefix(a, "-") })
	for _, unit := range units {
		name := unit
		if filepath.Ext(unit) == "" {
			name += ".service"
		}
		text, err := os.ReadFile(filepath.Join(w.clone, "packaging", name))
		if err != nil {
			w.t.Errorf("%s: systemctl %s: %v", w.page.name, strings.Join(args, " "), err)
		} else if name == unit+".service" {
			w.playUnit(verb, unit, string(text))
		}
	}
}

func (w *pageEnv) playUnit(verb, unit, text string) {
	w.t.Helper()
	settings, problems := readUnit(text)
	if len(problems) > 0 {
		w.t.Errorf("%s: %s.service: %v", w.page.name, unit, problems)
	}
	command := w.translate(settings["Service.ExecStart"])
	if program, _, _ := strings.Cut(command, " "); program != "" {
		if _, err := os.Stat(program); err != nil {
			w.t.Errorf("%s: ExecStart: %v", w.page.name, err)
			return
		}
	}
	running := slices.IndexFunc(w.running, func(s *server) bool { return s.command == command })
	if verb != "start" && verb != "enable" && running < 0 {
		w.t.Errorf("%s: systemctl %s: it does not run", w.page.name, verb+" "+unit)
		return
	}
	switch verb {
	case "start", "enable":
		w.serve(command)
	case "stop":
		w.stop(w.running[running])
	case "restart":
		w.stop(w.running[running])
		w.serve(command)
	case "reload":
		if settings["Service.ExecReload"] != "/bin/kill -HUP $MAINPID" {
			w.t.Errorf("%s: ExecReload = %q; the test can play only /bin/kill -HUP $MAINPID", w.page.name, settings["Service.ExecReload"])
		}
		s := w.running[running]
		before := len(s.stderr.String())
		_ = syscall.Kill(s.process.Process.Pid, syscall.SIGHUP)
		w.until("the unit has reloaded", func() bool { return strings.Contains(s.stderr.String()[before:], "certificate") })
	default:
		w.t.Errorf("%s: systemctl %s: the test cannot play that", w.page.name, verb)
	}
}

// unitKeys are the systemd settings that our unit uses; systemd itself only warns about
// an unknown one.
var unitKeys = map[string][]string{
	"Unit": {"Description", "Documentation", "After", "Wants", "RequiresMountsFor", "StartLimitIntervalSec"},
	"Service": {
		"Type", "User", "Group", "EnvironmentFile", "ExecStart", "ExecReload", "Restart", "RestartSec", "TimeoutStopSec", "UMask", "LimitNOFILE", "LimitCORE",
		"StateDirectory", "StateDirectoryMode", "LogsDirectory", "LogsDirectoryMode", "NoNewPrivileges", "ProtectSystem", "ProtectHome",
		"PrivateTmp", "PrivateDevices", "PrivateMounts", "DevicePolicy", "AmbientCapabilities", "CapabilityBoundingSet",
		"RestrictAddressFamilies", "RestrictRealtime", "RestrictNamespaces", "RestrictSUIDSGID", "LockPersonality", "MemoryDenyWriteExecute",
		"SystemCallFilter", "SystemCallArchitectures", "SystemCallErrorNumber", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
		"ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "RemoveIPC", "KeyringMode",
	},
	"Install": {"WantedBy"},
}

// readUnit reads a unit strictly: known sections, known settings, each once.
func readUnit(text string) (settings map[string]string, problems []error) {
	settings = map[string]string{}
	section := ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			section = strings.Trim(line, "[]")
			if unitKeys[section] == nil {
				problems = append(problems, fmt.Errorf("line %d: no such section: %s", i+1, line))
			}
			continue
		}
		key, value, isPair := strings.Cut(line, "=")
		if !isPair || !slices.Contains(unitKeys[section], key) {
			problems = append(problems, fmt.Errorf("line %d: %s has no setting %s", i+1, section, line))
			continue
		}
		if settings[section+"."+key] != "" && key != "SystemCallFilter" {
			problems = append(problems, fmt.Errorf("line %d: %s is set twice", i+1, key))
		}
		settings[section+"."+key] = value
	}
	for _, key := range []string{"Service.ExecStart", "Service.User", "Service.Restart", "Install.WantedBy"} {
		if settings[key] == "" {
			problems = append(problems, errors.New(key+" is not set"))
		}
	}
	return settings, problems
}

func TestReadUnit_FindsMisspeltSetting(t *testing.T) {
	const good = "[Unit]\nDescription=Coax\n[Service]\nUser=coax\nExecStart=/usr/bin/coax serve\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"
	if _, problems := readUnit(good); len(problems) > 0 {
		t.Errorf("a good unit is refused: %v", problems)
	}
	for _, bad := range []string{
		strings.Replace(good, "Restart=", "Restrat=", 1),
		strings.Replace(good, "[Service]", "[Servce]", 1),
		strings.Replace(good, "User=coax\n", "", 1),
		good + "WantedBy=other.target\n",
	} {
		if _, problems := readUnit(bad); len(problems) == 0 {
			t.Errorf("accepted:\n%s", bad)
		}
	}
}
