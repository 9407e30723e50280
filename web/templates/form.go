package templates

import (
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
)

// FormPage is a page with at most one form.
type FormPage struct {
	Page     Page
	Trail    []Choice // links to the pages above
	Heading  string
	Name     string // name of the form's subject, given by a user; may be empty
	Lead     []string
	Secret   *Secret
	Conflict *Conflict
	Preview  *Preview
	Form     *Form // nil for a page without a form
}

// Form is an HTML form.
type Form struct {
	Action  string
	Hidden  []Hidden
	Error   string // error that belongs to no field
	Errors  int    // number of invalid fields
	Warning *Warn  // warnings that sending the form again confirms; nil for none
	Fields  []FormField
	After   []FormField  // fields below the others
	Rare    []RareFields // fields that few set
	Preview bool         // the form has a preview button
	Review  bool         // the preview button is the only one
	Submit  string
	Danger  bool // sending the form is destructive
	Auto    bool // the script sends the form at once, for the next step of a change of many keys
	Cancel  Choice
}

// RareFields are fields that are folded unless one is set or has an error.
type RareFields struct {
	Summary string
	Fields  []FormField
}

// filled reports whether a field is set or has an error. The first option of a choice is its
// default.
func (r RareFields) filled() bool {
	return slices.ContainsFunc(r.Fields, func(f FormField) bool {
		byDefault := len(f.Options) > 0 && f.Options[0].Value == f.Field.Value
		return f.Field.Error != "" || f.Field.Value != "" && !byDefault
	})
}

// Warn warns of harm that a form would do. The field Accepted confirms the warnings.
type Warn struct {
	Texts    []string
	Accepted Hidden
}

// Conflict compares an edit with one that another user saved first.
type Conflict struct {
	Theirs []string
	Yours  []string
	By     string
	Saved  Instant
	Keep   string // address that discards the edit
}

// Preview shows the effects of an edit.
type Preview struct {
	Changes []Change
	Keys    []KeyChanges // of several keys, in place of Changes
	Effects []string     // the first one is beside the buttons
}

// result sums up the preview in a sentence: its first effect, or the number of changes.
func (p *Preview) result() string {
	switch {
	case len(p.Effects) > 0:
		return p.Effects[0]
	case len(p.Changes) == 1:
		return "1 change."
	}
	return strconv.Itoa(len(p.Changes)) + " changes."
}

// more returns the effects that result leaves out.
func (p *Preview) more() []string { return p.Effects[min(1, len(p.Effects)):] }

// KeyChanges is what changes of a key.
type KeyChanges struct {
	Name    string
	Address string
	Changes []Change
}

// Change is a difference between two versions.
type Change struct {
	Of     string // plan, route or group that the difference is in; empty for none
	What   string // with Of
	Before string
	After  string
}

// String returns the difference as one line.
func (c Change) String() string { return c.What + ": " + c.Before + " → " + c.After }

// Secret is a new API key, which is shown once.
type Secret struct {
	Heading string
	Text    string
	Call    string // command line of a first call with it
	Key     string // address of the key's page, which shows its calls
	Advice  []string
}

// FormField is a field with its label.
type FormField struct {
	ID      string // also its name
	Label   string
	Kind    FieldKind
	Options []Option // of a choice
	Hint    string
	Sample  string // placeholder
	Max     string // maximum number of characters
	Rows    string // number of rows of an area; empty for 3
	Field   Field
	Lines   []Line // of an area that is read line by line
	Samples []Line // lines to write in an area; none has an error
	Hidden  Hidden // sent with the field; zero for none
}

// lineErrors reports whether a line has an error.
func (f FormField) lineErrors() bool {
	return slices.ContainsFunc(f.Lines, func(l Line) bool { return l.Error != "" })
}

// FieldKind is the kind of a field's input.
type FieldKind string

// The kinds of fields.
const (
	TextField   FieldKind = "text"
	NumberField FieldKind = "number"
	AreaField   FieldKind = "area"
	ChoiceField FieldKind = "choice"
	CheckField  FieldKind = "check" // checked unless its value is empty
	TimeField   FieldKind = "time"  // a date and a time of day, in UTC
)

// Option is an option of a choice.
type Option struct {
	Value string
	Text  string
	At    Instant // what the option stands for; zero for none
	// Moment is the hour and the weekday of At, from which a script finds the option's instant
	// in the zone shown; empty for a fixed instant.
	Moment string
}

// words is the text of an option with its instant.
func (o Option) words() string {
	if o.At.Machine == "" {
		return o.Text
	}
	return o.Text + ": " + o.At.Text
}

// Field is the typed text of an input, and its error.
type Field struct {
	Value string
	Error string
}

// Hidden is a hidden field.
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
	if f.lineErrors() {
		attributes["aria-invalid"] = "true"
		ids = strings.TrimSpace(ids + " " + f.ID + "-lines")
	}
	if ids != "" {
		attributes["aria-describedby"] = ids
	}
	return attributes
}

// rows returns the number of rows of an area.
func (f FormField) rows() string {
	if f.Rows == "" {
		return "3"
	}
	return f.Rows
}
