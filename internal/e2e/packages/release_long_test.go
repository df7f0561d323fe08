//go:build long

package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// arches are the architectures of a release.
var arches = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Built again in another folder, with nothing cached, every file is the same.
func TestRelease_IsReproducible(t *testing.T) {
	first, second := presentRelease(t), t.TempDir()
	if err := release(second, []string{"GOCACHE=" + t.TempDir(), "TZ=Asia/Kolkata"}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(first, "*"))
	if err != nil || len(files) != 3*len(arches)+2 {
		t.Fatalf("the release is %v (%v); want a package, an archive and an SBOM for each architecture, licences and checksums", files, err)
	}
	for _, path := range files {
		a, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, filepath.Base(path)))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs from that of the second build (%v)", filepath.Base(path), err)
		}
	}
}

// The checksums are right.
func TestRelease_ChecksumsMatch(t *testing.T) {
	sums := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = presentRelease(t)
	if out, err := sums.CombinedOutput(); err != nil || bytes.Count(out, []byte(": OK\n")) != 3*len(arches)+1 {
		t.Errorf("the checksums: %v\n%s", err, out)
	}
}

// For each architecture, the binary is static and says what it was built from, and SBOM and
// licences have all that Go says is linked.
func TestRelease_AccountsForWhatIsLinked(t *testing.T) {
	built := presentRelease(t)
	commit, err := workingTree()
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.Command(binaryOf(t, presentPackage(t)), "version").Output()
	if err != nil || !strings.Contains(string(version), commit) || strings.Contains(string(version), "+changes") {
		t.Errorf("the binary is %q (%v); want the commit %s in it", version, err, commit)
	}
	licensed := filesOf(t, onlyFile(t, filepath.Join(built, "*_licences.tar.gz")))
	for arch, machine := range arches {
		t.Run(arch, func(t *testing.T) {
			deb := onlyFile(t, filepath.Join(built, "*_"+arch+".deb"))
			if out, err := exec.Command("dpkg-deb", "--field", deb, "Architecture").Output(); err != nil || strings.TrimSpace(string(out)) != arch {
				t.Errorf("the package is for %q (%v)", out, err)
			}
			binary := binaryOf(t, deb)
			checkStatic(t, binary, machine)
			info, err := buildinfo.ReadFile(binary)
			if err != nil {
				t.Fatal(err)
			}
			for key, want := range map[string]string{"GOARCH": arch, "CGO_ENABLED": "0", "vcs.revision": commit, "vcs.modified": "false"} {
				if !slices.Contains(info.Settings, debug.BuildSetting{Key: key, Value: want}) {
					t.Errorf("the binary was not built with %s=%s: %v", key, want, info.Settings)
				}
			}
			checkListed(t, onlyFile(t, filepath.Join(built, "*_linux_"+arch+".cdx.json")), licensed, info)
			archive := filesOf(t, onlyFile(t, filepath.Join(built, "*_linux_"+arch+".tar.gz")))
			size, err := os.Stat(binary)
			if err != nil {
				t.Fatal(err)
			}
			if program := strings.TrimSuffix(filepath.Base(onlyFile(t, filepath.Join(built, "*_linux_"+arch+".tar.gz"))), ".tar.gz") + "/coax"; archive[program] != size.Size() {
				t.Errorf("the archive's program has %d bytes; the package's %d", archive[program], size.Size())
			}
			if len(archive) < 90 {
				t.Errorf("the archive has %d files; want the program, its pages and the units", len(archive))
			}
		})
	}
}

// checkStatic fails unless a program needs no interpreter and no library.
func checkStatic(t *testing.T, binary string, machine elf.Machine) {
	t.Helper()
	program, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	if err != nil || len(libraries) > 0 || program.Machine != machine || program.Section(".interp") != nil {
		t.Errorf("the program is for %s, with libraries %v (%v) and an interpreter: %v; want %s and none", program.Machine, libraries, err, program.Section(".interp") != nil, machine)
	}
}

// checkListed fails unless an SBOM and the licences have all that is linked and embedded.
func checkListed(t *testing.T, sbom string, licensed map[string]int64, info *buildinfo.BuildInfo) {
	t.Helper()
	var bom struct {
		BOMFormat, SpecVersion, SerialNumber string
		Components                           []struct {
			Name, Version, PURL string
			Licenses            []any
		}
	}
	text, err := os.ReadFile(sbom)
	if err == nil {
		err = json.Unmarshal(text, &bom)
	}
	if err != nil || bom.BOMFormat != "CycloneDX" || !strings.HasPrefix(bom.SerialNumber, "urn:uuid:") {
		t.Fatalf("the SBOM is %q (%v)", bom.BOMFormat, err)
	}
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name+"@"+c.Version] = true
		if len(c.Licenses) == 0 || c.PURL == "" {
			t.Errorf("%s %s has no licence or purl in the SBOM", c.Name, c.Version)
		}
	}
	// The last are bundled in Redoc.
	names := []string{"std@" + strings.TrimPrefix(info.GoVersion, "go"), "htmx@", "Redoc@", "lucide@", "dompurify@", "react@", "@babel/runtime@"}
	for _, dep := range info.Deps {
		names = append(names, dep.Path+"@"+dep.Version)
	}
	if len(names) < 20 {
		t.Errorf("%d modules: that cannot be all", len(names))
	}
	for _, name := range names {
		found := false
		for entry := range listed {
			found = found || entry == name || strings.HasSuffix(name, "@") && strings.HasPrefix(entry, name)
		}
		if !found {
			t.Errorf("the SBOM does not have %s", name)
		}
		found = false
		for file := range licensed {
			_, inner, _ := strings.Cut(file, "/")
			found = found || strings.HasPrefix(inner, name)
		}
		if !found {
			t.Errorf("no licence of %s", name)
		}
	}
}

// filesOf returns the sizes of the files in an archive.
func filesOf(t *testing.T, path string) map[string]int64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for r := tar.NewReader(unpacked); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return sizes
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes[header.Name] = header.Size
	}
}
