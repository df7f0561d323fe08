package watch

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/alerting"
)

// examples is the folder of the files that are tested here.
var examples = filepath.Join("..", "..", "..", "docs", "examples")

// composeFolder has the files of the compose file.
var composeFolder = filepath.Join("..", "..", "..", "packaging", "compose")

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
	return alerting.Runbook(t, e2e.ReadFile(t, filepath.Join(examples, "..", "incidents.md")))
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
	// The compose file mounts its configuration beside the alerts.
	compose := t.TempDir()
	e2e.WriteFile(t, filepath.Join(compose, "prometheus.yml"), e2e.ReadFile(t, filepath.Join(composeFolder, "prometheus.yml")))
	e2e.WriteFile(t, filepath.Join(compose, "alerts.yml"), e2e.ReadFile(t, filepath.Join(examples, "alerts.yml")))
	for _, tt := range []struct {
		folder string
		args   []string
	}{
		{examples, []string{"check", "config", "prometheus.yml"}},
		{examples, []string{"test", "rules", "alerts_test.yml"}},
		{compose, []string{"check", "config", "prometheus.yml"}},
	} {
		command := exec.CommandContext(t.Context(), promtool, tt.args...)
		command.Dir = tt.folder
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("promtool %s: %v\n%s", strings.Join(tt.args, " "), err, out)
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

func readDashboard(t testing.TB) alerting.Dashboard {
	t.Helper()
	return alerting.ReadDashboard(t, e2e.ReadFile(t, filepath.Join(examples, "grafana-dashboard.json")))
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
	for _, file := range []string{"grafana/datasources/prometheus.yml", "grafana/dashboards/coax.yml"} {
		var provisioning map[string]any
		readYAML(t, file, &provisioning)
		if provisioning["apiVersion"] != 1 {
			t.Errorf("%s: apiVersion %v; want 1", file, provisioning["apiVersion"])
		}
	}
}

// The compose file's data source is that of the examples, but for its address.
func TestDataSource_OfCompose(t *testing.T) {
	t.Parallel()
	var example, compose struct {
		APIVersion  int              `yaml:"apiVersion"`
		DataSources []map[string]any `yaml:"datasources"`
	}
	readYAML(t, "grafana/datasources/prometheus.yml", &example)
	readYAML(t, filepath.Join("..", "..", "packaging", "compose", "grafana-datasource.yml"), &compose)
	if len(example.DataSources) != 1 || len(compose.DataSources) != 1 {
		t.Fatalf("data sources %v and %v; want one each", example, compose)
	}
	if compose.DataSources[0]["url"] != "http://prometheus:9090" {
		t.Errorf("the compose file's data source is at %v", compose.DataSources[0]["url"])
	}
	delete(example.DataSources[0], "url")
	delete(compose.DataSources[0], "url")
	if !reflect.DeepEqual(example, compose) {
		t.Errorf("the compose file's data source is %v; the example's %v", compose, example)
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
