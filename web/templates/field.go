package templates

import "github.com/a-h/templ"

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
