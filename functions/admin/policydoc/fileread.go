package policydoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

const (
	// maxValues bounds the values of a file before it is parsed. The largest set has about
	// 150,000; each takes about 250 bytes of memory.
	maxValues   = 400_000
	maxProblems = 20 // in one InvalidError
)

// Read parses a file. Its error is an *InvalidError. It does not check the bounds of
// limits, plans and routes; File.Edit does.
func Read(text []byte) (file *File, err error) {
	defer func() {
		if cause := recover(); cause != nil { // a panic of the library must not end the function
			file, err = nil, invalid(1, "the file is not valid YAML")
		}
	}()
	if err := checkSize(text); err != nil {
		return nil, err
	}
	root, err := onlyDocument(withoutDirective(text))
	if err != nil {
		return nil, err
	}
	r := reader{lines: map[string]int{}}
	f := &File{lines: r.lines}
	if r.value(root, reflect.ValueOf(&f.document).Elem(), ""); len(r.problems) > 0 {
		return nil, &InvalidError{Problems: r.problems}
	}
	f.Version = f.document.Version
	if f.Version < 0 {
		return nil, invalid(f.line("version"), "version must be 0 or more")
	}
	if _, fieldErrors := f.document.Set(&policy.Set{}); len(fieldErrors) > 0 {
		return nil, f.Locate(fieldErrors[:min(len(fieldErrors), maxProblems)])
	}
	return f, nil
}

// withoutDirective returns a file with a %YAML 1.x directive before its document as a
// comment. The library knows 1.1 only, and the reader goes by the type of a field.
func withoutDirective(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for at := 0; at < len(text); {
		line, _, _ := bytes.Cut(text[at:], []byte("\n"))
		if bytes.HasPrefix(line, []byte("%YAML 1.")) {
			text = bytes.Clone(text)
			text[at] = '#'
			return text
		}
		if bare := bytes.TrimSpace(line); len(bare) > 0 && bare[0] != '#' {
			return text
		}
		at += len(line) + 1
	}
	return text
}

func checkSize(text []byte) error {
	switch {
	case len(text) > MaxBytes:
		return invalid(1, fmt.Sprintf("the file has %d bytes: must have at most %d", len(text), MaxBytes))
	case !utf8.Valid(text):
		return invalid(1, "the file is not UTF-8: save it in this encoding")
	}
	if bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte(",")) > maxValues {
		e := invalid(1, "the file has more values than any policy can have")
		e.TooMany = true
		return e
	}
	return nil
}

// onlyDocument returns the root of the only YAML document in a text.
func onlyDocument(text []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	switch err := d.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, invalid(1, "the file is empty")
	case err != nil:
		return nil, syntaxError(err)
	}
	switch err := d.Decode(&second); {
	case err == nil:
		return nil, invalid(second.Line, "a second document begins here: a policy file has only one")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(err)
	}
	if len(first.Content) != 1 || first.Content[0].Kind != yaml.MappingNode {
		return nil, invalid(first.Line, "this is not a policy file: it must have fields such as plans")
	}
	return first.Content[0], nil
}

// reader puts the nodes of a file into a document, by the types of its fields. It notes
// the line of each field, and what is wrong.
type reader struct {
	lines    map[string]int
	problems []Problem
}

func (r *reader) add(node *yaml.Node, field, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{node.Line, field, fmt.Sprintf(format, args...)})
	}
}

// fromNode is a type that reads itself from a node: of a file, at a field.
type fromNode interface {
	read(r *reader, node *yaml.Node, field string)
}

// value reads a node into a value.
func (r *reader) value(node *yaml.Node, into reflect.Value, field string) {
	if r.lines[field] == 0 { // a field's line is that of its name
		r.lines[field] = node.Line
	}
	switch {
	case node.Kind == yaml.AliasNode, node.Anchor != "":
		r.add(node, field, "is a YAML anchor or alias: write the value itself")
		return
	case node.Style&yaml.TaggedStyle != 0:
		r.add(node, field, "has the YAML tag %.40q: remove the tag", node.Tag)
		return
	}
	if itself, ok := into.Addr().Interface().(fromNode); ok {
		itself.read(r, node, field)
		return
	}
	if node.ShortTag() == "!!null" {
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		r.value(node, into.Elem(), field)
	case reflect.Struct:
		r.mapping(node, into, field)
	case reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			r.mismatch(node, field, "a list")
			return
		}
		into.Set(reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content)))
		for i, item := range node.Content {
			r.value(item, into.Index(i), field+"["+strconv.Itoa(i)+"]")
		}
	case reflect.String:
		if node.Kind != yaml.ScalarNode {
			r.mismatch(node, field, "text")
			return
		}
		into.SetString(node.Value)
	case reflect.Bool:
		var is bool
		if node.Kind != yaml.ScalarNode || node.Decode(&is) != nil { // yes and on, too
			r.mismatch(node, field, "true or false")
			return
		}
		into.SetBool(is)
	default:
		if n, ok := r.number(node, field); ok {
			into.SetInt(n)
		}
	}
}

func (r *reader) mismatch(node *yaml.Node, field, want string) {
	got := strconv.Quote(clip(node.Value))
	if node.Kind == yaml.SequenceNode {
		got = "a list"
	}
	if node.Kind == yaml.MappingNode {
		got = "a mapping"
	}
	r.add(node, field, "must be %s, not %s", want, got)
}

// zeroFirst matches a number with zeros before it.
var zeroFirst = regexp.MustCompile(`^0[0_]*([0-9][0-9_]{0,20})$`)

// number reads a whole number.
func (r *reader) number(node *yaml.Node, field string) (n int64, ok bool) {
	if node.Kind == yaml.ScalarNode && node.Style == 0 {
		if m := zeroFirst.FindStringSubmatch(node.Value); m != nil {
			r.add(node, field, "is %.40s, which YAML takes for an octal number: write %s", node.Value, m[1])
			return 0, false
		}
	}
	if tag := node.ShortTag(); tag == "!!int" && node.Decode(&n) == nil {
		return n, true
	} else if tag == "!!float" { // 1e3 is a whole number
		if f, err := strconv.ParseFloat(strings.ReplaceAll(node.Value, "_", ""), 64); err == nil &&
			f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
		}
	}
	r.mismatch(node, field, "a whole number")
	return 0, false
}

// fieldsOf has the fields of a type by their names in a file: those of tag yaml or else of
// tag json.
func fieldsOf(t reflect.Type) map[string]int {
	names := map[string]int{}
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("yaml")
		if !ok {
			tag = t.Field(i).Tag.Get("json")
		}
		if name, _, _ := strings.Cut(tag, ","); name != "-" {
			names[name] = i
		}
	}
	return names
}

// threeDigits matches what YAML takes for a field in {input: 5,000}.
var threeDigits = regexp.MustCompile(`^[0-9]{3}$`)

// each calls read for each field of a mapping, and notes its line.
func (r *reader) each(node *yaml.Node, at string, read func(name, field string, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		r.mismatch(node, at, "a mapping")
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if name.Kind != yaml.ScalarNode || name.Anchor != "" || name.Tag == "!!merge" {
			r.add(name, at, "has a field whose name is not plain text")
			continue
		}
		field := clip(name.Value)
		if at != "" {
			field = at + "." + field
		}
		if threeDigits.MatchString(name.Value) && value.Tag == "!!null" {
			r.add(name, field, "is part of a number with a comma: write 1000, without the comma")
			continue
		}
		if line, again := first[name.Value]; again {
			r.add(name, field, "is set twice: first in line %d", line)
			continue
		}
		first[name.Value], r.lines[field] = name.Line, name.Line
		read(name.Value, field, value)
	}
}

// mapping reads the fields of a struct.
func (r *reader) mapping(node *yaml.Node, into reflect.Value, at string) {
	known := fieldsOf(into.Type())
	r.each(node, at, func(name, field string, value *yaml.Node) {
		i, found := known[name]
		switch instead := Instead(name); {
		case found:
			r.value(value, into.Field(i), field)
		case into.Type() == reflect.TypeFor[LimitFields]():
			var unknown limits.FieldError
			errors.As(limits.UnknownField(name), &unknown)
			r.add(value, field, "%s", unknown.Message)
		case instead != "":
			r.add(value, "", "unknown field %q: %s", clip(name), instead)
		default:
			r.add(value, "", "unknown field %q", clip(name))
		}
	})
}

func clip(text string) string {
	if len(text) > 60 {
		return strings.ToValidUTF8(text[:60], "") + "…"
	}
	return text
}
