package templates

import (
	"strings"

	"github.com/a-h/templ"
)

// FormField is a field with its label.
type FormField struct {
	ID      string // also its name
	Label   string
	Kind    FieldKind
	Options []Option // of a choice
	Hint    string
	Sample  string // shown while it is empty
	Max     string // characters
	Rows    string // of an area; 3 when it is empty
	Field   Field
	Hidden  Hidden // sent along; without a name none is
}

// FieldKind is how a field is filled in.
type FieldKind string

// The kinds of fields.
const (
	TextField   FieldKind = "text"
	NumberField FieldKind = "number"
	AreaField   FieldKind = "area"
	ChoiceField FieldKind = "choice"
	CheckField  FieldKind = "check" // its value is empty or not
	TimeField   FieldKind = "time"  // a date and a time of day, in UTC
)

// Option is a choice of a select.
type Option struct {
	Value string
	Text  string
	Mark  string // what the preview says of it; empty if nothing
}

// Field is what was typed, and what is wrong with it.
type Field struct {
	Value string
	Error string
}

// Hidden is a field that nobody sees.
type Hidden struct{ Name, Value string }

// invalid returns the attributes that tie a field to its error message.
func invalid(id string, f Field) templ.Attributes {
	if f.Error == "" {
		return nil
	}
	return templ.Attributes{"aria-invalid": "true", "aria-describedby": id + "-error"}
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
