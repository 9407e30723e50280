package policydoc

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is an error at one place of a file.
type Problem struct {
	Line    int // from 1
	Field   string
	Message string
}

// String formats the problem as one line.
func (p Problem) String() string {
	if p.Field == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Message)
	}
	return fmt.Sprintf("line %d: %s %s", p.Line, p.Field, p.Message)
}

// InvalidError lists the problems of a file, maxProblems at most.
type InvalidError struct {
	Problems []Problem
	TooMany  bool // the file has more fields or values than any policy and was not decoded
}

// Error implements error.
func (e *InvalidError) Error() string {
	words := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		words[i] = p.String()
	}
	return strings.Join(words, "; ")
}

func invalid(line int, message string) *InvalidError {
	return &InvalidError{Problems: []Problem{{Line: max(line, 1), Message: message}}}
}

func tooMany(line int, message string) *InvalidError {
	e := invalid(line, message)
	e.TooMany = true
	return e
}

// tabMessage is the library's error for a tab that indents, among others.
const tabMessage = "found character that cannot start any token"

// bracketMessage is the library's error for [each {channel}], among others.
const bracketMessage = "did not find expected ',' or ']'"

var (
	linePattern     = regexp.MustCompile(`^line ([0-9]+): `)
	unknownPattern  = regexp.MustCompile(`(?s)^field (.*) not found in type \w+\.\w+$`)
	mismatchPattern = regexp.MustCompile("(?s)^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.+)$")
)

// fromYAML converts an error of the YAML library. It replaces the names of Go types,
// which the library's messages contain.
func fromYAML(err error) *InvalidError {
	all := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var wrongTypes *yaml.TypeError
	if errors.As(err, &wrongTypes) {
		all = wrongTypes.Errors
	}
	e := &InvalidError{}
	for _, text := range all {
		if len(e.Problems) == maxProblems {
			break
		}
		p := Problem{Line: 1}
		if m := linePattern.FindStringSubmatch(text); m != nil {
			p.Line, _ = strconv.Atoi(m[1])
			text = text[len(m[0]):]
		}
		p.Message = text
		if strings.Contains(text, tabMessage) {
			p.Message = "a character such as a tab, @ or % begins a value here: indent with spaces, or " +
				"put the value in quotes"
		}
		if strings.Contains(text, bracketMessage) {
			p.Message = "a list in brackets has a text with a brace, or no end: put the text in quotes, or " +
				"write each on a line of its own that begins with -"
		}
		if m := unknownPattern.FindStringSubmatch(text); m != nil {
			p.Message = fmt.Sprintf("unknown field %q", clip(m[1]))
			if instead := Instead(m[1]); instead != "" {
				p.Message += ": " + instead
			}
		}
		if m := mismatchPattern.FindStringSubmatch(text); m != nil {
			p.Message = mismatch(m[1], m[2], m[3])
		}
		e.Problems = append(e.Problems, p)
	}
	return e
}

// mismatch returns the message for a value with the YAML type tag that does not fit a Go
// type. value is empty for a list or a mapping.
func mismatch(tag, value, goType string) string {
	got := strconv.Quote(strings.ToValidUTF8(value, "")) // the library cuts long values
	switch tag {
	case "seq":
		got = "a list"
	case "map":
		got = "a mapping"
	}
	want := "a mapping"
	switch {
	case strings.HasPrefix(goType, "[]"):
		want = "a list"
	case strings.HasPrefix(goType, "int"):
		want = "a whole number"
	case goType == "bool":
		want = "true or false"
	case goType == "string", strings.HasPrefix(goType, "policy."): // policy.Degraded
		want = "text"
	case goType == "policydoc.patternFields":
		want = "text or a mapping"
	}
	return "expected " + want + ", got " + got
}
