package form

import (
	"fmt"
	"net/url"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/web/templates"
)

// maxRoutesText bounds a typed list of patterns; all fit.
const maxRoutesText = 20_000

// RoutesField asks for the routes that a plan or a key opens, one a line.
func RoutesField(hint string, in Input) templates.FormField {
	return templates.FormField{ID: "allow", Label: "Open routes", Kind: templates.AreaField, Hint: hint,
		Sample: "GET /orders/*", Max: fmt.Sprint(maxRoutesText), Field: Field(in)}
}

// TypedRoutes is the list as it was typed, bounded. A form without such a field, such as
// one of another release, leaves the list as it was.
func TypedRoutes(values url.Values, before []route.Pattern) Input {
	if !values.Has("allow") {
		return RoutesInput(before)
	}
	return Typed(values, "allow", maxRoutesText)
}

// RoutesInput is a list as it is typed.
func RoutesInput(allow []route.Pattern) Input {
	lines := make([]string, len(allow))
	for i, p := range allow {
		lines[i] = p.String()
	}
	return Input{Text: strings.Join(lines, "\n")}
}

// Routes returns the patterns that were typed, and notes one that cannot be read.
func (in *Input) Routes() []route.Pattern {
	var allow []route.Pattern
	for line := range strings.Lines(in.Text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := route.Parse(line)
		if err != nil {
			in.Error = "“" + page.Clip(line, 50) + "”: " + page.Clip(err.Error(), page.MaxName) + "."
			return nil
		}
		allow = append(allow, p)
	}
	if len(allow) > policy.MaxAllow {
		in.Error = fmt.Sprintf("Enter at most %d routes.", policy.MaxAllow)
	}
	return allow
}
