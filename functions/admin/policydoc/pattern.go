package policydoc

import (
	"reflect"
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

// read accepts both forms. It checks no bounds.
func (p *Pattern) read(r *reader, node *yaml.Node, field string) {
	if node.Kind != yaml.ScalarNode {
		r.mapping(node, reflect.ValueOf((*patternFields)(p)).Elem(), field)
		return
	}
	read, err := route.Parse(node.Value)
	if err != nil {
		r.add(node, field, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	*p = Pattern(read)
}

// read accepts a list of patterns, or one pattern.
func (list *Patterns) read(r *reader, node *yaml.Node, field string) {
	switch {
	case node.Kind == yaml.SequenceNode:
		r.value(node, reflect.ValueOf((*[]Pattern)(list)).Elem(), field)
	case node.Kind == yaml.ScalarNode && strings.Contains(node.Value, ", "):
		r.add(node, field,
			"has several patterns in one text: write each on a line of its own that begins with -")
	case node.ShortTag() != "!!null":
		*list = make(Patterns, 1)
		(*list)[0].read(r, node, field)
	}
}
