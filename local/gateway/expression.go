package gateway

import (
	"encoding/json"
	"regexp"
	"strings"
)

// expressions has the values of the variables in one request's gateway response.
type expressions struct {
	request        *request
	context        map[string]string
	stageVariables map[string]string
	pathParameters map[string]string
	escape         bool // quotes and backslashes of values in templates
}

// parameter returns the value of a header expression, or "" for an unknown one.
func (e expressions) parameter(expression string) string {
	if literal, ok := strings.CutPrefix(expression, "'"); ok {
		return strings.TrimSuffix(literal, "'")
	}
	source, name, _ := strings.Cut(expression, ".")
	switch source {
	case "context":
		return e.context[name]
	case "stageVariables":
		return e.stageVariables[name]
	case "method":
		return e.methodRequest(strings.TrimPrefix(name, "request."))
	}
	return ""
}

func (e expressions) methodRequest(expression string) string {
	place, name, _ := strings.Cut(expression, ".")
	switch place {
	case "header":
		values := e.request.header.Values(name)
		if len(values) > 0 {
			return values[len(values)-1]
		}
	case "querystring":
		return lastValues(e.request.query)[name]
	case "path":
		return e.pathParameters[name]
	}
	return ""
}

var variable = regexp.MustCompile(`\$(context|stageVariables)((?:\.[A-Za-z0-9_-]+)+)`)

// template replaces the variables of a body template.
func (e expressions) template(text string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		value := e.parameter(found[1:])
		if value == "" || !e.escape || strings.HasSuffix(found, ".messageString") {
			return value
		}
		text := quoted(value)
		return text[1 : len(text)-1]
	})
}

func quoted(message string) string {
	if message == "" {
		return "null"
	}
	text, err := json.Marshal(message)
	if err != nil {
		return "null"
	}
	return string(text)
}
