package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// sbom writes the bill of materials of a binary, in CycloneDX's JSON.
func (b *build) sbom(arch string, modules []*module, out string) error {
	purl := "pkg:golang/github.com/coaxhq/coax@" + b.version + "?goarch=" + arch + "&goos=linux"
	schema, err := newBOMSchema(filepath.Join(b.source, "tools/release"))
	if err != nil {
		return err
	}
	var components []cyclonedx.Component
	var refs []string
	for _, m := range modules {
		c := cyclonedx.Component{
			BOMRef: m.purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: m.purl,
			Scope: cyclonedx.ScopeRequired,
		}
		var licences cyclonedx.Licenses
		for _, id := range m.spdx {
			licence := cyclonedx.License{ID: id}
			if !schema.spdx[id] { // such as the grants of patents in Go's modules
				licence = cyclonedx.License{Name: id}
			}
			licences = append(licences, cyclonedx.LicenseChoice{License: &licence})
		}
		if m.expression != "" {
			licences = cyclonedx.Licenses{{Expression: m.expression}}
		}
		if len(licences) > 0 {
			c.Licenses = &licences
		}
		if m.sum != "" {
			sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.sum, "h1:"))
			if err != nil || len(sum) != sha256.Size {
				return fmt.Errorf("%v has the sum %q, which is none of a module", m, m.sum)
			}
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		components, refs = append(components, c), append(refs, m.purl)
	}
	binary, err := os.ReadFile(b.binary(arch))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(binary)
	bom := cyclonedx.NewBOM()
	// A number that only this binary has: version 8 leaves its bits to us.
	id := sum
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: purl, Type: cyclonedx.ComponentTypeApplication, Name: "coax", Version: b.version, PackageURL: purl,
			Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
			Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
			Properties: &[]cyclonedx.Property{{Name: "coax:commit", Value: b.commit}},
		},
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: purl, Dependencies: &refs}}
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	if err := schema.check(text.Bytes()); err != nil {
		return fmt.Errorf("the SBOM does not agree with CycloneDX's schema: %w", err)
	}
	return os.WriteFile(filepath.Join(out, fmt.Sprintf("coax_%s_linux_%s.cdx.json", b.version, arch)), text.Bytes(), 0o644)
}
