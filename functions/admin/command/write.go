package command

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// write adds the value of the field to a form.
func (f field) write(v url.Values) {
	set := func(text string) { v.Set(f.name, text) }
	switch from := f.target().(type) {
	case *time.Time:
		f.writeTime(v, *from)
	case **time.Time:
		if *from != nil {
			f.writeTime(v, **from)
		}
	case *string:
		set(*from)
	case *policy.Degraded:
		set(string(*from))
	case *[]byte:
		set(string(*from))
	case *bool:
		if *from {
			set(checked)
		}
	case *int:
		if *from > 0 {
			set(strconv.Itoa(*from))
		}
	case *[]string:
		set(strings.Join(*from, separators[f.tag.Get("list")]))
	case *[]policydoc.Limit:
		list, _ := policydoc.ToLimits(f.name, *from)
		set(strings.Join(policydoc.Each(list), "\n"))
	case *[]policydoc.Pattern:
		set(patternLines(*from))
	case *policydoc.Patterns:
		set(patternLines(*from))
	case *limits.Billing:
		set(from.String())
	case **policydoc.Cost:
		if *from != nil {
			set(costText((*from).Costs))
		}
	}
}

// chooseFromList is the error of a value that is none of the options.
const chooseFromList = "Choose one from the list."

// checked is the value of a checked box.
const checked = "yes"

// separators stand between the parts of a list.
var separators = map[string]string{"tags": ", ", "networks": "\n", "": "\n"}

func patternLines(list []policydoc.Pattern) string {
	all := make([]string, len(list))
	for i, p := range policydoc.ToPatterns(list) {
		all[i] = limits.PatternText(p)
	}
	return strings.Join(all, "\n")
}
