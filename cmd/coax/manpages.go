//go:build manpages

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// main writes the man pages of every command into the folder that is named. This takes the
// place of the product's main, which does not link the renderer. The pages' date is
// SOURCE_DATE_EPOCH's.
func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "name one folder")
		os.Exit(exitUsage)
	}
	root := (&app{out: os.Stdout, err: os.Stderr}).rootCommand()
	root.DisableAutoGenTag = true
	keepTables(root)
	header := doc.GenManHeader{Section: "1", Source: "Coax " + root.Version, Manual: "Coax"}
	if err := doc.GenManTree(root, &header, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitRefused)
	}
}

// keepTables marks the paragraphs of a description that are aligned by spaces as
// preformatted: the renderer reads descriptions as Markdown.
func keepTables(command *cobra.Command) {
	paragraphs := strings.Split(command.Long, "\n\n")
	for i, p := range paragraphs {
		if strings.Contains(p, "   ") || strings.Contains(p, "\n  ") {
			paragraphs[i] = "    " + strings.ReplaceAll(p, "\n", "\n    ")
		}
	}
	command.Long = strings.Join(paragraphs, "\n\n")
	for _, inner := range command.Commands() {
		keepTables(inner)
	}
}
