package templates

import (
	"strings"

	"github.com/a-h/templ"
)

// invalid returns the attributes that tie a field to its error message.
func invalid(id string, f Field) templ.Attributes {
	if f.Error == "" {
		return nil
	}
	return templ.Attributes{"aria-invalid": "true", "aria-describedby": id + "-error"}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// anyPublished reports whether a ticked box is one of those that stay folded away
// otherwise.
func anyPublished(checks []Check) bool {
	for _, c := range checks {
		if c.Published && c.Checked {
			return true
		}
	}
	return false
}

// described returns the attributes that tie a field to its hint and its error message.
func described(f FormField) templ.Attributes {
	ids := ""
	attributes := templ.Attributes{}
	if f.Hint != "" {
		ids = f.ID + "-hint"
	}
	if f.Field.Error != "" {
		attributes["aria-invalid"] = "true"
		ids = strings.TrimSpace(ids + " " + f.ID + "-error")
	}
	if ids != "" {
		attributes["aria-describedby"] = ids
	}
	return attributes
}

// rows is how high an area is.
func (f FormField) rows() string {
	if f.Rows == "" {
		return "3"
	}
	return f.Rows
}
