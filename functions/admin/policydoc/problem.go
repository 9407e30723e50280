package policydoc

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
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
	TooMany  bool // the file has more values than any policy, and was not parsed
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

// linePattern matches the line in an error of the YAML library.
var linePattern = regexp.MustCompile(`^line ([0-9]+): `)

// advice has what to write, by the library's error for what people write.
var advice = map[string]string{
	"found character that cannot start any token": "a character such as a tab, @ or % begins a value " +
		"here: indent with spaces, or put the value in quotes",
	"did not find expected ',' or ']'": "a list in brackets has a text with a brace, or no end: put the " +
		"text in quotes, or write each on a line of its own that begins with -",
}

// syntaxError is the error of a text that is no YAML.
func syntaxError(err error) *InvalidError {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := linePattern.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	for message, instead := range advice {
		if strings.Contains(text, message) {
			text = instead
		}
	}
	return invalid(line, text)
}
