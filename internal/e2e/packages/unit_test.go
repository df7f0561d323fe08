package packages

import (
	"fmt"
	"os"
	"strings"
)

// root is the module's root.
const root = "../../.."

// A unit has the settings of a unit of systemd: by section and name, such as Service.User.
type unit map[string][]string

func readUnit(path string) (unit, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	u, section := unit{}, ""
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch key, value, found := strings.Cut(line, "="); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case !found:
			return nil, fmt.Errorf("%s:%d: %q is no setting", path, n+1, line)
		default:
			u[section+"."+key] = append(u[section+"."+key], value)
		}
	}
	return u, nil
}

// one returns a setting that is given once; empty if it is not given.
func (u unit) one(key string) string {
	if len(u[key]) != 1 {
		return ""
	}
	return u[key][0]
}

// writable returns the folders that the unit may write to.
func (u unit) writable() []string {
	var folders []string
	for _, name := range strings.Fields(u.one("Service.StateDirectory")) {
		folders = append(folders, "/var/lib/"+name)
	}
	for _, name := range strings.Fields(u.one("Service.LogsDirectory")) {
		folders = append(folders, "/var/log/"+name)
	}
	return append(folders, strings.Fields(u.one("Service.ReadWritePaths"))...)
}
