package command

import (
	"maps"
	"net/url"
	"strings"

	"tidegate/functions/admin/dashboard/page"
)

// selection is which keys a page selects, and where.
type selection struct {
	of     string // ofAll, or ofSelected for ids
	filter url.Values
	place  url.Values // order and page of the list
	shown  *int64     // number of keys that the form showed
}

// address returns the address of the list of keys as it was, on demand with the same keys
// ticked.
func (s selection) address(ids []string, ticked bool) string {
	values := maps.Clone(s.filter)
	if values == nil {
		values = url.Values{}
	}
	maps.Copy(values, s.place)
	if ticked {
		if values.Set(selectField, strings.Join(ids, ",")); s.of == ofAll {
			values.Set(selectField, ofAll)
		}
	}
	return page.Address("/keys", values)
}
