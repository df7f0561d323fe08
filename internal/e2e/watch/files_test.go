package watch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/coaxhq/coax/internal/e2e"
)

// examples is the folder of the files that are tested here.
var examples = filepath.Join("..", "..", "..", "docs", "examples")

// runbookURL is where the alerts' runbook is published.
const runbookURL = "https://github.com/coaxhq/coax/blob/main/docs/incidents.md#"

type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations struct {
		Summary string
		Runbook string `yaml:"runbook_url"`
	}
}

func readYAML(t testing.TB, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(e2e.ReadFile(t, filepath.Join(examples, file))), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func alerts(t testing.TB) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	readYAML(t, "alerts.yml", &file)
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) < 30 {
		t.Fatalf("alerts.yml has %d alerts: it was not read as it is", len(all))
	}
	return all
}

// runbook returns the paragraphs of the runbook by their heading.
func runbook(t testing.TB) map[string]string {
	t.Helper()
	_, below, found := strings.Cut(e2e.ReadFile(t, filepath.Join(examples, "..", "incidents.md")), "\n## Alerts\n")
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

// tool returns the path of a program that Debian's package prometheus has.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs %s, of the package prometheus: %v", name, err)
		}
		t.Skipf("%s, of the package prometheus, is not installed", name)
	}
	return path
}

func TestAlerts_PassPromtool(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"test", "rules", "alerts_test.yml"}} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = examples
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestAlerts_AreDescribed(t *testing.T) {
	t.Parallel()
	paragraphs := runbook(t)
	for _, a := range alerts(t) {
		if a.Labels["severity"] != "page" && a.Labels["severity"] != "ticket" {
			t.Errorf("%s: severity %q; want page or ticket", a.Alert, a.Labels["severity"])
		}
		if !strings.HasPrefix(a.Alert, "Coax") || !strings.HasSuffix(a.Annotations.Summary, ".") {
			t.Errorf("%s: %q; want a name that begins with Coax and a summary that is a sentence", a.Alert, a.Annotations.Summary)
		}
		if want := runbookURL + strings.ToLower(a.Alert); a.Annotations.Runbook != want {
			t.Errorf("%s: runbook_url %s; want %s", a.Alert, a.Annotations.Runbook, want)
		}
		if len(paragraphs[a.Alert]) < 30 {
			t.Errorf("docs/incidents.md says %q about %s; want what to do", paragraphs[a.Alert], a.Alert)
		}
		delete(paragraphs, a.Alert)
	}
	for heading := range paragraphs {
		t.Errorf("docs/incidents.md has %s below Alerts, which is no alert", heading)
	}
}

// Each alert has a unit test in which it is raised for what is bad and not for what is good.
func TestAlerts_HaveUnitTests(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Name        string
			InputSeries []struct{ Series string } `yaml:"input_series"`
			Cases       []struct {
				Alert  string `yaml:"alertname"`
				Raised []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "alerts_test.yml", &file)
	tested := map[string]bool{}
	for _, test := range file.Tests {
		raised, good := false, false
		for _, c := range test.Cases {
			raised = raised || len(c.Raised) > 0
		}
		for _, series := range test.InputSeries {
			good = good || !strings.Contains(series.Series, `"bad"`)
		}
		if raised && good {
			tested[test.Name] = true
		}
	}
	for _, a := range alerts(t) {
		if !tested[a.Alert] {
			t.Errorf("alerts_test.yml has no test of that name which raises %s, and has a series that does not", a.Alert)
		}
	}
}

type panel struct {
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

type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

func readDashboard(t testing.TB) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(e2e.ReadFile(t, filepath.Join(examples, "grafana-dashboard.json"))), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 30 {
		t.Fatalf("the dashboard has %d panels: it was not read as it is", len(d.Panels))
	}
	return d
}

func TestDashboard_IsWellFormed(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	var rows, variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: the id is used twice, or there is no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, taken := cells[[2]int{x, y}]; taken || x >= 24 {
					t.Errorf("panel %q overlaps %q, or the right edge", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %q has %d queries and the unit %q", p.Title, len(p.Targets), p.FieldConfig.Defaults.Unit)
		}
		for _, q := range p.Targets {
			if p.Datasource.UID != "${datasource}" || q.Datasource.UID != "${datasource}" || !strings.Contains(q.Expr, `instance=~"$instance"`) {
				t.Errorf("panel %q, query %s: it does not use the variables datasource and instance: %s", p.Title, q.RefID, q.Expr)
			}
		}
	}
	if want := []string{"Service", "Money", "Provider", "Store", "Safety"}; !slices.Equal(rows, want) {
		t.Errorf("rows %v; want %v", rows, want)
	}
	if want := []string{"datasource datasource", "instance query"}; !slices.Equal(variables, want) || d.UID != "coax" || d.SchemaVersion < 38 {
		t.Errorf("uid %q, schema %d, variables %v; want coax, 38 or newer, %v", d.UID, d.SchemaVersion, variables, want)
	}
	for _, file := range []string{"datasources/prometheus.yml", "dashboards/coax.yml"} {
		var provisioning map[string]any
		readYAML(t, filepath.Join("grafana", file), &provisioning)
		if provisioning["apiVersion"] != 1 {
			t.Errorf("grafana/%s: apiVersion %v; want 1", file, provisioning["apiVersion"])
		}
	}
}

var metricName = regexp.MustCompile(`\bcoax_[a-z_]+`)

// The metrics that alerts and dashboard name are those of docs/monitoring.md, which
// TestDocs_EveryMetric compares with a node's.
func TestAlertsAndDashboard_NameDocumentedMetrics(t *testing.T) {
	t.Parallel()
	page := e2e.ReadFile(t, filepath.Join(examples, "..", "monitoring.md"))
	documented := map[string]bool{}
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for _, name := range metricName.FindAllString(cells[1], -1) {
				documented[name] = true
			}
		}
	}
	check := func(where, expr string) {
		for _, name := range metricName.FindAllString(expr, -1) {
			plain := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			if !documented[name] && !documented[plain] {
				t.Errorf("%s names %s, which docs/monitoring.md does not have", where, name)
			}
		}
	}
	for _, a := range alerts(t) {
		check(a.Alert, a.Expr)
	}
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			check("the panel "+p.Title, q.Expr)
		}
	}
}
