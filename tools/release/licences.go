package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// module is something that is part of the binary: a Go module, Go's standard library, or
// files of another project that are embedded.
type module struct {
	path, version string
	purl          string
	sum           string            // as in go.sum; empty if it has none
	licences      map[string][]byte // by their path in the module
	spdx          []string          // what the licences are
	expression    string            // instead of spdx, where one of several licences can be chosen
}

func (m *module) String() string { return m.path + " " + m.version }

// inventory has the modules of all architectures.
type inventory struct {
	build   *build
	modules map[string]*module
}

func newInventory(b *build) *inventory { return &inventory{b, map[string]*module{}} }

// licenceFile is how projects name the files that have their terms.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

// add returns the modules that are linked into a binary. One without a licence is an error.
func (inv *inventory) add(arch, binary string) ([]*module, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	folders, err := linkedFolders(inv.build.source, arch)
	if err != nil {
		return nil, err
	}
	goRoot, err := output(inv.build.source, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	version := strings.TrimPrefix(runtime.Version(), "go")
	if info.GoVersion != runtime.Version() {
		return nil, fmt.Errorf("the binary was built by %s, and this program by %s", info.GoVersion, runtime.Version())
	}
	all := []*module{{path: "std", version: version, purl: "pkg:golang/std@" + version}}
	if err := all[0].read(goRoot, []string{goRoot}); err != nil {
		return nil, err
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			return nil, fmt.Errorf("%s is replaced: its licence has to be looked for elsewhere", dep.Path)
		}
		linked, ok := folders[dep.Path]
		if !ok {
			return nil, fmt.Errorf("%s is in the binary, and go list does not know it", dep.Path)
		}
		m := &module{path: dep.Path, version: dep.Version, purl: "pkg:golang/" + dep.Path + "@" + dep.Version, sum: dep.Sum}
		if err := m.read(linked.root, linked.packages); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	embedded, err := embeddedFiles(inv.build.source)
	if err != nil {
		return nil, err
	}
	all = append(all, embedded...)
	for _, m := range all {
		if len(m.licences) == 0 {
			return nil, fmt.Errorf("%v is part of the binary and has no licence file", m)
		}
		if known := inv.modules[m.purl]; known != nil {
			maps.Copy(known.licences, m.licences)
		} else {
			inv.modules[m.purl] = m
		}
	}
	return all, nil
}

// read collects the licences of the packages that are linked: those in their folders and
// in the folders above, up to the module's.
func (m *module) read(root string, packages []string) error {
	m.licences = map[string][]byte{}
	seen := map[string]bool{}
	for _, folder := range packages {
		for ; !seen[folder]; folder = filepath.Dir(folder) {
			seen[folder] = true
			entries, err := os.ReadDir(folder)
			if err != nil {
				return err
			}
			for _, entry := range entries {
				if !entry.Type().IsRegular() || !licenceFile.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
					continue
				}
				if err := m.addLicence(root, filepath.Join(folder, entry.Name())); err != nil {
					return err
				}
			}
			if folder == root {
				break
			}
		}
	}
	m.recognize()
	return nil
}

func (m *module) addLicence(root, path string) error {
	name, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	m.licences[name], err = os.ReadFile(path)
	return err
}

// recognize finds out which licences the texts are.
func (m *module) recognize() {
	for _, name := range slices.Sorted(maps.Keys(m.licences)) {
		for _, match := range licensecheck.Scan(m.licences[name]).Match {
			if !match.IsURL && !slices.Contains(m.spdx, match.ID) {
				m.spdx = append(m.spdx, match.ID)
			}
		}
	}
}

type linkedModule struct {
	root     string
	packages []string // their folders
}

// linkedFolders returns where the linked packages of each module are.
func linkedFolders(source, arch string) (map[string]linkedModule, error) {
	list := exec.Command("go", "list", "-deps", "-json=Dir,Module", "./cmd/coax")
	list.Dir, list.Env, list.Stderr = source, goEnvironment(arch), os.Stderr
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", list.Args, err)
	}
	all := map[string]linkedModule{}
	for decoder := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p struct {
			Dir    string
			Module *struct{ Path, Dir string }
		}
		if err := decoder.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil {
			linked := all[p.Module.Path]
			linked.root, linked.packages = p.Module.Dir, append(linked.packages, p.Dir)
			all[p.Module.Path] = linked
		}
	}
}

// embeddedRow is a line of docs/dependencies.md about files that are kept in the source,
// such as: | icons of lucide 1.62.0 | `internal/web/look/icons` |
var embeddedRow = regexp.MustCompile("(?m)^\\| (?:.* )?(\\S+) (\\d+\\.\\d+\\.\\d+) \\| `([^`]+)` \\|")

// npmNames are the names under which the projects publish.
var npmNames = map[string]string{"htmx": "htmx.org", "lucide": "lucide-static", "Redoc": "redoc"}

// embeddedFiles returns the projects whose files are kept in the source and embedded.
func embeddedFiles(source string) ([]*module, error) {
	const page = "docs/dependencies.md"
	text, err := os.ReadFile(filepath.Join(source, page))
	if err != nil {
		return nil, err
	}
	var all []*module
	for _, row := range embeddedRow.FindAllStringSubmatch(string(text), -1) {
		name, version, folder := row[1], row[2], filepath.Join(source, row[3])
		published := npmNames[name]
		if published == "" {
			return nil, fmt.Errorf("%s lists %s, whose name at npm is missing in npmNames", page, name)
		}
		m := &module{path: name, version: version, purl: "pkg:npm/" + published + "@" + version, licences: map[string][]byte{}}
		// Files of several projects in one folder have a licence each.
		path := filepath.Join(folder, strings.ToLower(name)+".LICENSE")
		if _, err := os.Stat(path); os.IsNotExist(err) {
			path = filepath.Join(folder, "LICENSE")
		}
		if err := m.addLicence(folder, path); err != nil {
			return nil, fmt.Errorf("%v has no licence: %w", m, err)
		}
		m.recognize()
		all = append(all, m)
	}
	if len(all) != len(npmNames) {
		return nil, fmt.Errorf("%s lists %d of the %d embedded projects: %v", page, len(all), len(npmNames), all)
	}
	for _, m := range all {
		if m.path != "Redoc" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(source, "tools/release/redoc-packages.txt"))
		if err != nil {
			return nil, err
		}
		bundled, err := bundledPackages(string(text), m.version)
		if err != nil {
			return nil, err
		}
		all = append(all, bundled...)
	}
	return all, nil
}

var (
	bundledPackage = regexp.MustCompile(`(?m)^===== (\S+) (\S+) (.+)\n`)
	bundledFile    = regexp.MustCompile(`(?m)^----- ([\w.-]+)( .*)?\n`)
)

// bundledPackages reads redoc-packages.txt: the packages in Redoc's bundle.
func bundledPackages(text, redoc string) ([]*module, error) {
	if !strings.Contains(text, "redoc "+redoc+":") {
		return nil, fmt.Errorf("redoc-packages.txt is not about redoc %s: it has to be made anew", redoc)
	}
	var all []*module
	packages := bundledPackage.FindAllStringSubmatchIndex(text, -1)
	for i, at := range packages {
		end := len(text)
		if i+1 < len(packages) {
			end = packages[i+1][0]
		}
		name, version, declared, body := text[at[2]:at[3]], text[at[4]:at[5]], text[at[6]:at[7]], text[at[1]:end]
		m := &module{
			path: name, version: version, purl: "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + version, licences: map[string][]byte{},
		}
		if strings.HasPrefix(declared, "(") {
			m.expression = declared
		} else {
			m.spdx = []string{declared}
		}
		files := bundledFile.FindAllStringSubmatchIndex(body, -1)
		for j, file := range files {
			end := len(body)
			if j+1 < len(files) {
				end = files[j+1][0]
			}
			content := strings.TrimSpace(body[file[1]:end]) + "\n"
			if file[4] >= 0 {
				content = "(The licence" + body[file[4]:file[5]] + ")\n\n" + content
			}
			m.licences[body[file[2]:file[3]]] = []byte(content)
		}
		all = append(all, m)
	}
	return all, nil
}

// write writes every licence: as files of an archive, and as one text for the package.
func (inv *inventory) write(out string) error {
	files := map[string][]byte{}
	var text strings.Builder
	text.WriteString("The licences of what is linked into coax, or embedded in it.\n")
	for _, key := range slices.Sorted(maps.Keys(inv.modules)) {
		m := inv.modules[key]
		fmt.Fprintf(&text, "\n\n%s\n%v\n", strings.Repeat("=", 80), m)
		for _, name := range slices.Sorted(maps.Keys(m.licences)) {
			files[m.path+"@"+m.version+"/"+name] = m.licences[name]
			fmt.Fprintf(&text, "%s: %s\n\n%s\n", strings.Repeat("-", 40), name, strings.TrimSpace(string(m.licences[name])))
		}
	}
	if err := os.WriteFile(inv.build.path("doc/third-party-licences.txt"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	name := fmt.Sprintf("coax_%s_licences", inv.build.version)
	return inv.build.tarball(filepath.Join(out, name+".tar.gz"), name, files)
}
