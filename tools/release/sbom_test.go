package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
)

// Each SBOM is validated against CycloneDX's schema before it is written.
func TestSBOM_SchemaFindsMistakes(t *testing.T) {
	schema, err := newBOMSchema(".")
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"bomFormat":"CycloneDX","specVersion":"1.6","serialNumber":"urn:uuid:3e671687-395b-41f5-a30f-a58921a69b79","version":1,
		"metadata":{"timestamp":"2026-11-18T22:27:49Z"},
		"components":[{"type":"library","name":"a","version":"1","purl":"pkg:npm/a@1","licenses":[{"license":{"id":"MIT"}}],
			"hashes":[{"alg":"SHA-256","content":"0000000000000000000000000000000000000000000000000000000000000000"}]}]}`
	if err := schema.check([]byte(good)); err != nil {
		t.Errorf("a good SBOM: %v", err)
	}
	for from, to := range map[string]string{
		"urn:uuid:": "", `"MIT"`: `"My Licence"`, "SHA-256": "SHA", `"library"`: `"thing"`, "22:27:49Z": "noon", `"name":"a",`: "", "0000": "zz",
	} {
		if err := schema.check([]byte(strings.Replace(good, from, to, 1))); err == nil {
			t.Errorf("%q instead of %q is accepted", to, from)
		}
	}
}

// Every notice that Redoc's bundle carries is of a package in the list, whose texts are the
// licences that the packages declare.
func TestRedocPackages_AreComplete(t *testing.T) {
	all, err := embeddedFiles("../..")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]*module{}
	for _, m := range all {
		packages[m.String()] = m
	}
	if len(all) < 60 {
		t.Errorf("%d embedded projects: the list was not read as it is", len(all))
	}
	notices, err := os.ReadFile("../../internal/web/look/static/redoc.LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for notice, name := range map[string]string{
		"v. 1.1.1 | https://github.com/wilddeer/stickyfill": "stickyfill 1.1.1", "DOMPurify 3.4.13": "dompurify 3.4.13", "mark.js v8.11.1": "mark.js 8.11.1",
		"lunr - http://lunrjs.com - A bit like Solr, but much smaller and not as bright - 2.3.9": "lunr 2.3.9",
		"React v16.13.1": "react-is 16.13.1", "React v17.0.2": "react-is 17.0.2",
	} {
		if !strings.Contains(string(notices), notice) || packages[name] == nil {
			t.Errorf("redoc.LICENSE has %q: %v; the list has %s: %v", notice, strings.Contains(string(notices), notice), name, packages[name] != nil)
		}
	}
	for _, name := range []string{"classnames", "perfect-scrollbar", "react", "react-dom", "scheduler", "use-sync-external-store", "prismjs"} {
		if !slices.ContainsFunc(all, func(m *module) bool { return m.path == name }) {
			t.Errorf("redoc.LICENSE has a notice of %s, and the list does not have it", name)
		}
	}
	for _, m := range all {
		declared := strings.FieldsFunc(m.expression, func(r rune) bool { return strings.ContainsRune("() ", r) })
		for _, id := range append(declared, m.spdx...) {
			found := id == "OR"
			for _, text := range m.licences {
				found = found || strings.HasPrefix(string(text), "License: "+id+".")
				for _, match := range licensecheck.Scan(text).Match {
					found = found || match.ID == id
				}
			}
			if !found {
				t.Errorf("%v: the text of the licence %s is missing", m, id)
			}
		}
	}
}
