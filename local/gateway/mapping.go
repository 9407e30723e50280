package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Mapping changes an integration's response on an HTTP API. Its keys are
// append:header.NAME, overwrite:header.NAME, remove:header.NAME and overwrite:statuscode.
// A value is $context.X, $stageVariables.X, $response.header.X or a literal. An empty
// value changes nothing, except for remove, which needs none.
type Mapping map[string]string

// apply changes the headers and returns the new status. As on API Gateway, every value is
// taken from the response as the integration sent it.
func (m Mapping) apply(status int, h http.Header, context, stageVariables map[string]string) int {
	original := h.Clone()
	for _, target := range slices.Sorted(maps.Keys(m)) {
		value := mappedValue(m[target], original, context, stageVariables)
		action, place, _ := strings.Cut(target, ":")
		name, isHeader := strings.CutPrefix(place, "header.")
		switch {
		case action == "remove" && isHeader:
			h.Del(name)
		case value == "" || isHeader && (!validHeader(name, value) || reservedHeader(name)):
		case action == "append" && isHeader:
			h.Add(name, value)
		case action == "overwrite" && isHeader:
			h.Set(name, value)
		case target == "overwrite:statuscode":
			status = mappedStatus(value, status)
		}
	}
	return status
}

func mappedValue(expression string, response http.Header, context, stageVariables map[string]string) string {
	source, name, _ := strings.Cut(expression, ".")
	switch source {
	case "$context":
		return context[name]
	case "$stageVariables":
		return stageVariables[name]
	case "$response":
		return strings.Join(response.Values(strings.TrimPrefix(name, "header.")), ",")
	}
	return expression
}

func mappedStatus(value string, status int) int {
	if mapped, err := strconv.Atoi(value); err == nil && mapped >= 200 && mapped <= 599 {
		return mapped
	}
	return status
}
