package policydoc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/route"
)

// patternFields is a Pattern whose YAML form is a mapping.
type patternFields Pattern

// MarshalYAML returns the pattern as a route, or its fields if a route would lose
// something.
func (p Pattern) MarshalYAML() (any, error) {
	text := route.Pattern(p).String()
	if read, err := route.Parse(text); err == nil && read == route.Pattern(p) {
		return text, nil
	}
	return patternFields(p), nil
}

// UnmarshalYAML accepts both forms. It checks no bounds.
func (p *Pattern) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		read, err := route.Parse(node.Value)
		*p = Pattern(read)
		return atLine(node, err)
	}
	return decodeStrictly(node, (*patternFields)(p))
}

// UnmarshalYAML accepts a list of patterns, or one pattern.
func (list *Patterns) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.SequenceNode {
		return node.Decode((*[]Pattern)(list))
	}
	if strings.Contains(node.Value, ", ") {
		return atLine(node, errors.New("match has several patterns in one text: write each on a line of its "+
			"own that begins with -"))
	}
	var one Pattern
	err := one.UnmarshalYAML(node)
	*list = Patterns{one}
	return err
}

// atLine adds a node's line to an error. It returns a *yaml.TypeError, after which the
// library continues and finds further errors.
func atLine(node *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	return &yaml.TypeError{Errors: []string{
		fmt.Sprintf("line %d: %s", node.Line, strings.ReplaceAll(err.Error(), "\n", "; "))}}
}

// decodeStrictly decodes a node and refuses unknown fields, as a Decoder with KnownFields
// does. The library has no such option for nodes.
func decodeStrictly(node *yaml.Node, into any) error {
	text, err := yaml.Marshal(node)
	if err != nil {
		return atLine(node, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return atLine(node, errors.New(fromYAML(err).Problems[0].Message))
	}
	return nil
}
