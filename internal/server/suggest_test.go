package server

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every letter that is left out of a key, or doubled, leads back to it.
func TestSimilarKeys_FindMistypedKeys(t *testing.T) {
	t.Parallel()
	for _, s := range Settings {
		for i := range s.Key {
			for _, typed := range []string{s.Key[:i] + s.Key[i+1:], s.Key[:i] + s.Key[i:i+1] + s.Key[i:]} {
				if FindSetting(typed) == nil && !slices.Contains(similarKeys(typed), s.Key) {
					t.Errorf("%s suggests %q; want %s", typed, similarKeys(typed), s.Key)
				}
			}
		}
	}
	for typed, want := range map[string][]string{
		"providr.url": {"provider.url"}, "stor.url": {"store.url"}, "url": {"store.url", "provider.url"}, "provider.token": {"provider.token_file"},
		"limits.activation_term": {"rules.activation_term"}, "weather.forecast": nil, "": nil, ".": nil, "server": nil,
	} {
		if got := similarKeys(typed); !slices.Equal(got, want) {
			t.Errorf("%s suggests %q; want %q", typed, got, want)
		}
	}
}

func TestCheckConfig_Combinations(t *testing.T) {
	t.Parallel()
	base := []string{"provider.url=https://provider.example"}
	headers := writeConfig(t, filepath.Join(t.TempDir(), "headers"), []byte("Authorization: Bearer hunter2\n"))
	bad := writeConfig(t, filepath.Join(t.TempDir(), "headers"), []byte("# hunter2\nhunter2\n"))
	if found := CheckConfig(Sources{Sets: base}); len(found) != 0 {
		t.Fatalf("default values: %+v", found)
	}
	for _, test := range []struct {
		sets    []string
		warning bool
		says    string
	}{
		{[]string{"provider.url="}, false, "provider.url: it is not set"},
		{[]string{"provider.url=https://me:hunter2@provider.example"}, false, "it has a user, a password"},
		{[]string{"provider.url=http://192.0.2.1", "provider.token_file=token"}, false, "would travel unencrypted to 192.0.2.1"},
		{[]string{"trace.endpoint=https://collector.example", "trace.headers_file=none"}, false, "trace.headers_file: open none"},
		{[]string{"trace.endpoint=https://collector.example", "trace.headers_file=" + bad}, false, "line 2 of " + bad + " is not a header"},
		{[]string{"trace.endpoint=http://collector.example:4318", "trace.headers_file=" + headers}, false, "would travel unencrypted to collector.example:4318"},
		{[]string{"trace.endpoint=http://collector.example:4318"}, true, "traces are sent to collector.example:4318 over plain HTTP"},
		{[]string{"clock.offset=1h"}, false, "it is for demo only"},
		{[]string{"server.addr=0.0.0.0:9443"}, false, "server.internal_addr: it is the port of server.addr, too"},
		{[]string{"server.plain_addr=127.0.0.1:8443"}, false, "server.plain_addr: it is the port of server.addr, too"},
		{[]string{"server.plain_addr=:9443", "server.trusted_proxies=192.0.2.1"}, false, "it is the port of server.internal_addr, too"},
		{[]string{"server.plain_addr=127.0.0.1:80"}, true, "no proxy is trusted"},
		{[]string{"catalogue.refresh=30m"}, true, "plans cannot be bought in between"},
		{[]string{"review.first_check=1h"}, true, "later than any other"},
		{[]string{"panel.idle=13h"}, true, "sessions end after 12h0m0s"},
		{[]string{"server.max_connections=100"}, true, "at most 100 connections"},
		{[]string{"store.mark_file=data/mark"}, true, "puts the mark back, too"},
		{[]string{"store.url=sqlite:/srv/data/coax.db", "store.replica=file:///srv/data/replica"}, true, "is lost with it"},
		{[]string{"store.replica_mode=sync"}, true, "store.replica is not set"},
		{[]string{"store.url=postgres://coax:hunter2@127.0.0.1/coax", "store.replica=file:///srv/replica"}, false, "it is for a store on SQLite"},
		{[]string{"server.internal_addr=0.0.0.0:9443"}, true, "the internal listener"},
		{[]string{"server.internal_addr=0.0.0.0:9443", "strict=true"}, false, "the internal listener"},
	} {
		found := CheckConfig(Sources{Sets: append(slices.Clone(base), test.sets...)})
		at := slices.IndexFunc(found, func(f Finding) bool {
			return strings.Contains(f.Key+": "+f.Problem, test.says) && f.Warning == test.warning
		})
		if at < 0 || found[at].Cure == "" || !strings.HasPrefix(found[at].Where, "--set ") && found[at].Where != "" {
			t.Errorf("%q: %+v; want %q with what to do and where", test.sets, found, test.says)
		}
		for _, f := range found {
			if strings.Contains(f.Problem+f.Where+f.Cure, "hunter2") {
				t.Errorf("%q: %+v shows a password", test.sets, f)
			}
		}
	}
}

// The values that the configuration shows have no password, whatever its form.
func TestExplainConfig_HidesPasswords(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"store.url=postgres://coax:hunter2@db/coax", "store.url=postgres://db/coax?password=hunter2", "store.url=mysql://coax:hunter2@db",
		"provider.url=https://coax:hunter2@provider.example", "provider.url=ftp://coax:hunter2@host", "provider.url=coax:hunter2@host",
		"provider.url=https://a:hunter2@b@c d", "store.replica=sftp://coax:hunter2@host/x", "store.replica=sftp://coax:hunter2%zz@host/x",
	} {
		sources := Sources{Sets: []string{set}}
		key, _, _ := strings.Cut(set, "=")
		all, err := ExplainConfig(sources, []string{key})
		if err != nil || len(all) != 1 || all[0].Source != "set" {
			t.Fatalf("%s: %+v, %v", set, all, err)
		}
		if strings.Contains(all[0].Value+all[0].Problem, "hunter2") {
			t.Errorf("%s: %+v", set, all[0])
		}
		for _, f := range CheckConfig(sources) {
			if strings.Contains(f.Problem, "hunter2") {
				t.Errorf("%s: %+v", set, f)
			}
		}
	}
}
