package policydoc

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.yaml.in/yaml/v3"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// Limit is a limit in a document. A request or a file has it in words or as fields. The API
// answers with fields; a file is written in words.
type Limit struct { //nolint:recvcheck // only what reads a document changes it
	limits.Limit
	problems []limits.FieldError // why it cannot be read; Policy.Set and ToLimits return them
}

// LimitFields is a limit as fields.
type LimitFields limits.Fields

// Schema documents both forms. Package limits validates them, since it says what to write
// instead; a schema could only say that neither form matches.
func (Limit) Schema(r huma.Registry) *huma.Schema {
	words := &huma.Schema{Type: huma.TypeString, Description: "The limit in words",
		Examples: []any{"100 per 10 seconds, on search"}}
	fields := r.Schema(reflect.TypeFor[LimitFields](), true, "")
	return &huma.Schema{Description: "A limit as fields, as in every answer, or in words",
		Extensions: map[string]any{"oneOf": []*huma.Schema{fields, words}}}
}

// UnmarshalJSON accepts both forms. It keeps what is wrong for Policy.Set.
func (l *Limit) UnmarshalJSON(data []byte) error {
	*l = Limit{}
	if string(data) == "null" {
		l.refuse(`is null: write it as "100 per 10 seconds", or leave it out`)
		return nil
	}
	err := json.Unmarshal(data, &l.Limit)
	var field limits.FieldError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
	case errors.As(err, &field):
		l.problems = append(l.problems, field)
	case errors.As(err, &kind):
		l.problems = append(l.problems,
			limits.FieldError{Field: kind.Field, Message: "must be " + typeWords(kind.Type)})
	default:
		l.refuse(err.Error())
	}
	return nil
}

func (l *Limit) refuse(problem string) {
	l.problems = append(l.problems, limits.FieldError{Message: problem})
}

// typeWords names what a value of a type is in a document.
func typeWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "text"
	default:
		return "text, or an object of fields"
	}
}

// MarshalYAML returns the limit in words.
func (l Limit) MarshalYAML() (any, error) { return l.String(), nil }

// read accepts both forms. It keeps what is wrong for Policy.Set, except values of another
// type.
func (l *Limit) read(r *reader, node *yaml.Node, field string) {
	*l = Limit{}
	switch problem := colonProblem(node); {
	case node.Kind == yaml.ScalarNode:
		l.readWords(node)
	case node.Kind != yaml.MappingNode:
		l.refuse("is a list: write it as 100 per 10 seconds")
	case problem != "":
		l.refuse(problem)
	default:
		var f LimitFields
		before := len(r.problems)
		if each := mappingOf(node, "each"); each != nil {
			r.add(each, field+".each", `is a mapping for YAML: write each: "{%.40s}"`, each.Content[0].Value)
			return
		}
		if r.mapping(node, reflect.ValueOf(&f).Elem(), field); len(r.problems) == before {
			l.Limit, l.problems = limits.Fields(f).Limit()
		}
	}
}

// mappingOf returns the field of a mapping if it is a mapping itself, else nil.
func mappingOf(node *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if value := node.Content[i+1]; node.Content[i].Value == name && value.Kind == yaml.MappingNode &&
			len(value.Content) > 0 {
			return value
		}
	}
	return nil
}

func (l *Limit) readWords(node *yaml.Node) {
	if comment := node.LineComment; len(comment) > 1 && comment[1] != ' ' && comment[1] != '#' {
		l.refuse(fmt.Sprintf("ends before %.40q, which YAML takes for a comment: put the limit in quotes, "+
			"or write a space after #", comment))
		return
	}
	read, err := limits.Parse(node.Value)
	if err != nil {
		l.refuse(err.Error())
	}
	l.Limit = read
}

// colonProblem says what to write instead of a text that YAML takes for a mapping, since it
// has a colon before a space.
func colonProblem(node *yaml.Node) string {
	if len(node.Content) != 2 || !strings.Contains(node.Content[0].Value, " ") {
		return ""
	}
	front, back := node.Content[0].Value, node.Content[1].Value
	if _, err := limits.Parse(back + ", " + front); err == nil {
		return fmt.Sprintf("has a colon: write %s, %s", back, front)
	}
	return fmt.Sprintf("has a colon after %.60q, so YAML takes it for a mapping: separate marks by commas, "+
		"or put the limit in quotes", front)
}

// Cost is what a route says of the cost of its calls: a number, or a number for each unit.
type Cost struct { //nolint:recvcheck // only what reads a document changes it
	limits.Costs
	problems []limits.FieldError
}

func costOf(c limits.Costs) *Cost {
	if c.IsZero() {
		return nil
	}
	return &Cost{Costs: c}
}

// Schema documents both forms; UnmarshalJSON and policy.Set.Validate check them.
func (Cost) Schema(huma.Registry) *huma.Schema {
	least, most := 0.0, float64(limits.MaxRequests)
	number := &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most}
	return &huma.Schema{
		Description: "Cost of a call: a number, or one for each unit, such as input or output; cost is the " +
			"unit of limits without one. Default 1; 0 is 0 in every unit",
		Examples: []any{5},
		Extensions: map[string]any{
			"oneOf": []*huma.Schema{number, {Type: huma.TypeObject, AdditionalProperties: number}}},
	}
}

const costWords = "must be a whole number, or one for each unit"

// UnmarshalJSON accepts both forms. It keeps what is wrong for Policy.Set.
func (c *Cost) UnmarshalJSON(data []byte) error {
	*c = Cost{}
	if err := json.Unmarshal(data, &c.Costs); err != nil {
		problem := limits.FieldError{Message: costWords}
		if field, ok := errors.AsType[limits.FieldError](err); ok {
			problem.Message = field.Message
		}
		c.problems = append(c.problems, problem)
	}
	return nil
}

// Read returns the costs, and what is wrong with them. at is their place in the document.
func (c Cost) Read(at string) (limits.Costs, []policy.FieldError) {
	var t parser
	return t.cost(at, &c), t.fieldErrors
}

// MarshalYAML returns the number, or the numbers by unit.
func (c Cost) MarshalYAML() (any, error) {
	text, err := json.Marshal(c.Costs)
	if err != nil {
		return nil, err
	}
	var value any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return wholeNumber(value)
}

// wholeNumber returns a value of JSON with its numbers as integers.
func wholeNumber(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		return v.Int64()
	case map[string]any:
		all := map[string]int64{}
		for unit, n := range v {
			number, _ := n.(json.Number)
			all[unit], _ = number.Int64()
		}
		return all, nil
	}
	return value, nil
}

// read accepts both forms.
func (c *Cost) read(r *reader, node *yaml.Node, field string) {
	units := map[string]int64{}
	var value any = units
	switch {
	case node.Kind == yaml.MappingNode:
		r.each(node, field, func(name, at string, of *yaml.Node) {
			if unit, number, joined := strings.Cut(name, ":"); joined && of.ShortTag() == "!!null" {
				r.add(of, at, "is one word for YAML: write a space after the colon, %s: %s", unit, number)
				return
			}
			units[name], _ = r.number(of, at)
		})
	case node.Kind == yaml.ScalarNode && (node.ShortTag() == "!!int" || node.ShortTag() == "!!float"):
		value, _ = r.number(node, field)
	default:
		r.add(node, field, costWords)
		return
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = c.UnmarshalJSON(text)
	}
	if err != nil {
		r.add(node, field, "%s", err.Error())
	}
}
