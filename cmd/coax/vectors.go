package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/spf13/cobra"
)

// vector is a published request with every stage of its signature.
type vector struct {
	Name           string   `json:"name"`
	Secret         string   `json:"secret"`
	Method         string   `json:"method"`
	Path           string   `json:"path"`
	RawQuery       string   `json:"raw_query"`
	Timestamp      string   `json:"timestamp"`
	Nonce          string   `json:"nonce"`
	Body           *string  `json:"body,omitempty"`
	BodyBase64     *string  `json:"body_base64,omitempty"`
	CanonicalQuery string   `json:"canonical_query"`
	BodySHA256     string   `json:"body_sha256"`
	Lines          []string `json:"lines"`
	StringToSign   string   `json:"string_to_sign"`
	Signature      string   `json:"signature"`
}

// readVectors returns the published vectors whose signature is right.
func readVectors() ([]vector, error) {
	files, err := fs.Glob(contract.Vectors, "vectors/*.json")
	if err != nil {
		return nil, err
	}
	var all []vector
	for _, file := range files {
		text, err := contract.Vectors.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var set struct {
			Verifies bool            `json:"verifies"`
			Vectors  json.RawMessage `json:"vectors"`
		}
		if err := json.Unmarshal(text, &set); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if !set.Verifies {
			continue
		}
		var vectors []vector
		if err := json.Unmarshal(set.Vectors, &vectors); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, vectors...)
	}
	return all, nil
}

func (a *app) vectorsCommand() *cobra.Command {
	var asJSON bool
	var check string
	command := &cobra.Command{
		Use:   "vectors",
		Short: "Print the signing vectors with every stage, or check another implementation's",
		Long: `Print the published requests with every stage of their signatures: canonical query, hash
of the body, string to sign, signature.

--check reads what another implementation made of them: a JSON array with an object for
each vector, which has its name, its signature, and if you like canonical_query, body_sha256
and string_to_sign. It names the first stage that differs. The exit status is 1 if one does,
or if one is missing.`,
		Example: `  coax vectors
  coax vectors --json > vectors.json
  my-program < vectors.json > mine.json; coax vectors --check mine.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			vectors, err := readVectors()
			if err != nil {
				return err
			}
			if check != "" {
				return a.checkVectors(vectors, check, c.InOrStdin(), asJSON)
			}
			if asJSON {
				return writeVectors(a.out, vectors)
			}
			for _, v := range vectors {
				printVector(a.out, v)
			}
			return nil
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	command.Flags().StringVar(&check, "check", "", "a `FILE` with the results of another implementation, or - for standard input")
	return command
}

// writeVectors writes the vectors as an array, one per line.
func writeVectors(w io.Writer, vectors []vector) error {
	for i, v := range vectors {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			return err
		}
		before, after := " ", ","
		if i == 0 {
			before = "["
		}
		if i == len(vectors)-1 {
			after = "]"
		}
		fmt.Fprintf(w, "%s%s%s\n", before, bytes.TrimSpace(text.Bytes()), after)
	}
	return nil
}

func printVector(w io.Writer, v vector) {
	fmt.Fprintf(w, "%s\n", v.Name)
	row := func(name, value string) {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-16s %s", name, value), " "))
	}
	row("secret", v.Secret)
	row("raw query", requestlog.Visible(v.RawQuery))
	switch {
	case v.BodyBase64 != nil:
		row("body, base64", *v.BodyBase64)
	case v.Body != nil:
		row("body", requestlog.Visible(*v.Body))
	}
	for i, name := range lineLabels {
		row(fmt.Sprintf("%d %s", i+1, name), requestlog.Visible(v.Lines[i]))
	}
	row("signature", v.Signature)
	fmt.Fprintln(w)
}

// made is what another implementation made of a vector. Stages that are missing are not
// compared; the signature has to be there.
type made struct {
	Name           string  `json:"name"`
	CanonicalQuery *string `json:"canonical_query"`
	BodySHA256     *string `json:"body_sha256"`
	StringToSign   *string `json:"string_to_sign"`
	Signature      *string `json:"signature"`
}

// vectorFault is the first stage of a vector that differs.
type vectorFault struct {
	Name  string `json:"name"`
	Stage string `json:"stage"`
	Want  string `json:"want"`
	Got   string `json:"got"`
}

func (a *app) checkVectors(vectors []vector, file string, stdin io.Reader, asJSON bool) error {
	text, err := readCompared(file, stdin)
	if err != nil {
		return err
	}
	var all []made
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return fmt.Errorf("%s is not a JSON array of objects with name and signature: %w", file, err)
	}
	byName := map[string]made{}
	for _, m := range all {
		byName[m.Name] = m
	}
	faults := []vectorFault{}
	for _, v := range vectors {
		m, there := byName[v.Name]
		if fault := v.differs(m); !there {
			faults = append(faults, vectorFault{Name: v.Name, Stage: "missing", Want: v.Signature})
		} else if fault != nil {
			faults = append(faults, *fault)
		}
	}
	if asJSON {
		encoder := json.NewEncoder(a.out)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(map[string]any{"checked": len(vectors), "failed": faults})
	} else {
		for _, f := range faults {
			fmt.Fprintf(a.out, "%s\n  %s differs\n  want %s\n  got  %s\n\n", f.Name, f.Stage, requestlog.Visible(f.Want), requestlog.Visible(f.Got))
		}
		fmt.Fprintf(a.out, "%d of %d vectors agree\n", len(vectors)-len(faults), len(vectors))
	}
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("%d of %d vectors differ", len(faults), len(vectors))
	}
	return err
}

// differs returns the first stage that differs from the published one; nil if none does.
func (v vector) differs(m made) *vectorFault {
	signature := ""
	if m.Signature != nil {
		signature = *m.Signature
	}
	for _, stage := range []struct {
		name string
		want string
		got  *string
	}{
		{"canonical_query", v.CanonicalQuery, m.CanonicalQuery},
		{"body_sha256", v.BodySHA256, m.BodySHA256},
		{"string_to_sign", v.StringToSign, m.StringToSign},
		{"signature", v.Signature, &signature},
	} {
		if stage.got != nil && *stage.got != stage.want {
			return &vectorFault{Name: v.Name, Stage: stage.name, Want: stage.want, Got: *stage.got}
		}
	}
	return nil
}
