package policydoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/policy"
)

const (
	// maxMarks bounds the values of a file before it is parsed. The largest set has about
	// 150,000; each takes about 300 bytes of memory.
	maxMarks    = 400_000
	maxFields   = 32 // of one mapping; a limit has 13 at most
	maxDepth    = 8  // of nesting; a limit's fields have depth 5
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
	text = withoutDirective(text)
	root, err := onlyDocument(text)
	if err != nil {
		return nil, err
	}
	f := &File{lines: map[string]int{}}
	w := walk{lines: f.lines}
	if w.visit(root, "", 0); len(w.problems) > 0 {
		return nil, &InvalidError{w.problems, w.tooMany}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f.document); err != nil {
		return nil, fromYAML(err)
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
// comment. The library knows 1.1 only, and reads what 1.2 changed by the type of a field.
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
	marks, fields, mappings := count(text)
	switch {
	case marks > maxMarks:
		return tooMany(1, "the file has more values than any policy can have")
	case fields > maxFields*(mappings+maxDepth):
		return tooMany(1, fmt.Sprintf("the file has %d fields in about %d mappings: a mapping must have at "+
			"most %d", fields, mappings, maxFields))
	}
	return nil
}

// count estimates the size of a text in one pass: its values, its fields (a colon before
// a space or a line end) and its mappings (a brace, or a dash before a space).
func count(text []byte) (marks, fields, mappings int) {
	for i, c := range text {
		ends := i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n' || text[i+1] == '\r'
		switch c {
		case '\n', ',', '[':
			marks++
		case ':', '?':
			marks++
			if ends {
				fields++
			}
		case '{':
			marks++
			mappings++
		case '-':
			marks++
			if ends {
				mappings++
			}
		}
	}
	return marks, fields, mappings
}

// onlyDocument returns the root of the only YAML document in a text.
func onlyDocument(text []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	switch err := d.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, invalid(1, "the file is empty")
	case err != nil:
		return nil, fromYAML(err)
	}
	switch err := d.Decode(&second); {
	case err == nil:
		return nil, invalid(second.Line, "a second document begins here: a policy file has only one")
	case !errors.Is(err, io.EOF):
		return nil, fromYAML(err)
	}
	if len(first.Content) != 1 || first.Content[0].Kind != yaml.MappingNode {
		return nil, invalid(first.Line, "this is not a policy file: it must have fields such as plans")
	}
	return first.Content[0], nil
}

// walk records the line of each field and collects problems that the decoder would miss.
type walk struct {
	lines    map[string]int
	problems []Problem
	tooMany  bool
}

func (w *walk) add(line int, field, message string) {
	if len(w.problems) < maxProblems {
		w.problems = append(w.problems, Problem{line, field, message})
	}
}

func (w *walk) visit(node *yaml.Node, path string, depth int) {
	w.lines[path] = node.Line
	switch {
	case node.Kind == yaml.AliasNode, node.Anchor != "":
		w.add(node.Line, path, "is a YAML anchor or alias: write the value itself")
		return
	case node.Style&yaml.TaggedStyle != 0:
		w.add(node.Line, path, fmt.Sprintf("has the YAML tag %.40q: remove the tag", node.Tag))
		return
	case depth > maxDepth:
		w.add(node.Line, path, fmt.Sprintf("is nested deeper than %d levels", maxDepth))
		return
	case isFraction(node) && wholeNumbers.MatchString(path):
		w.add(node.Line, path, fmt.Sprintf("must be a whole number, not %.40s", node.Value))
		return
	case zeroFirst.MatchString(node.Value) && node.Style == 0 && wholeNumbers.MatchString(path):
		w.add(node.Line, path, fmt.Sprintf("is %.40s, which YAML takes for an octal number: write %s",
			node.Value, zeroFirst.FindStringSubmatch(node.Value)[1]))
		return
	}
	if node.Kind == yaml.MappingNode {
		w.mapping(node, path, depth)
	}
	if node.Kind == yaml.SequenceNode {
		for i, item := range node.Content {
			w.visit(item, path+"["+strconv.Itoa(i)+"]", depth+1)
		}
	}
}

// wholeNumbers matches the paths of fields with integers.
var wholeNumbers = regexp.MustCompile(
	`(^|\.)(version|share|cost|cost\.[^\[\]]+|requests|atOnce|notify\[[0-9]+\])$`)

// zeroFirst matches a number with zeros before it.
var zeroFirst = regexp.MustCompile(`^0[0_]*([0-9][0-9_]{0,20})$`)

// isFraction reports whether a node is a number that the decoder would round to an
// integer.
func isFraction(node *yaml.Node) bool {
	if node.ShortTag() != "!!float" {
		return false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(node.Value, "_", ""), 64)
	return err == nil && n != math.Trunc(n)
}

// threeDigits matches what YAML takes for a field in {input: 5,000}.
var threeDigits = regexp.MustCompile(`^[0-9]{3}$`)

func (w *walk) mapping(node *yaml.Node, path string, depth int) {
	// The library compares each field of a mapping with every other field.
	if len(node.Content) > 2*maxFields {
		w.tooMany = true
		w.add(node.Line, path,
			fmt.Sprintf("has %d fields: must have at most %d", len(node.Content)/2, maxFields))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if name.Kind != yaml.ScalarNode || name.Anchor != "" || name.Tag == "!!merge" {
			w.add(name.Line, path, "has a field whose name is not plain text")
			continue
		}
		field := clip(name.Value)
		if path != "" {
			field = path + "." + field
		}
		if threeDigits.MatchString(name.Value) && value.Tag == "!!null" {
			w.add(name.Line, field, "is part of a number with a comma: write 1000, without the comma")
			continue
		}
		if line, again := lines[name.Value]; again {
			w.add(name.Line, field, fmt.Sprintf("is set twice: first in line %d", line))
			continue
		}
		lines[name.Value] = name.Line
		w.visit(value, field, depth+1)
		w.lines[field] = name.Line
	}
}

func clip(text string) string {
	if len(text) > 60 {
		return strings.ToValidUTF8(text[:60], "") + "…"
	}
	return text
}
