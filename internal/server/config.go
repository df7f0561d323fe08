package server

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/coaxhq/coax/internal/fileowner"
)

// Sources is where settings come from. Later ones win: the default values, the file,
// the environment, the command line.
type Sources struct {
	// File is the configuration's path; empty means none is read.
	File string
	// Sets are key=value pairs from --set.
	Sets []string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
}

// LoadConfig reads and checks the whole configuration. Its error lists every mistake and
// where it was made.
func LoadConfig(from Sources) (Config, error) {
	l := load(from)
	return l.config, errors.Join(l.problems...)
}

// loaded is a configuration with where each value comes from.
type loaded struct {
	config Config
	// given has the settings that are not at their default.
	given map[string]origin
	// unread: there is a file, and it could not be read.
	unread bool
	// problems are ConfigErrors, except for a file that could not be read.
	problems []error
	// invalid are the settings whose value was refused.
	invalid map[string]error
}

// origin is a value and where it was given.
type origin struct {
	value string
	where Place
}

// Place is where a setting was given: in a file, in the environment or by a flag.
type Place struct {
	File string
	// Line is 0 if it is not known.
	Line int
	// Name is the environment variable, or the flag with its key.
	Name string
}

func (p Place) String() string {
	switch {
	case p.Name != "":
		return p.Name
	case p.File != "" && p.Line > 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	case p.File != "":
		return p.File
	}
	return ""
}

// ConfigError is a mistake in the configuration.
type ConfigError struct {
	Key   string
	Where Place
	Err   error
}

func (e *ConfigError) Error() string {
	switch {
	case e.Where.File != "":
		return fmt.Sprintf("%s: %s: %v", e.Where, e.Key, e.Err)
	case e.Where.Name != "":
		return fmt.Sprintf("%s: %v", e.Where.Name, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Key, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

func load(from Sources) loaded {
	l := loaded{given: map[string]origin{}, invalid: map[string]error{}}
	folder := "."
	if from.File != "" {
		folder = filepath.Dir(from.File)
		values, problems := readConfigFile(from.File)
		l.problems, l.unread = append(l.problems, problems...), values == nil
		maps.Copy(l.given, values)
	}
	fromEnvironment, problems := readEnvironment(from.Environ)
	l.problems = append(l.problems, problems...)
	maps.Copy(l.given, fromEnvironment)
	fromSets, problems := readSets(from.Sets)
	l.problems = append(l.problems, problems...)
	maps.Copy(l.given, fromSets)

	for _, problem := range l.problems {
		var at *ConfigError
		if errors.As(problem, &at) {
			l.invalid[at.Key] = at.Err
		}
	}
	for _, s := range Settings {
		value, where := s.Default, Place{}
		if o, ok := l.given[s.Key]; ok {
			value, where = o.value, o.where
		}
		err := s.Read(&l.config, s.absolute(value, folder))
		if !utf8.ValidString(value) {
			err = errors.New("it is not valid UTF-8")
		}
		if err != nil {
			l.invalid[s.Key] = err
			l.problems = append(l.problems, &ConfigError{s.Key, where, err})
		}
	}
	if l.config.Store.Kind == "postgres" && l.config.Store.Replica != "" {
		l.problems = append(l.problems, &ConfigError{"store.replica", l.given["store.replica"].where,
			errors.New("it is for a store on SQLite; PostgreSQL has standbys of its own (docs/growing.md)")})
	}
	if len(l.config.Server.ACMEDomains) > 0 {
		for _, key := range []string{"server.tls_cert", "server.tls_key"} {
			if o, ok := l.given[key]; ok {
				l.problems = append(l.problems, &ConfigError{key, o.where,
					errors.New("the certificate cannot come from a file and from server.acme_domains; remove one of the two")})
			}
		}
	}
	if l.config.Store.Kind == "postgres" {
		storeURL := FindSetting("store.url")
		l.config.Store.SQLiteDefault = strings.TrimPrefix(storeURL.absolute(storeURL.Default, folder), "sqlite:")
	}
	l.config.Portable = portable(l.given)
	return l
}

// texts returns the values without where they were given.
func texts(given map[string]origin) map[string]string {
	values := map[string]string{}
	for key, o := range given {
		values[key] = o.value
	}
	return values
}

// ParseSets reads key=value pairs.
func ParseSets(sets []string) (map[string]string, error) {
	given, problems := readSets(sets)
	return texts(given), errors.Join(problems...)
}

func readSets(sets []string) (given map[string]origin, problems []error) {
	given = map[string]origin{}
	for _, pair := range sets {
		key, value, found := strings.Cut(pair, "=")
		where := Place{Name: "--set " + key}
		switch {
		case !found:
			problems = append(problems, &ConfigError{key, where, errors.New("write it as key=value")})
		case FindSetting(key) == nil:
			problems = append(problems, &ConfigError{key, where, unknownKey(key)})
		default:
			given[key] = origin{value, where}
		}
	}
	return given, problems
}

// EnvironmentName returns the environment variable of a key: COAX_SERVER_ADDR for
// server.addr.
func EnvironmentName(key string) string {
	return "COAX_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// EnvironmentSettings returns the settings in the environment. A variable that has the
// prefix of a section but is no setting is an error: most likely it is mistyped.
func EnvironmentSettings(environ []string) (map[string]string, error) {
	given, problems := readEnvironment(environ)
	return texts(given), errors.Join(problems...)
}

func readEnvironment(environ []string) (given map[string]origin, problems []error) {
	byName := map[string]string{}
	sections := map[string]bool{}
	for _, s := range Settings {
		byName[EnvironmentName(s.Key)] = s.Key
		if section, _ := s.parts(); section != "" {
			sections[EnvironmentName(section)+"_"] = true
		}
	}
	given = map[string]origin{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if key, ok := byName[name]; ok {
			given[key] = origin{value, Place{Name: name}}
			continue
		}
		for section := range sections {
			if strings.HasPrefix(name, section) {
				problems = append(problems, &ConfigError{"", Place{Name: name}, unknownVariable(name)})
				break
			}
		}
	}
	return given, problems
}

// ReadConfigFile reads a TOML file into flat keys.
func ReadConfigFile(path string) (map[string]string, error) {
	given, problems := readConfigFile(path)
	if given == nil {
		return nil, errors.Join(problems...)
	}
	return texts(given), errors.Join(problems...)
}

// readConfigFile returns nil and an error if the file cannot be read at all.
func readConfigFile(path string) (given map[string]origin, problems []error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, []error{fmt.Errorf("there is no configuration at %s: `coax init --dir DIR` makes one", path)}
	}
	if err != nil {
		return nil, []error{fmt.Errorf("read the configuration: %w", fileowner.Explain(path, err))}
	}
	var tables map[string]any
	if err := toml.Unmarshal(text, &tables); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return nil, []error{&syntaxError{path, row, column, strings.TrimPrefix(at.Error(), "toml: ")}}
		}
		return nil, []error{fmt.Errorf("%s: %w", path, err)}
	}
	lines := keyLines(text)
	given = map[string]origin{}
	flatten("", tables, func(key string, value any) {
		where := Place{File: path, Line: lines[key]}
		s := FindSetting(key)
		if s == nil {
			problems = append(problems, &ConfigError{key, where, unknownKey(key)})
			return
		}
		text, err := s.tomlText(value)
		if err != nil {
			problems = append(problems, &ConfigError{key, where, err})
			return
		}
		given[key] = origin{text, where}
	})
	return given, problems
}

// syntaxError is where a file stops being TOML.
type syntaxError struct {
	file        string
	row, column int
	message     string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.file, e.row, e.column, e.message)
}

// keyLines returns the line of each key of a TOML text, and of each table.
func keyLines(text []byte) map[string]int {
	lines := map[string]int{}
	var parser unstable.Parser
	parser.Reset(text)
	table := ""
	for parser.NextExpression() {
		switch e := parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = addLine(lines, &parser, "", e) + "."
		case unstable.KeyValue:
			addValueLines(lines, &parser, table, e)
		}
	}
	return lines
}

// addLine records where a node's dotted key begins, and returns the key.
func addLine(lines map[string]int, parser *unstable.Parser, prefix string, node *unstable.Node) string {
	var names []string
	line := 0
	for key := node.Key(); key.Next(); {
		if line == 0 {
			line = parser.Shape(key.Node().Raw).Start.Line
		}
		names = append(names, string(key.Node().Data))
	}
	full := prefix + strings.Join(names, ".")
	if lines[full] == 0 {
		lines[full] = line
	}
	return full
}

func addValueLines(lines map[string]int, parser *unstable.Parser, prefix string, node *unstable.Node) {
	full := addLine(lines, parser, prefix, node)
	if node.Value().Kind != unstable.InlineTable {
		return
	}
	for inner := node.Value().Children(); inner.Next(); {
		if inner.Node().Kind == unstable.KeyValue {
			addValueLines(lines, parser, full+".", inner.Node())
		}
	}
}

func flatten(prefix string, table map[string]any, visit func(key string, value any)) {
	keys := make([]string, 0, len(table))
	for key := range table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		full := prefix + key
		if inner, ok := table[key].(map[string]any); ok && (len(inner) > 0 || isSection(full)) {
			flatten(full+".", inner, visit)
			continue
		}
		visit(full, table[key])
	}
}

// isSection reports whether settings have this section. Its table may be empty.
func isSection(name string) bool {
	return slices.ContainsFunc(Settings, func(s setting) bool { return strings.HasPrefix(s.Key, name+".") })
}

// tomlText returns a TOML value as --set would write it.
func (s *setting) tomlText(value any) (string, error) {
	switch v := value.(type) {
	case float64:
		if s.decimal {
			return strconv.FormatFloat(v, 'f', -1, 64), nil
		}
	case string:
		return v, nil
	case int64, bool:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			text, ok := part.(string)
			if !ok {
				return "", errors.New("a list holds texts only")
			}
			parts[i] = text
		}
		return strings.Join(parts, ","), nil
	}
	return "", errors.New("give a text in quotes, a whole number, true or false, or a list of texts")
}

func FindSetting(key string) *setting {
	for i := range Settings {
		if Settings[i].Key == key {
			return &Settings[i]
		}
	}
	return nil
}

// RenderConfig writes a configuration file with every key: the given ones as settings,
// the rest as comments with their default values.
func RenderConfig(head string, values map[string]string) []byte {
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(head), "\n") {
		fmt.Fprintf(&out, "# %s\n", line)
	}
	section := ""
	for _, s := range Settings {
		table, name := s.parts()
		switch {
		case table == "":
			out.WriteString("\n")
		case table != section:
			section = table
			fmt.Fprintf(&out, "\n[%s]\n", table)
		}
		fmt.Fprintf(&out, "# %s\n", s.Doc)
		if value, given := values[s.Key]; given {
			fmt.Fprintf(&out, "%s = %s\n", name, s.toml(value))
		} else {
			fmt.Fprintf(&out, "#%s = %s\n", name, s.toml(s.Default))
		}
	}
	return []byte(out.String())
}

// toml formats a value as TOML.
func (s setting) toml(value string) string {
	switch {
	case s.number:
		// TOML takes no leading zeros.
		if n, err := strconv.Atoi(value); err == nil {
			return strconv.Itoa(n)
		}
		return TomlQuote(value)
	case s.decimal:
		if n, err := strconv.ParseFloat(value, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			return strconv.FormatFloat(n, 'f', -1, 64)
		}
		return TomlQuote(value)
	case s.boolean && (value == "true" || value == "false"):
		return value
	case s.list:
		var parts []string
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, TomlQuote(part))
			}
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return TomlQuote(value)
}

func TomlQuote(text string) string {
	quoted, err := toml.Marshal(map[string]string{"v": text})
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	_, value, _ := strings.Cut(strings.TrimSpace(string(quoted)), "= ")
	return value
}
