//go:build long

package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Built again in another folder, with nothing cached, every file is the same.
func TestRelease_IsReproducible(t *testing.T) {
	first, second := presentRelease(t), t.TempDir()
	if err := release(second, []string{"GOCACHE=" + t.TempDir(), "TZ=Asia/Kolkata"}, "-arch", runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(first, "*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("the release is %v (%v); want a package, an archive, an SBOM, licences and checksums", files, err)
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

// The checksums are right, the binary says what it was built from, and SBOM and licences
// have all that Go says is linked.
func TestRelease_AccountsForWhatIsLinked(t *testing.T) {
	built := presentRelease(t)
	sums := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = built
	if out, err := sums.CombinedOutput(); err != nil || bytes.Count(out, []byte(": OK\n")) != 4 {
		t.Errorf("the checksums: %v\n%s", err, out)
	}
	binary := binaryOf(t, onlyFile(t, filepath.Join(built, "*.deb")))
	commit, err := workingTree()
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.Command(binary, "version").Output()
	if err != nil || !strings.Contains(string(version), commit) || strings.Contains(string(version), "+changes") {
		t.Errorf("the binary is %q (%v); want the commit %s in it", version, err, commit)
	}

	var bom struct {
		BOMFormat, SpecVersion string
		Components             []struct {
			Name, Version, PURL string
			Licenses            []any
		}
	}
	text, err := os.ReadFile(onlyFile(t, filepath.Join(built, "*.cdx.json")))
	if err == nil {
		err = json.Unmarshal(text, &bom)
	}
	if err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("the SBOM is %q (%v)", bom.BOMFormat, err)
	}
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name+"@"+c.Version] = true
		if len(c.Licenses) == 0 || c.PURL == "" {
			t.Errorf("%s %s has no licence or purl in the SBOM", c.Name, c.Version)
		}
	}
	licensed := filesOf(t, onlyFile(t, filepath.Join(built, "*_licences.tar.gz")))
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"std@" + strings.TrimPrefix(info.GoVersion, "go"), "htmx@", "Redoc@", "lucide@"}
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
	archive := filesOf(t, onlyFile(t, filepath.Join(built, "*_linux_*.tar.gz")))
	if len(archive) < 90 {
		t.Errorf("the archive has %d files; want the program, its pages and the units", len(archive))
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
