package form

import (
	"net/netip"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limits"
	"tidegate/internal/route"
	"tidegate/web/templates"
)

// Bounds of typed lists. The longest valid lists of networks and routes are within them.
const (
	MaxPrefixText   = 30_000 // characters
	MaxPatternsText = 60_000 // characters
	maxQuoted       = 50     // characters of an item that an error quotes
)

// AreaField returns a field for a list of networks.
func AreaField(name, label, hint string, in Input) templates.FormField {
	return templates.FormField{ID: name, Label: label, Kind: templates.AreaField, Hint: hint,
		Sample: "203.0.113.0/24", Max: strconv.Itoa(MaxPrefixText), Field: Field(in)}
}

// Prefixes returns the typed networks, separated by white space, commas or semicolons. An
// address is a network of its own. Prefixes sets an error if one is invalid.
func (in *Input) Prefixes() []netip.Prefix {
	var list []netip.Prefix
	if len(in.Text) > MaxPrefixText {
		in.Error = "Enter at most " + page.Number(MaxPrefixText) + " characters."
		return nil
	}
	for _, word := range strings.FieldsFunc(in.Text, func(c rune) bool {
		return c == ',' || c == ';' || c <= ' '
	}) {
		p, err := netip.ParsePrefix(word)
		if a, addrErr := netip.ParseAddr(word); err != nil && addrErr == nil && a.Zone() == "" {
			p, err = a.Unmap().Prefix(a.Unmap().BitLen())
		}
		if err != nil {
			in.Error = "“" + page.Clip(word, maxQuoted) +
				"” is not a network. Enter one such as 203.0.113.0/24 or 2001:db8::/32."
			return nil
		}
		list = append(list, p)
	}
	return list
}

// OpensField returns the field for the routes that a plan or a key opens, one a line.
func OpensField(hint string, in Input) templates.FormField {
	return PatternsField("opens", "Open routes", hint, in)
}

// PatternsField returns a field for patterns of calls, one a line.
func PatternsField(name, label, hint string, in Input) templates.FormField {
	return templates.FormField{ID: name, Label: label, Kind: templates.AreaField, Hint: hint,
		Sample: "GET /orders/*", Max: strconv.Itoa(MaxPatternsText), Field: Field(in)}
}

// PatternsInput returns the input that Patterns reads as list.
func PatternsInput(list []route.Pattern) Input {
	lines := make([]string, len(list))
	for i, p := range list {
		lines[i] = limits.PatternText(p)
	}
	return Input{Text: strings.Join(lines, "\n")}
}

// Patterns returns the typed patterns. It sets an error if one is invalid or there are more
// than most.
func (in *Input) Patterns(most int) []route.Pattern {
	var list []route.Pattern
	for line := range strings.Lines(in.Text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := route.Parse(line)
		if err != nil {
			in.Error = "“" + page.Clip(line, maxQuoted) + "”: " + page.Clip(err.Error(), page.MaxName) + "."
			return nil
		}
		list = append(list, p)
	}
	if len(list) > most {
		in.Error = "Enter at most " + strconv.Itoa(most) + " patterns."
	}
	return list
}
