package policydoc

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is what is wrong at one place of a file.
type Problem struct {
	Line    int // from 1
	Field   string
	Message string
}

// String writes it in a line.
func (p Problem) String() string {
	if p.Field == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Message)
	}
	return fmt.Sprintf("line %d: %s %s", p.Line, p.Field, p.Message)
}

// InvalidError lists everything wrong with a file.
type InvalidError struct {
	Problems []Problem
	TooMany  bool // fields or values: no policy has so many, and the file was not decoded
}

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

var (
	linePattern = regexp.MustCompile(`^line ([0-9]+): `)
	typePattern = regexp.MustCompile(` in type \w+\.\w+$`)
	intoPattern = regexp.MustCompile(` into (\[\])?(policydoc|policy|limiter)\.(\w+)$`)
)

// readable takes the library's words apart, which name our types.
func readable(err error) *InvalidError {
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
		text = typePattern.ReplaceAllString(text, "")
		p.Message = intoPattern.ReplaceAllString(text, " where another kind of value belongs")
		if name, unknown := strings.CutPrefix(p.Message, "field "); unknown {
			if name, unknown = strings.CutSuffix(name, " not found"); unknown {
				p.Message = fmt.Sprintf("there is no field %q", clip(name))
			}
		}
		e.Problems = append(e.Problems, p)
	}
	return e
}
