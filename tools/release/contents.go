package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
)

const hostArch = runtime.GOARCH

// generate makes what is the same for every architecture: man pages and completions, by
// the program itself, and the documentation.
func (b *build) generate() error {
	for _, folder := range []string{"pages", "man", "completion", "doc/examples"} {
		if err := os.MkdirAll(b.path(folder), 0o755); err != nil {
			return err
		}
	}
	writer := b.path("manpages")
	if err := b.compile(hostArch, writer, "-tags=manpages"); err != nil {
		return err
	}
	environ := append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(b.time.Unix(), 10))
	if _, err := outputWith(b.work, environ, writer, b.path("pages")); err != nil {
		return err
	}
	pages, err := filepath.Glob(b.path("pages/*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		packed, err := gzipped(text)
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.path("man/"+filepath.Base(page)+".gz"), packed, 0o644); err != nil {
			return err
		}
	}
	for shell, name := range map[string]string{"bash": "coax.bash", "zsh": "_coax", "fish": "coax.fish"} {
		text, err := output(b.work, b.binary(hostArch), "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.path("completion/"+name), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return b.documentation()
}

// documentation gathers the pages for who runs the service, as /usr/share/doc has them.
func (b *build) documentation() error {
	changelog, err := os.ReadFile(filepath.Join(b.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	packed, err := gzipped(changelog)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.path("doc/changelog.gz"), packed, 0o644); err != nil {
		return err
	}
	copied := map[string]string{"packaging/copyright": "copyright"}
	for _, pattern := range []string{"docs/*.md", "docs/examples/*.yml", "docs/examples/*.json", "docs/examples/grafana/*/*.yml"} {
		found, err := filepath.Glob(filepath.Join(b.source, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			name, err := filepath.Rel(filepath.Join(b.source, "docs"), path)
			if err != nil {
				return err
			}
			copied[filepath.Join("docs", name)] = name
		}
	}
	for from, to := range copied {
		text, err := os.ReadFile(filepath.Join(b.source, from))
		if err != nil {
			return err
		}
		to = b.path(filepath.Join("doc", to))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// debian writes the Debian package of a binary.
func (b *build) debian(arch, binary, out string) error {
	values := map[string]string{
		"ARCH": arch, "VERSION": b.debVersion, "BINARY": binary, "BUILT": b.work, "PACKAGING": filepath.Join(b.source, "packaging"),
	}
	text, err := os.ReadFile(filepath.Join(b.source, "packaging", "nfpm.yaml"))
	if err != nil {
		return err
	}
	// nfpm itself expands variables in some fields only.
	text = []byte(os.Expand(string(text), func(name string) string { return values[name] }))
	config, err := nfpm.Parse(bytes.NewReader(text))
	if err != nil {
		return err
	}
	info, err := config.Get("deb")
	if err != nil {
		return err
	}
	info.MTime = b.time
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get("deb")
	if err != nil {
		return err
	}
	var content bytes.Buffer
	if err := packager.Package(info, &content); err != nil {
		return fmt.Errorf("make the Debian package: %w", err)
	}
	return os.WriteFile(filepath.Join(out, fmt.Sprintf("coax_%s_%s.deb", b.debVersion, arch)), content.Bytes(), 0o644)
}

// archive writes what the package has for systems without dpkg.
func (b *build) archive(arch, out string) error {
	name := fmt.Sprintf("coax_%s_linux_%s", b.version, arch)
	files := map[string]string{"coax": b.binary(arch), "LICENSE": filepath.Join(b.source, "LICENSE")}
	for _, unit := range []string{"coax.service", "coax-backup.service", "coax-backup.timer", "default", "logrotate"} {
		files[unit] = filepath.Join(b.source, "packaging", unit)
	}
	for _, folder := range []string{"man", "completion", "doc"} {
		err := filepath.WalkDir(b.path(folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				var inner string
				inner, err = filepath.Rel(b.work, path)
				files[inner] = path
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	content := map[string][]byte{}
	for inner, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		content[inner] = text
	}
	return b.tarball(filepath.Join(out, name+".tar.gz"), name, content)
}

// tarball writes files as a compressed tar, with nothing in it but their names, contents
// and the commit's time.
func (b *build) tarball(path, folder string, files map[string][]byte) error {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o644)
		if name == "coax" {
			mode = 0o755
		}
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + name, Size: int64(len(files[name])), Mode: mode,
			ModTime: b.time, Uname: "root", Gname: "root",
		}
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := w.Write(files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	packed, err := gzipped(content.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(path, packed, 0o644)
}

// gzipped compresses without a name and a time.
func gzipped(content []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
