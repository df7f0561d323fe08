package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// diskSpace is how much room a disk has.
type diskSpace struct {
	free, total int64
	readOnly    bool
	device      uint64
}

const (
	// diskFull and diskLow are how much free space is a problem and a warning. A node begins
	// no operations with less than 16 MB.
	diskFull = 128 << 20
	diskLow  = 1 << 30
	// mountedReadOnly is the flag of statfs, on all systems.
	mountedReadOnly = 1
)

func readSpace(path string) (diskSpace, error) {
	var disk syscall.Statfs_t
	var place syscall.Stat_t
	if err := syscall.Statfs(path, &disk); err != nil {
		return diskSpace{}, err
	}
	if err := syscall.Stat(path, &place); err != nil {
		return diskSpace{}, err
	}
	block := int64(disk.Bsize)
	return diskSpace{
		free: int64(disk.Bavail) * block, total: int64(disk.Blocks) * block,
		readOnly: uint64(disk.Flags)&mountedReadOnly != 0, device: uint64(place.Dev),
	}, nil
}

// checkDisk checks the disks that are written to, each once.
func (d *doctor) checkDisk(context.Context) []Diagnosis {
	l := lines{check: "disk"}
	seen := map[uint64]bool{}
	c := d.config
	c.Backup.Folder = d.backups
	var folders []string
	for _, p := range places(c) {
		folder := p.path
		if slices.Contains(folders, folder) {
			continue
		}
		folders = append(folders, folder)
		space, err := d.space(folder)
		if err != nil {
			l.problem("", "%s: read the free space: %v", folder, err)
			continue
		}
		if seen[space.device] {
			continue
		}
		seen[space.device] = true
		text := fmt.Sprintf("%s: %s of %s free", folder, sizeText(space.free), sizeText(space.total))
		switch {
		case space.readOnly:
			l.problem("see why (`dmesg`, `mount`): Linux does so after errors of a disk", "%s is mounted read-only", folder)
		case space.free < diskFull:
			l.problem("free some space now: with less than 16 MB no operation is begun", "%s", text)
		case space.free < diskLow:
			l.warn("free some space", "%s", text)
		default:
			l.ok("%s", text)
		}
	}
	return l.all
}

func sizeText(bytes int64) string {
	if bytes < 10<<30 {
		return Megabytes(bytes)
	}
	return fmt.Sprintf("%d GB", bytes>>30)
}

// checkClock compares the machine's clock with the database's, or with the newest time in a
// SQLite store.
func (d *doctor) checkClock(context.Context) []Diagnosis {
	l := lines{check: "clock"}
	state, err := d.store()
	now := d.now()
	newest := state.Mark.At
	if state.Newest.After(newest) {
		newest = state.Newest
	}
	const cure = "set the clock, and let NTP keep it"
	switch {
	case err != nil:
		l.ok("%s; there is nothing to compare it with", indian(now))
	case state.hasClock && state.off.Abs() > clockTolerance:
		l.problem(cure+", on whichever machine is wrong: a node that is further off than "+clockTolerance.String()+" is not ready",
			"this machine's clock and the database's are %s apart", state.off.Abs().Round(time.Millisecond))
	case state.hasClock:
		l.ok("%s, as the database has it", indian(now))
	case newest.Sub(now) > clockTolerance:
		l.problem(cure, "it is %s by this machine's clock, and the store has an entry of %s: the clock was set back, or was ahead", indian(now), indian(newest))
	default:
		l.ok("%s, and nothing in the store is later", indian(now))
	}
	if yes, known := d.synchronized(); known && !yes {
		l.warn("run an NTP service, such as chrony", "the kernel does not know of a synchronization of this machine's clock")
	}
	return l.all
}

// checkCertificate checks the files; what a running node serves is compared with them by
// checkNode.
func (d *doctor) checkCertificate(ctx context.Context) []Diagnosis {
	if len(d.config.Server.ACMEDomains) > 0 {
		return d.checkOrderedCertificate(ctx)
	}
	l := lines{check: "certificate"}
	cert, err := loadCertificate(d.config.Server.TLSCert, d.config.Server.TLSKey)
	if err != nil {
		l.problem("the service does not start without it", "%v", err)
		return l.all
	}
	now := time.Now() // by which clients check it
	leaf := cert.current.Load().Leaf
	health := cert.health(now)
	const cure = "renew it; the service notices the new files"
	switch {
	case health.Expired:
		l.problem(cure, "%s has expired on %s, and clients refuse it", cert.certFile, indian(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		l.problem("see whether the clock is right, or wait", "%s is valid only from %s on, and clients refuse it", cert.certFile, indian(leaf.NotBefore))
	case health.Expiring:
		l.warn(cure, "%s expires in %d days, on %s", cert.certFile, health.Days, indian(leaf.NotAfter))
	default:
		l.ok("%s is for %s, and valid until %s (%d days)", cert.certFile, strings.Join(certificateNames(leaf), ", "), indian(leaf.NotAfter), health.Days)
	}
	if len(certificateNames(leaf)) == 0 {
		l.problem("get one with the service's host name as a subject alternative name", "%s has no names, and clients refuse it", cert.certFile)
	}
	if origin, err := url.Parse(d.config.Panel.Origin); err == nil && origin.Hostname() != "" && leaf.VerifyHostname(origin.Hostname()) != nil {
		l.problem("get one for that name, too", "%s is not for %s, which panel.origin names", cert.certFile, origin.Hostname())
	}
	if missesIntermediate(*cert.current.Load()) {
		l.warn("append the intermediate certificate to the file, as the authority gives it", "%s has the service's certificate alone, and most clients need the one that issued it, too", cert.certFile)
	}
	return l.all
}

func certificateNames(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// missesIntermediate reports whether a certificate of a public authority came without the one
// between: such authorities say where to fetch it, and not all clients do.
func missesIntermediate(pair tls.Certificate) bool {
	if len(pair.Certificate) > 1 || len(pair.Leaf.IssuingCertificateURL) == 0 {
		return false
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return false
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: pair.Leaf.NotBefore})
	return err != nil
}

// readable is a file that the service reads.
type readable struct {
	path string
	// secret: nobody but its user, or a group, may read it. The keys have checks of their own.
	secret bool
}

// checkPermissions checks that the service's user can use its files, and others cannot. That
// user is the owner of the data folder: this may run as root.
func (d *doctor) checkPermissions(context.Context) []Diagnosis {
	l := lines{check: "permissions"}
	c := d.config
	holdsPassword := false
	for _, key := range []string{"store.url", "store.replica", "provider.url"} {
		if o, given := load(d.from).given[key]; given && o.where.File != "" && FindSetting(key).Shown(o.value) != o.value {
			holdsPassword = true
		}
	}
	files := []readable{{d.from.File, holdsPassword}, {c.Server.TLSCert, false}, {c.Server.TLSKey, false}, {c.Server.ACMECAFile, false}, {c.Provider.CA, false}, {c.Provider.TokenFile, true}, {c.Trace.HeadersFile, true}}
	if !hasMasterKey(d.from.Environ) {
		files = append(files, readable{c.Secrets.MasterKeyFile, false})
	}
	user, known := ownerOfService(c, d.from.File)
	for _, f := range files {
		info, err := os.Stat(f.path)
		if f.path == "" || err != nil {
			continue // what needs it says so
		}
		if f.secret && info.Mode().Perm()&0o004 != 0 {
			l.problem("chmod 600 "+ShellQuote(f.path), "every user of this machine can read %s (mode %04o), which is secret", f.path, info.Mode().Perm())
		}
		if known && !user.may(f.path, mayRead) {
			l.problem(user.giveCure(f.path), "the service's user %s cannot read %s", user.name, f.path)
		}
	}
	if known {
		d.checkDataFolder(&l, user)
		for _, path := range []string{c.Store.MarkFile, c.Log.SecurityFile} {
			folder := filepath.Dir(path)
			if path != "" && exists(folder) && !user.may(folder, mayWrite) && !(path == c.Log.SecurityFile && user.may(path, mayWrite)) {
				l.problem(user.giveCure(folder), "the service's user %s cannot write %s", user.name, path)
			}
		}
	}
	switch {
	case l.all != nil:
	case known:
		l.ok("%s, the service's user, can use its files, and others cannot read the secrets", user.name)
	default:
		l.ok("others cannot read the secrets")
	}
	return l.all
}

// checkDataFolder checks the folder of a SQLite store, and every file of the store.
func (d *doctor) checkDataFolder(l *lines, user fileUser) {
	if d.config.Store.Kind != "sqlite" || d.invalid["store.url"] != nil {
		return
	}
	folder := filepath.Dir(d.config.Store.Path)
	if info, err := os.Stat(folder); err == nil && info.Mode().Perm()&0o002 != 0 {
		l.problem("chmod 700 "+ShellQuote(folder), "every user of this machine can write to %s (mode %04o)", folder, info.Mode().Perm())
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock", ".turnstile", ".doubt"} {
		path := d.config.Store.Path + suffix
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if info.Mode().Perm()&0o004 != 0 && suffix != ".lock" && suffix != ".turnstile" {
			l.problem("chmod 600 "+ShellQuote(path), "every user of this machine can read %s (mode %04o)", path, info.Mode().Perm())
		}
		if !user.may(path, mayWrite) {
			l.problem(user.giveCure(path), "the service's user %s cannot write %s", user.name, path)
		}
	}
}
