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
