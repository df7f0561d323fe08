package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

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
	folder := "."
	given := map[string]origin{}
	var problems []error
	if from.File != "" {
		folder = filepath.Dir(from.File)
		values, err := ReadConfigFile(from.File)
		problems = append(problems, err)
		for key, value := range values {
			given[key] = origin{value, from.File + ": " + key}
		}
	}
	fromEnvironment, err := EnvironmentSettings(from.Environ)
	problems = append(problems, err)
	for key, value := range fromEnvironment {
		given[key] = origin{value, EnvironmentName(key)}
	}
	fromSets, err := ParseSets(from.Sets)
	problems = append(problems, err)
	for key, value := range fromSets {
		given[key] = origin{value, "--set " + key}
	}

	var config Config
	for _, s := range Settings {
		value, where := s.Default, s.Key
		if o, ok := given[s.Key]; ok {
			value, where = o.value, o.where
		}
		err := s.Read(&config, s.absolute(value, folder))
		if !utf8.ValidString(value) {
			err = errors.New("it is not valid UTF-8")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", where, err))
		}
	}
	if config.Store.Kind == "postgres" {
		storeURL := FindSetting("store.url")
		config.Store.SQLiteDefault = strings.TrimPrefix(storeURL.absolute(storeURL.Default, folder), "sqlite:")
	}
	return config, errors.Join(problems...)
}

type origin struct{ value, where string }

// ParseSets reads key=value pairs.
func ParseSets(sets []string) (map[string]string, error) {
	values := map[string]string{}
	var problems []error
	for _, pair := range sets {
		key, value, found := strings.Cut(pair, "=")
		switch {
		case !found:
			problems = append(problems, fmt.Errorf("--set %s: write it as key=value", pair))
		case FindSetting(key) == nil:
			problems = append(problems, fmt.Errorf("--set %s: %w", key, unknownKey(key)))
		default:
			values[key] = value
		}
	}
	return values, errors.Join(problems...)
}

// EnvironmentName returns the environment variable of a key: COAX_SERVER_ADDR for
// server.addr.
func EnvironmentName(key string) string {
	return "COAX_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// EnvironmentSettings returns the settings in the environment. A variable that has the
// prefix of a section but is no setting is an error: most likely it is mistyped.
func EnvironmentSettings(environ []string) (map[string]string, error) {
	byName := map[string]string{}
	sections := map[string]bool{}
	for _, s := range Settings {
		byName[EnvironmentName(s.Key)] = s.Key
		if section, _ := s.parts(); section != "" {
			sections[EnvironmentName(section)+"_"] = true
		}
	}
	values := map[string]string{}
	var problems []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if key, ok := byName[name]; ok {
			values[key] = value
			continue
		}
		for section := range sections {
			if strings.HasPrefix(name, section) {
				problems = append(problems, fmt.Errorf("%s: there is no such setting; `coax init --help` lists them", name))
			}
		}
	}
	return values, errors.Join(problems...)
}

// ReadConfigFile reads a TOML file into flat keys.
func ReadConfigFile(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no configuration at %s: `coax init --dir DIR` makes one", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", fileowner.Explain(path, err))
	}
	var tables map[string]any
	if err := toml.Unmarshal(text, &tables); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return nil, fmt.Errorf("%s:%d:%d: %s", path, row, column, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	values := map[string]string{}
	var problems []error
	flatten("", tables, func(key string, value any) {
		s := FindSetting(key)
		if s == nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", path, key, unknownKey(key)))
			return
		}
		text, err := tomlText(value)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", path, key, err))
			return
		}
		values[key] = text
	})
	return values, errors.Join(problems...)
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
func tomlText(value any) (string, error) {
	switch v := value.(type) {
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

// unknownKey returns the error for an unknown key, with the key that was probably meant.
func unknownKey(key string) error {
	_, name := setting{Key: key}.parts()
	for _, s := range Settings {
		_, known := s.parts()
		if known == name || known == key || distance(s.Key, key) <= 2 {
			return fmt.Errorf("there is no such key; is %s meant?", s.Key)
		}
	}
	return errors.New("there is no such key; `coax init --help` lists them")
}

// distance returns the edit distance between two texts.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
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
