//go:build long

package watch

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
)

// prometheus is a running Prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

// scrapeEvery replaces the intervals of the shipped configuration.
const scrapeEvery = "500ms"

var minutes = regexp.MustCompile(`(for: |\[)(\d+)([mh])`)

// inSeconds shortens the times of the alerts so that they fit a test, and changes nothing else:
// a `for` and a range of minutes becomes one of as many seconds, and an hour a minute.
func inSeconds(rules string) string {
	return minutes.ReplaceAllStringFunc(rules, func(found string) string {
		part := minutes.FindStringSubmatch(found)
		return part[1] + part[2] + map[string]string{"m": "s", "h": "m"}[part[3]]
	})
}

// watchNode starts a Prometheus with the shipped configuration and alerts that scrapes a node.
func watchNode(t *testing.T, info demo.Info) *prometheus {
	t.Helper()
	program := tool(t, "prometheus")
	folder := t.TempDir()
	node, err := url.Parse(info.InternalURL)
	if err != nil {
		t.Fatal(err)
	}
	config := e2e.ReadFile(t, filepath.Join(examples, "prometheus.yml"))
	for from, to := range map[string]string{"_interval: 15s": "_interval: " + scrapeEvery, "127.0.0.1:9443": node.Host} {
		if !strings.Contains(config, from) {
			t.Fatalf("prometheus.yml has no %q to replace", from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	e2e.WriteFile(t, filepath.Join(folder, "prometheus.yml"), config)
	e2e.WriteFile(t, filepath.Join(folder, "alerts.yml"), inSeconds(e2e.ReadFile(t, filepath.Join(examples, "alerts.yml"))))
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
	p := &prometheus{t, "http://" + address}
	p.await("Prometheus scrapes the node", time.Minute, func() bool {
		select {
		case <-process.Ended:
			t.Fatalf("Prometheus ended:\n%s", process.Err)
		default:
		}
		return len(p.query(`coax_ready == 1`)) == 1
	})
	return p
}

// await polls until a condition holds.
func (p *prometheus) await(what string, within time.Duration, condition func() bool) {
	p.t.Helper()
	if !eventually(within, condition) {
		p.t.Fatalf("timed out waiting until %s", what)
	}
}

// eventually polls until a condition holds; false if it does not in time.
func eventually(within time.Duration, condition func() bool) bool {
	for timeout := time.After(within); !condition(); {
		select {
		case <-timeout:
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
	return true
}

// get reads an answer of Prometheus' API; false if there is none yet.
func (p *prometheus) get(path string, into any) bool {
	p.t.Helper()
	response, err := http.Get(p.url + path)
	if err != nil {
		return false // it is starting
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return false
	}
	if answer.Status != "success" {
		p.t.Errorf("%s: %s", path, answer.Error)
		return false
	}
	return true
}

// query returns the values that an expression has now, without those that are no number.
func (p *prometheus) query(expr string) (values []float64) {
	p.t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	if !p.get("/api/v1/query?query="+url.QueryEscape(expr), &data) {
		return nil
	}
	for _, sample := range data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(sample.Value[1]), 64)
		if err != nil {
			p.t.Fatalf("%s: %v", expr, err)
		}
		if value == value {
			values = append(values, value)
		}
	}
	return values
}

// raised is an alert as Prometheus has it.
type raised struct {
	Labels      map[string]string
	Annotations map[string]string
	State       string
}

// firing returns the alerts that fire.
func (p *prometheus) firing() (all []raised) {
	var data struct{ Alerts []raised }
	p.get("/api/v1/alerts", &data)
	for _, a := range data.Alerts {
		if a.State == "firing" {
			all = append(all, a)
		}
	}
	return all
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
