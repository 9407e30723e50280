package policydoc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// MarshalYAML writes the limit in words where they say all of it.
func (l Limit) MarshalYAML() (any, error) {
	limit, _ := limiter.Text(l).Limit()
	words := LimitText(limit)
	if read, err := ParseLimit(words); err == nil && read == limit {
		return words, nil
	}
	return limiter.Text(l), nil
}

// UnmarshalYAML reads either form.
func (l *Limit) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		read, err := ParseLimit(node.Value)
		*l = LimitOf(read)
		return atLine(node, err)
	}
	return decodeStrictly(node, (*limiter.Text)(l))
}

// patternFields is a Pattern that YAML has field by field.
type patternFields Pattern

// MarshalYAML writes the pattern as a route where that says all of it.
func (p Pattern) MarshalYAML() (any, error) {
	text := route.Pattern(p).String()
	if read, err := route.Parse(text); err == nil && read == route.Pattern(p) {
		return text, nil
	}
	return patternFields(p), nil
}

// UnmarshalYAML reads either form. Bounds are left to the Set's Validate.
func (p *Pattern) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		read, err := route.Parse(node.Value)
		*p = Pattern(read)
		return atLine(node, err)
	}
	return decodeStrictly(node, (*patternFields)(p))
}

// atLine adds the line of its node to an error. In this form the library goes on and
// finds further errors.
func atLine(node *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	return &yaml.TypeError{Errors: []string{
		fmt.Sprintf("line %d: %s", node.Line, strings.ReplaceAll(err.Error(), "\n", "; "))}}
}

// decodeStrictly is Decode for a part of a document, where the library knows no
// KnownFields.
func decodeStrictly(node *yaml.Node, into any) error {
	text, err := yaml.Marshal(node)
	if err != nil {
		return atLine(node, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return atLine(node, errors.New(readable(err).Problems[0].Message))
	}
	return nil
}
