package reference

import (
	"fmt"

	"github.com/coaxhq/coax/contract"
	"go.yaml.in/yaml/v3"
)

// sampleLanguages are the languages of contract.Samples, in the order of their tabs, and
// how their files' names end.
var sampleLanguages = []struct{ name, label, end string }{
	{"Shell", "curl", ".sh"},
	{"PHP", "PHP", ".php"},
	{"JavaScript", "Node", ".js"},
	{"Python", "Python", ".py"},
	{"Go", "Go", "/main.go"},
}

// addSamples adds the samples of every endpoint to a document, as the extension that
// Redoc shows.
func addSamples(document *yaml.Node) error {
	paths := valueOf(document.Content[0], "paths")
	if paths == nil {
		return fmt.Errorf("the document has no paths")
	}
	for i := 0; i < len(paths.Content); i += 2 {
		path, operations := paths.Content[i].Value, paths.Content[i+1]
		for _, method := range []string{"get", "post"} {
			operation := valueOf(operations, method)
			if operation == nil {
				continue
			}
			samples := &yaml.Node{Kind: yaml.SequenceNode}
			for _, language := range sampleLanguages {
				text, err := contract.Samples.ReadFile("samples" + path + language.end)
				if err != nil {
					return err
				}
				samples.Content = append(samples.Content, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
					stringNode("lang"), stringNode(language.name),
					stringNode("label"), stringNode(language.label),
					stringNode("source"), stringNode(string(text)),
				}})
			}
			operation.Content = append(operation.Content, stringNode("x-codeSamples"), samples)
		}
	}
	return nil
}

// valueOf returns the value of a name in a mapping; nil if it is not there.
func valueOf(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func stringNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}
