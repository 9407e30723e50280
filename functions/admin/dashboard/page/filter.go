package page

import (
	"maps"
	"net/url"

	"tidegate/web/templates"
)

// Filtered returns the address of path with one parameter of a filter changed. The
// position in the list goes.
func Filtered(path string, filter url.Values, name, value string) string {
	with := maps.Clone(filter)
	with.Set(name, value)
	with.Del("after")
	return Address(path, with)
}

// Spans returns links to ranges of a filter, in place of its from and to. The one named
// span is current unless the filter has these.
func Spans(path string, filter url.Values, spans []templates.Option, span string) []templates.Choice {
	exact := filter.Get("from") != "" || filter.Get("to") != ""
	without := maps.Clone(filter)
	without.Del("from")
	without.Del("to")
	links := make([]templates.Choice, len(spans))
	for i, s := range spans {
		links[i] = templates.Choice{Text: s.Text, Address: Filtered(path, without, "range", s.Value),
			Current: !exact && span == s.Value}
	}
	return links
}

// Chips returns a chip for each named parameter that the filter has, in the order of
// names. words puts a parameter's value into words; nil shows it as it is.
func Chips(path string, filter url.Values, words func(name, value string) string,
	names ...templates.Option) []templates.Chip {
	var chips []templates.Chip
	for _, n := range names {
		value := filter.Get(n.Value)
		if value == "" {
			continue
		}
		if words != nil {
			value = words(n.Value, value)
		}
		chips = append(chips, templates.Chip{Name: n.Text, Value: Clip(value, MaxName),
			Remove: Filtered(path, filter, n.Value, "")})
	}
	return chips
}
