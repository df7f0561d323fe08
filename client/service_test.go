package client_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coaxhq/coax/internal/e2e/program"
)

// The examples call a real service: a demo built from this source, in its own
// process. Its credentials are put into the environment, from which the examples
// read them.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		stop, err := startService()
		if err != nil {
			fmt.Fprintln(os.Stderr, "the examples' service:", err)
			return 1
		}
		defer stop()
		return m.Run()
	}())
}

func startService() (stop func(), err error) {
	folder, err := os.MkdirTemp("", "coax-client-")
	if err != nil {
		return nil, err
	}
	remove := func() {
		_ = os.RemoveAll(folder)
		program.Remove()
	}
	defer func() {
		if err != nil {
			remove()
		}
	}()
	binary, err := program.Coax()
	if err != nil {
		return nil, err
	}
	service := exec.Command(binary, "demo", "--dir", filepath.Join(folder, "demo"), "--addr", "127.0.0.1:0", "--json",
		"--set", "provider.timeout=3s", "--set", "review.first_check=100ms", "--set", "log.level=error")
	service.Stderr = os.Stderr
	service.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // no service outlives its tests
	output, err := service.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := service.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = service.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, output)
		_ = service.Wait()
		remove()
	}
	printed, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		stop()
		return nil, fmt.Errorf("it ended before it was ready: %w", err)
	}
	var line struct {
		BaseURL   string `json:"base_url"`
		CACert    string `json:"ca_cert"`
		APIKey    string `json:"api_key"`
		APISecret string `json:"api_secret"`
	}
	if err := json.Unmarshal(printed, &line); err != nil {
		stop()
		return nil, fmt.Errorf("%s: %w", printed, err)
	}
	for name, value := range map[string]string{
		"COAX_BASE_URL": line.BaseURL, "COAX_API_KEY": line.APIKey, "COAX_API_SECRET": line.APISecret,
		// Go reads the trusted roots once, at the first connection.
		"SSL_CERT_FILE": line.CACert,
	} {
		if err := os.Setenv(name, value); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}
