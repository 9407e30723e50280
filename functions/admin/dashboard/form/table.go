package form

import (
	"cmp"
	"net/url"
	"strings"

	"tidegate/internal/policy"
)

// Table is the fields of a form: what reads them, counts their errors and shows the errors
// of a validation at them.
type Table []Entry

// Entry is a field of a Table.
type Entry struct {
	Name  string // in the HTML form
	Input *Input
	// Limits is the field in place of Input if it is a list of limits.
	Limits *Limits
	Max    int    // characters that are read; 0 for a field that the form reads itself
	Path   string // in policy.FieldError, below what the form edits; empty if it is Name
}

// Read reads the fields that a browser sent.
func (t Table) Read(values url.Values) {
	for _, e := range t {
		switch {
		case e.Limits != nil:
			e.Limits.read(values, e.Name)
		case e.Max > 0:
			*e.Input = Typed(values, e.Name, e.Max)
		}
	}
}

// ErrorCount returns the number of fields with an error.
func (t Table) ErrorCount() int {
	n := 0
	for _, e := range t {
		if e.Limits != nil {
			n += e.Limits.errorCount()
		} else {
			n += CountErrors(*e.Input)
		}
	}
	return n
}

// SetError sets an error of a validation at the field with its path and reports whether
// there is one. at is the path of what the form edits, with a dot at the end. An error of
// an item belongs to the field of its list.
func (t Table) SetError(of policy.FieldError, at string) bool {
	for _, e := range t {
		path := at + cmp.Or(e.Path, e.Name)
		switch {
		case e.Limits != nil:
			if e.Limits.setError(of, path) {
				return true
			}
		case of.Field == path, strings.HasPrefix(of.Field, path+"["), strings.HasPrefix(of.Field, path+"."):
			e.Input.Error = Sentence(of.Message)
			return true
		}
	}
	return false
}

// SetErrors sets the errors of a validation at their fields. It returns the last error
// without a field, or an empty string.
func (t Table) SetErrors(invalid *policy.InvalidError) (problem string) {
	for _, e := range invalid.Fields {
		if !t.SetError(e, "") {
			problem = e.Field + ": " + Sentence(e.Message)
		}
	}
	return problem
}
