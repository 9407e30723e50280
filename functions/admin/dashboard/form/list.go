package form

import (
	"net/netip"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/web/templates"
)

// Bounds of typed lists. The longest valid lists of networks and routes are within them.
const (
	MaxPrefixText = 30_000 // characters
	MaxRoutesText = 20_000 // characters
	maxQuoted     = 50     // characters of an item that an error quotes
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

// RoutesField returns the field for the open routes of a plan or a key, one per line.
func RoutesField(hint string, in Input) templates.FormField {
	return templates.FormField{ID: "allow", Label: "Open routes", Kind: templates.AreaField, Hint: hint,
		Sample: "GET /orders/*", Max: strconv.Itoa(MaxRoutesText), Field: Field(in)}
}

// RoutesInput returns the input that Routes reads as allow.
func RoutesInput(allow []route.Pattern) Input {
	lines := make([]string, len(allow))
	for i, p := range allow {
		lines[i] = p.String()
	}
	return Input{Text: strings.Join(lines, "\n")}
}

// Routes returns the typed patterns. It sets an error if one is invalid or there are too
// many.
func (in *Input) Routes() []route.Pattern {
	var allow []route.Pattern
	for line := range strings.Lines(in.Text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := route.Parse(line)
		if err != nil {
			in.Error = "“" + page.Clip(line, maxQuoted) + "”: " + page.Clip(err.Error(), page.MaxName) + "."
			return nil
		}
		allow = append(allow, p)
	}
	if len(allow) > policy.MaxAllow {
		in.Error = "Enter at most " + strconv.Itoa(policy.MaxAllow) + " routes."
	}
	return allow
}
