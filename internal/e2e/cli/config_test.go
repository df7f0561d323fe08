package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/server"
)

func TestConfig_InitWritesDefaults(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", folder))
	file := filepath.Join(folder, "coax.toml")
	empty := e2e.WriteFile(t, filepath.Join(folder, "empty.toml"), "")
	want, err := server.LoadConfig(server.Sources{File: empty})
	if err != nil {
		t.Fatal(err)
	}
	got, err := server.LoadConfig(server.Sources{File: file})
	if err != nil {
		t.Fatalf("what init wrote cannot be read: %v", err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("what init wrote means\n%+v\nwant the default values\n%+v", got, want)
	}

	// The commented-out values are the defaults too.
	text := regexp.MustCompile(`(?m)^#([a-z_]+ = )`).ReplaceAllString(e2e.ReadFile(t, file), "$1")
	if strings.Count(text, " = ") < len(server.Settings) {
		t.Fatalf("not every setting stands in the file:\n%s", text)
	}
	got, err = server.LoadConfig(server.Sources{File: e2e.WriteFile(t, filepath.Join(folder, "open.toml"), text)})
	if err != nil {
		t.Fatalf("with its comments opened the file cannot be read: %v\n%s", err, text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("with its comments opened the file means\n%+v\nwant\n%+v", got, want)
	}
}

// Without names, config explain explains every setting once, with its meaning and its value.
func TestConfigExplain_AllSettings(t *testing.T) {
	t.Parallel()
	file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "coax.toml"), "[provider]\ntimeout = \"31s\"\n")
	var want, named []string
	for _, s := range server.Settings {
		want = append(want, s.Key)
	}
	out := e2e.RequireOK(t, e2e.Run(t, "config", "explain", "--config", file)).Out
	for _, line := range regexp.MustCompile(`(?m)^(\S+) = .*\n    (.*)$`).FindAllStringSubmatch(out, -1) {
		named = append(named, line[1])
		if i := slices.Index(want, line[1]); i < 0 || server.Settings[i].Doc != line[2] {
			t.Errorf("config explain says of %s %q", line[1], line[2])
		}
	}
	if !slices.Equal(named, want) {
		t.Errorf("config explain explains %v; want %v", named, want)
	}
	e2e.CheckMentions(t, "config explain", out, "provider.timeout = 31s\n", "    from "+file+":2; the default is 20s\n")
	var all []server.Explanation
	if err := json.Unmarshal([]byte(e2e.RequireOK(t, e2e.Run(t, "config", "explain", "--json", "--config", file)).Out), &all); err != nil || len(all) != len(want) {
		t.Errorf("config explain --json explains %d settings, %v; want %d", len(all), err, len(want))
	}
}

// cliBadValues holds, for every setting that is more than any text, values that
// it cannot have and a word of the reason.
var cliBadValues = map[string][][2]string{
	"maintenance":                        {{"yes", "neither true nor false"}, {"", "neither"}},
	"strict":                             {{"yes", "neither true nor false"}, {"", "neither"}},
	"server.addr":                        {{"", "HOST:PORT"}, {"127.0.0.1", "HOST:PORT"}, {"127.0.0.1:https", "HOST:PORT"}, {"127.0.0.1:65536", "HOST:PORT"}, {"::1:8443", "HOST:PORT"}},
	"server.plain_addr":                  {{"8080", "HOST:PORT"}},
	"server.internal_addr":               {{"", "HOST:PORT"}, {"localhost", "HOST:PORT"}},
	"server.trusted_proxies":             {{"10.0.0.0/33", "10.0.0.0/33"}, {"10.1.2.3/8", "10.0.0.0/8"}, {"0.0.0.0/0", "trusts everyone"}, {"192.0.2.1,proxy.example", "proxy.example"}},
	"server.acme_domains":                {{"*.example.com", "wildcard"}, {"api.example.com,192.0.2.1", "192.0.2.1"}, {"https://api.example.com", "host name"}, {"api.example.com:443", "host name"}, {"-a.example", "host name"}, {"münchen.example", "xn--"}},
	"server.acme_email":                  {{"ops", "ops@example.com"}, {"Ops <ops@example.com>", "ops@example.com"}},
	"server.acme_directory":              {{"", "https://"}, {"http://acme.example/directory", "https://"}, {"https://", "https://"}, {"https://user@acme.example/", "https://"}},
	"server.max_connections":             {{"0", "1 to"}, {"many", "whole number"}, {"1.5", "whole number"}},
	"server.max_connections_per_network": {{"0", "1 to"}},
	"server.max_connections_per_address": {{"-1", "1 to"}},
	"server.profiling":                   {{"yes", "neither true nor false"}, {"1", "neither"}, {"", "neither"}, {"True", "neither"}},
	"server.hsts_include_subdomains":     {{"yes", "neither true nor false"}},
	"store.url": {{"", "sqlite:"}, {"data/coax.db", "sqlite:PATH"}, {"sqlite:", "path"}, {"mysql://db", "sqlite:PATH"},
		{"postgres://db:port/coax", "port"}, {"postgres://db/coax?sslmode=maybe", "sslmode"}, {"postgres://db/coax?pool_max_conns=many", "pool_max_conns"}},
	"store.mark_file":               {{"", "empty"}},
	"store.replica":                 {{"ftp://host/x", "file://"}, {"replica", "file://"}, {"file://", "file://"}, {"s3://", "s3://"}, {"sftp://", "sftp://"}},
	"store.replica_mode":            {{"", "async"}, {"Sync", "async"}, {"both", "sync"}},
	"provider.name":                 {{"", "empty"}, {"  ", "empty"}},
	"provider.url":                  {{"provider.example", "https://"}, {"ftp://provider.example", "https://"}, {"https://", "https://"}, {"http://a b", "https://"}},
	"provider.timeout":              {{"20", "duration"}, {"soon", "duration"}, {"0s", "outside"}, {"-1s", "outside"}, {"11m", "outside"}},
	"review.first_check":            {{"-1s", "outside"}, {"1 day", "duration"}},
	"review.max_interval":           {{"0", "outside"}, {"", "duration"}},
	"review.refund_after":           {{"2 m", "duration"}},
	"catalogue.refresh":             {{"0s", "outside"}},
	"catalogue.max_age":             {{"721h", "outside"}},
	"clock.offset":                  {{"1mo", "duration"}, {"99999h", "outside"}},
	"rules.activation_term":         {{"31d", "30d"}, {"", "plan"}, {"Plan", "plan"}},
	"limits.failed_auth_per_minute": {{"0", "1 to"}, {"thirty", "whole number"}, {"1000001", "1 to"}},
	"panel.idle":                    {{"1m", "outside"}, {"25h", "outside"}, {"30", "duration"}},
	"panel.absolute":                {{"0s", "outside"}, {"721h", "outside"}, {"a day", "duration"}},
	"panel.staff_totp":              {{"yes", "neither true nor false"}, {"", "neither"}},
	"panel.origin":                  {{"http://panel.example.com", "https://"}, {"https://192.0.2.1", "https://"}, {"panel.example.com", "https://"}},
	"request_log.keep":              {{"-1h", "outside"}, {"30d", "duration"}, {"9000h", "outside"}},
	"retention.provider_calls":      {{"2159h", "at least"}, {"400d", "duration"}, {"-1h", "outside"}},
	"retention.operation_events":    {{"24h", "90 days"}, {"-1h", "outside"}},
	"retention.bulk_jobs":           {{"719h", "30 days"}, {"a month", "duration"}},
	"retention.personal_data":       {{"-1h", "outside"}, {"8y", "duration"}},
	"reversal.max_age":              {{"0s", "outside"}, {"745h", "outside"}, {"a day", "duration"}},
	"approval.window":               {{"0s", "outside"}, {"745h", "outside"}, {"a day", "duration"}},
	"approval.price_change":         {{"-1", "whole number"}, {"101", "whole number"}, {"12.5", "whole number"}},
	"plans.max_months":              {{"0", "whole number"}, {"121", "whole number"}, {"long", "whole number"}},
	"approval.above":                {{"", "rupees"}, {"-1", "rupees"}, {"1.234", "rupees"}, {"much", "rupees"}},
	"approval.new_login_wait":       {{"-1h", "outside"}, {"1d", "duration"}, {"721h", "outside"}},
	"audit.every":                   {{"-1s", "outside"}, {"always", "duration"}},
	"log.level":                     {{"loud", "debug, info, warn, error"}, {"INFO", "info"}},
	"trace.endpoint":                {{"127.0.0.1:4318", "http://"}, {"grpc://127.0.0.1:4317", "http://"}, {"https://", "http://"}, {"https://me:hunter2@collector.example", "trace.headers_file"}, {"https://collector.example/?key=hunter2", "trace.headers_file"}},
	"trace.ratio":                   {{"", "from 0 to 1"}, {"1.01", "from 0 to 1"}, {"-0.1", "from 0 to 1"}, {"NaN", "from 0 to 1"}, {"10%", "from 0 to 1"}},
	"trace.trust_parent":            {{"yes", "neither true nor false"}},
	"payments.account_name":         {{strings.Repeat("a", 101), "100 characters"}},
	"payments.account_number":       {{"IN50100", "6 to 18 digits"}, {"12345", "6 to 18 digits"}, {"1234567890123456789", "6 to 18 digits"}},
	"payments.ifsc":                 {{"HDFC1001234", "HDFC0001234"}, {"hdfc0001234", "capital"}, {"HDFC000123", "HDFC0001234"}},
	"payments.bank":                 {{strings.Repeat("a", 101), "100 characters"}},
	"payments.upi_id":               {{"sagar", "sagar@hdfcbank"}, {"sagar@hdfc bank@x", "sagar@hdfcbank"}, {"https://sagar@hdfc", "sagar@hdfcbank"}, {"sagar@hdfc.bank", "sagar@hdfcbank"}},
	"payments.payee_name":           {{strings.Repeat("a", 101), "100 characters"}},
}

// cliAnyText are the settings that name a file, and may be anything.
var cliAnyText = []string{"server.tls_cert", "server.tls_key", "server.acme_ca_file", "secrets.master_key_file", "provider.ca", "provider.token_file", "backup.folder", "log.security_file", "trace.headers_file"}

// All mistakes are listed at once, so that one command has a bad value of every setting.
func TestConfig_BadValuesFromAnySource(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	good := e2e.WriteFile(t, filepath.Join(folder, "good.toml"), "")
	var environ, sets, fromEnviron, fromSets []string
	var lines, fromLines [][]string // of one file after the other
	for _, s := range server.Settings {
		if slices.Contains(cliAnyText, s.Key) {
			continue
		}
		if len(cliBadValues[s.Key]) == 0 {
			t.Errorf("no bad value of %s is tried", s.Key)
		}
		for i, bad := range cliBadValues[s.Key] {
			value, reason := bad[0], bad[1]
			if i == len(lines) {
				lines, fromLines = append(lines, nil), append(fromLines, nil)
			}
			// A dotted key is the same as a table with the name in it.
			lines[i] = append(lines[i], s.Key+" = "+server.TomlQuote(value))
			fromLines[i] = append(fromLines[i], fmt.Sprintf(`:%d: %s: .*%s`, len(lines[i]), regexp.QuoteMeta(s.Key), regexp.QuoteMeta(reason)))
			if i > 0 {
				continue // one is enough to see that the other ways are read alike
			}
			environ = append(environ, server.EnvironmentName(s.Key)+"="+value)
			fromEnviron = append(fromEnviron, fmt.Sprintf(`%s: .*%s`, server.EnvironmentName(s.Key), regexp.QuoteMeta(reason)))
			sets = append(sets, "--set", s.Key+"="+value)
			fromSets = append(fromSets, fmt.Sprintf(`--set %s: .*%s`, regexp.QuoteMeta(s.Key), regexp.QuoteMeta(reason)))
		}
	}
	refused := func(got e2e.Result, before string, want []string) {
		t.Helper()
		if got.Code != e2e.ExitRefused || got.Out != "" || !strings.HasPrefix(got.Err, "coax: ") || strings.Count(got.Err, "\n") < len(want) {
			t.Errorf("want exit 1 and a line for each of %d mistakes; %s", len(want), got)
		}
		for _, pattern := range want {
			if !regexp.MustCompile(`(?m)` + before + pattern).MatchString(got.Err) {
				t.Errorf("nothing like %s in\n%s", pattern, got.Err)
			}
		}
	}
	for i := range lines {
		file := e2e.WriteFile(t, filepath.Join(folder, "bad.toml"), strings.Join(lines[i], "\n")+"\n")
		refused(e2e.Run(t, "serve", "--config", file), regexp.QuoteMeta(file), fromLines[i])
	}
	refused(e2e.RunWithEnv(t, environ, "serve", "--config", good), "", fromEnviron)
	refused(e2e.Run(t, append([]string{"serve", "--config", good}, sets...)...), "", fromSets)
}

// Values of a wrong TOML type are refused.
func TestConfig_WrongTypes(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`timeout = 20.5`, `timeout = 2027-03-01`, `timeout = [1, 2]`, `timeout = [["a"]]`, `timeout = true`, `timeout = 20`,
	} {
		file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "coax.toml"), "[provider]\n"+line+"\n")
		e2e.CheckRefused(t, e2e.Run(t, "serve", "--config", file), file+":2: provider.timeout: ")
	}
}

// A share is a number, with or without quotes.
func TestConfig_Ratio(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{`0.01`: 0.01, `1`: 1, `0`: 0, `1.0`: 1, `1e-3`: 0.001, `"0.5"`: 0.5} {
		file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "coax.toml"), "[trace]\nratio = "+text+"\n")
		if config, err := server.LoadConfig(server.Sources{File: file}); err != nil || config.Trace.Ratio != want {
			t.Errorf("ratio = %s means %v, %v; want %v", text, config.Trace.Ratio, err, want)
		}
	}
}

func TestConfig_UnknownKeys(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	good := e2e.WriteFile(t, filepath.Join(folder, "good.toml"), "")
	for _, test := range []struct {
		name, toml string
		line       int
		key, want  string
	}{
		{"a letter left out", "[server]\nadr = \"x\"", 2, "server.adr", "server.addr"},
		{"two letters swapped", "[provider]\ntiemout = \"1s\"", 2, "provider.tiemout", "provider.timeout"},
		{"the wrong table", "[limits]\nactivation_term = \"30d\"", 2, "limits.activation_term", "rules.activation_term"},
		{"no table at all", "activation_term = \"30d\"", 1, "activation_term", "rules.activation_term"},
		{"nothing like any", "[weather]\nforecast = \"rain\"", 2, "weather.forecast", "coax config explain"},
		{"the section mistyped", "[providr]\nurl = \"x\"", 2, "providr.url", "is provider.url meant?"},
		{"section and name mistyped", "[sever]\nadr = \"x\"", 2, "sever.adr", "is server.addr meant?"},
		{"a name of two sections", "\n[web]\nurl = \"x\"", 3, "web.url", "is store.url or provider.url meant?"},
		{"a name cut short", "[server]\ntls = \"x\"", 2, "server.tls", "is server.tls_cert or server.tls_key meant?"},
		{"an inline table", "provider = {\n  url = \"http://127.0.0.1:1\",\n  urls = \"x\" }", 3, "provider.urls", "is provider.url meant?"},
		{"a dotted key", "# a comment\nserver.Addr = \"x\"", 2, "server.Addr", "is server.addr meant?"},
		{"a table too deep", "[server.addr]\nhost = \"x\"", 2, "server.addr.host", ""},
		{"a table as a value", "server = 3", 1, "server", ""},
		{"a list of tables", "[[server]]\naddr = \"127.0.0.1:1\"", 1, "server", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "coax.toml"), test.toml+"\n")
			e2e.CheckRefused(t, e2e.Run(t, "serve", "--config", file), fmt.Sprintf("%s:%d: %s: ", file, test.line, test.key), "no such key", test.want)
			e2e.CheckRefused(t, e2e.Run(t, "serve", "--config", good, "--set", test.key+"=1"), "--set "+test.key+": ", "no such key", test.want)
		})
	}
	for name, want := range map[string]string{
		"COAX_SERVER_ADR": "is COAX_SERVER_ADDR meant?", "COAX_LIMITS_FAILED_AUTH": "coax config explain", "COAX_STORE_": "coax config explain",
	} {
		e2e.CheckRefused(t, e2e.RunWithEnv(t, []string{name + "=1"}, "serve", "--config", good), name+": ", want)
	}
	e2e.CheckRefused(t, e2e.Run(t, "serve", "--config", good, "--set", "server.addr"), "--set server.addr: ", "key=value")
	e2e.CheckRefused(t, e2e.Run(t, "serve", "--config", good, "--set", "=x"), "--set : ", "no such key")
}

// Variables of other programs, and COAX_ variables that are not settings, are ignored.
func TestConfig_OtherVariablesIgnored(t *testing.T) {
	t.Parallel()
	good := e2e.WriteFile(t, filepath.Join(t.TempDir(), "coax.toml"), "")
	_, err := server.LoadConfig(server.Sources{File: good, Environ: []string{
		"HOME=/root", "COAX=1", "COAXIAL_SERVER_ADDR=x", "COAX_MASTER_KEY=x", "COAX_API_KEY=x", "COAX_BASE_URL=x", "SERVER_ADDR=x", "noequals",
	}})
	if err != nil {
		t.Errorf("variables that are none of ours were refused: %v", err)
	}
}

func TestConfig_SyntaxErrorNamesLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, at string }{
		{"[server]\naddr = \"127.0.0.1:1\nplain_addr = \"\"\n", ":2:"},
		{"[server]\n\naddr 127.0.0.1\n", ":3:"},
		{"[server\n", ":1:"},
		{"[server]\naddr = \"a\"\naddr = \"b\"\n", ":3:"},
		{"[limits]\nfailed_auth_per_minute = 030\n", ":2:26"},
	} {
		file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "coax.toml"), test.text)
		e2e.CheckRefused(t, e2e.Run(t, "serve", "--config", file), file+test.at)
	}
}

func TestConfig_MissingFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	missing := filepath.Join(folder, "coax.toml")
	for _, command := range [][]string{{"serve"}, {"migrate"}, {"admin", "lco", "list"}} {
		e2e.CheckRefused(t, e2e.Run(t, append(command, "--config", missing)...), missing, "coax init")
		e2e.CheckRefused(t, e2e.Run(t, append(command, "--config", folder)...), folder)
	}
}

func TestConfig_AllErrorsAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, toml string
		want       []string
	}{
		{"bad values", "[provider]\ntimeout = \"soon\"\n[log]\nlevel = \"loud\"\n", []string{"provider.timeout", "log.level"}},
		{"unknown keys", "[provider]\ntimout = \"1s\"\n[log]\nlevels = \"info\"\n", []string{"provider.timout", "log.levels"}},
		{"a bad value and an unknown key", "[provider]\ntimeout = \"soon\"\n[log]\nlevels = \"info\"\n", []string{"provider.timeout", "log.levels"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "coax.toml"), test.toml)
			got := e2e.RunWithEnv(t, []string{"COAX_SERVER_ADDR=nowhere", "COAX_SERVER_ADR=x"}, "serve", "--config", file,
				"--set", "rules.activation_term=31d", "--set", "rules.term=plan", "--set", "nothing")
			if got.Code != e2e.ExitRefused || got.Out != "" {
				t.Errorf("want exit 1 and nothing on stdout; %s", got)
			}
			e2e.CheckMentions(t, "the complaint", got.Err, append(test.want,
				"COAX_SERVER_ADDR: ", "COAX_SERVER_ADR: ", "--set rules.activation_term: ", "--set rules.term: ", "--set nothing: ")...)
			if lines := strings.Count(got.Err, "\n"); lines != len(test.want)+5 {
				t.Errorf("%d lines for %d mistakes; want one each:\n%s", lines, len(test.want)+5, got.Err)
			}
		})
	}
}

func TestConfig_LaterSourcesWin(t *testing.T) {
	t.Parallel()
	file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "coax.toml"), "[provider]\ntimeout = \"1s\"\n[review]\nfirst_check = \"2s\"\nmax_interval = \"3s\"\n")
	environ := []string{"COAX_REVIEW_FIRST_CHECK=4s", "COAX_REVIEW_MAX_INTERVAL=5s"}
	config, err := server.LoadConfig(server.Sources{File: file, Environ: environ, Sets: []string{"review.max_interval=6s", "log.level=warn", "log.level=debug"}})
	if err != nil {
		t.Fatal(err)
	}
	got := []time.Duration{config.Provider.Timeout, config.Review.FirstCheck, config.Review.MaxInterval, config.Review.RefundAfter}
	if want := []time.Duration{time.Second, 4 * time.Second, 6 * time.Second, 2 * time.Minute}; !slices.Equal(got, want) {
		t.Errorf("file, environment over file, --set over both, standard: %v; want %v", got, want)
	}
	if config.Log.Level != "debug" {
		t.Errorf("of two --set the level is %s; want the later one's", config.Log.Level)
	}
	// A value with commas and equals signs arrives whole.
	config, err = server.LoadConfig(server.Sources{File: file, Sets: []string{"server.trusted_proxies=10.0.0.0/8, 192.0.2.1", "provider.name=a=b,c"}})
	if err != nil || len(config.Server.TrustedProxies) != 2 || config.Provider.Name != "a=b,c" {
		t.Errorf("proxies %v, name %q, %v", config.Server.TrustedProxies, config.Provider.Name, err)
	}
}

func TestConfig_PathsRelativeToFile(t *testing.T) {
	folder := t.TempDir()
	e2e.WriteFile(t, filepath.Join(folder, "coax.toml"), "[server]\ntls_cert = \"certs/a.pem\"\ntls_key = \"/abs/a.key\"\n")
	check := func(from string, want string) {
		t.Helper()
		config, err := server.LoadConfig(server.Sources{File: from, Environ: []string{"COAX_PROVIDER_CA=ca.pem"}, Sets: []string{"store.url=sqlite:x/y.db"}})
		if err != nil {
			t.Fatal(err)
		}
		got := []string{config.Server.TLSCert, config.Server.TLSKey, config.Secrets.MasterKeyFile, config.Provider.CA, config.Provider.TokenFile, config.Store.Path}
		for i, path := range []string{"certs/a.pem", "/abs/a.key", "master.key", "ca.pem", "", "x/y.db"} {
			if path != "" && !filepath.IsAbs(path) {
				path = filepath.Join(want, path)
			}
			if got[i] != path {
				t.Errorf("--config %s: path %s; want %s", from, got[i], path)
			}
		}
	}
	check(filepath.Join(folder, "coax.toml"), folder)
	t.Chdir(folder)
	check("coax.toml", "")
	t.Chdir("/")
	check(strings.TrimPrefix(folder, "/")+"/coax.toml", strings.TrimPrefix(folder, "/"))
}

// The default of every setting, so that none changes by accident.
func TestConfig_Defaults(t *testing.T) {
	t.Parallel()
	config, err := server.LoadConfig(server.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	want := server.Config{Portable: map[string]string{}}
	want.Server.Addr, want.Server.InternalAddr = "127.0.0.1:8443", "127.0.0.1:9443"
	want.Server.TLSCert, want.Server.TLSKey = "tls.pem", "tls.key"
	want.Server.ACMEDirectory = "https://acme-v02.api.letsencrypt.org/directory"
	want.Server.MaxConnections, want.Server.MaxConnectionsPerNetwork, want.Server.MaxConnectionsPerAddress = 4096, 1024, 256
	want.Store.Kind, want.Store.Path, want.Store.URL = "sqlite", "data/coax.db", "sqlite:data/coax.db"
	want.Store.MarkFile, want.Store.ReplicaMode = "store.mark", "async"
	want.Secrets.MasterKeyFile = "master.key"
	want.Provider.Name, want.Provider.Timeout = "simulator", 20*time.Second
	want.Review.FirstCheck, want.Review.MaxInterval, want.Review.RefundAfter = 10*time.Second, 10*time.Minute, 2*time.Minute
	want.Catalogue.Refresh, want.Catalogue.MaxAge = 5*time.Minute, 30*time.Minute
	want.Rules.ActivationTerm = "30d"
	want.Limits.FailedAuthPerMinute = 30
	want.Panel.Idle, want.Panel.Absolute, want.Panel.StaffTOTP = 30*time.Minute, 12*time.Hour, true
	want.RequestLog.Keep = 720 * time.Hour
	want.Approval.Above, want.Approval.Window = money.Paise(50_000_00), 24*time.Hour
	want.Approval.NewLoginWait, want.Approval.PriceChange = 24*time.Hour, 20
	want.Plans.MaxMonths = 24
	want.ReversalAge = 72 * time.Hour
	want.Log.Level = "info"
	want.Trace.Ratio = 1
	if !reflect.DeepEqual(config, want) {
		t.Errorf("with nothing said:\n%+v\nwant\n%+v", config, want)
	}
}
