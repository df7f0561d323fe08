// Package alerting runs a Prometheus with the shipped alerts, and reads what goes with them: the
// runbook and the dashboard.
package alerting

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ScrapeEvery replaces the intervals of the shipped configuration.
const ScrapeEvery = "500ms"

var minutes = regexp.MustCompile(`(for: |\[)(\d+)([mh])`)

// InSeconds shortens the times of the alerts so that they fit a test, and changes nothing else:
// a `for` and a range of minutes becomes one of as many seconds, and an hour a minute.
func InSeconds(rules string) string {
	return minutes.ReplaceAllStringFunc(rules, func(found string) string {
		part := minutes.FindStringSubmatch(found)
		return part[1] + part[2] + map[string]string{"m": "s", "h": "m"}[part[3]]
	})
}

// Config returns the shipped configuration of Prometheus for a node, with short intervals.
func Config(t testing.TB, shipped, node string) string {
	t.Helper()
	for from, to := range map[string]string{"_interval: 15s": "_interval: " + ScrapeEvery, "127.0.0.1:9443": node} {
		if !strings.Contains(shipped, from) {
			t.Fatalf("prometheus.yml has no %q to replace", from)
		}
		shipped = strings.ReplaceAll(shipped, from, to)
	}
	return shipped
}

// Prometheus is a running one.
type Prometheus struct {
	T testing.TB
	// Get reads a path of its API.
	Get func(path string) ([]byte, error)
}

// Await polls until a condition holds.
func (p *Prometheus) Await(what string, within time.Duration, condition func() bool) {
	p.T.Helper()
	if !Eventually(within, condition) {
		p.T.Fatalf("timed out waiting until %s", what)
	}
}

// Eventually polls until a condition holds; false if it does not in time.
func Eventually(within time.Duration, condition func() bool) bool {
	for timeout := time.After(within); !condition(); {
		select {
		case <-timeout:
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
	return true
}

// read reads an answer of the API; false if there is none yet.
func (p *Prometheus) read(path string, into any) bool {
	p.T.Helper()
	text, err := p.Get(path)
	if err != nil {
		return false // it is starting
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.Unmarshal(text, &answer); err != nil {
		return false
	}
	if answer.Status != "success" {
		p.T.Errorf("%s: %s", path, answer.Error)
		return false
	}
	return true
}

// Query returns the values that an expression has now, without those that are no number.
func (p *Prometheus) Query(expr string) (values []float64) {
	p.T.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	if !p.read("/api/v1/query?query="+url.QueryEscape(expr), &data) {
		return nil
	}
	for _, sample := range data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(sample.Value[1]), 64)
		if err != nil {
			p.T.Fatalf("%s: %v", expr, err)
		}
		if value == value {
			values = append(values, value)
		}
	}
	return values
}

// Raised is an alert as Prometheus has it.
type Raised struct {
	Labels      map[string]string
	Annotations map[string]string
	State       string
}

// Firing returns the alerts that fire.
func (p *Prometheus) Firing() (all []Raised) {
	p.T.Helper()
	var data struct{ Alerts []Raised }
	p.read("/api/v1/alerts", &data)
	for _, a := range data.Alerts {
		if a.State == "firing" {
			all = append(all, a)
		}
	}
	return all
}

// Fires returns an alert that fires; with a label, if one is named.
func (p *Prometheus) Fires(name, label, value string) (found Raised, ok bool) {
	p.T.Helper()
	for _, a := range p.Firing() {
		if a.Labels["alertname"] == name && a.Labels[label] == value {
			return a, true
		}
	}
	return found, false
}

// Runbook returns the paragraphs of docs/incidents.md about alerts, by their heading.
func Runbook(t testing.TB, page string) map[string]string {
	t.Helper()
	_, below, found := strings.Cut(page, "\n## Alerts\n")
	if !found {
		t.Fatal("docs/incidents.md has no heading Alerts")
	}
	below, _, _ = strings.Cut(below, "\n## ")
	all := map[string]string{}
	for _, part := range strings.Split(below, "\n### ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		all[heading] = strings.Join(strings.Fields(text), " ")
	}
	return all
}

// A Panel is one of the dashboard.
type Panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ UID string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		RefID, Expr string
		Datasource  struct{ UID string }
	}
}

// A Dashboard is what Grafana reads.
type Dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []Panel
}

// ReadDashboard reads docs/examples/grafana-dashboard.json.
func ReadDashboard(t testing.TB, text string) (d Dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 30 {
		t.Fatalf("the dashboard has %d panels: it was not read as it is", len(d.Panels))
	}
	return d
}

// Queries returns the queries of the panels by what they are, with values for the variables.
func (d Dashboard) Queries(t testing.TB) map[string]string {
	t.Helper()
	queries := map[string]string{}
	for _, panel := range d.Panels {
		for _, q := range panel.Targets {
			expr := strings.NewReplacer("$instance", ".*", "$__rate_interval", "20s").Replace(q.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("the panel %q has a variable that is not known: %s", panel.Title, expr)
			}
			queries[fmt.Sprintf("the panel %q, query %s", panel.Title, q.RefID)] = expr
		}
	}
	return queries
}
