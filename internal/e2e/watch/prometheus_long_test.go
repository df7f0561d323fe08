//go:build long

package watch

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/alerting"
	"github.com/coaxhq/coax/internal/server"
)

// watchNode starts a Prometheus with the shipped configuration and alerts that scrapes a node.
func watchNode(t *testing.T, info demo.Info) *alerting.Prometheus {
	t.Helper()
	program := tool(t, "prometheus")
	folder := t.TempDir()
	node, err := url.Parse(info.InternalURL)
	if err != nil {
		t.Fatal(err)
	}
	e2e.WriteFile(t, filepath.Join(folder, "prometheus.yml"), alerting.Config(t, e2e.ReadFile(t, filepath.Join(examples, "prometheus.yml")), node.Host))
	e2e.WriteFile(t, filepath.Join(folder, "alerts.yml"), alerting.InSeconds(e2e.ReadFile(t, filepath.Join(examples, "alerts.yml"))))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil { // Prometheus does not tell which port it chose
		t.Fatal(err)
	}
	command := exec.Command(program, "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	process := e2e.LaunchCommand(t, command)
	t.Cleanup(process.Kill)
	p := &alerting.Prometheus{T: t, Get: func(path string) ([]byte, error) {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return io.ReadAll(response.Body)
	}}
	p.Await("Prometheus scrapes the node", time.Minute, func() bool {
		select {
		case <-process.Ended:
			t.Fatalf("Prometheus ended:\n%s", process.Err)
		default:
		}
		return len(p.Query(`coax_ready == 1`)) == 1
	})
	return p
}

// customers orders from a node, one after the other, until stop is called.
func customers(t *testing.T, p *e2e.Process) (stop func()) {
	t.Helper()
	p.Install(t).JSON("lco", "set", "--lco", "1", "--rate-limit", "1000000")
	p.Install(t).JSON("wallet", "topup", "--lco", "1", "--amount", "10000000", "--reference", "for a busy day")
	w := e2e.NewRemoteEnv(t, p)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond): // as fast as some operators are
			}
			w.TryOperate(w.DemoCaller(), "activate", fmt.Sprintf("busy-%d", i), e2e.Activation(fmt.Sprintf("98%08d", i)))
			w.Try(e2e.Call{As: w.DemoCaller(), Path: e2e.Balance})
		}
	}()
	stop = func() { close(over); <-ended }
	return stop
}

// settings are the --set flags of a demo that is watched in every way, and its provider.
func settings(t *testing.T, folder, provider string) (flags []string) {
	t.Helper()
	for _, set := range []string{
		"provider.url=" + provider, "provider.timeout=3s", "audit.every=1s", "backup.folder=" + folder,
	} {
		flags = append(flags, "--set", set)
	}
	return flags
}

// backUp makes a backup of a running demo.
func backUp(t *testing.T, p *e2e.Process, folder string) {
	t.Helper()
	if got := e2e.Run(t, "backup", folder, "--config", p.Demo.Config); got.Code != e2e.ExitDone {
		t.Fatalf("coax backup: %s", got)
	}
}

// storeOf returns the store of a demo.
func storeOf(t *testing.T, p *e2e.Process) server.StoreConfig {
	return e2e.LoadStoreConfig(t, p.Demo.Config)
}
