package command

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// maxShown bounds the text of a line that a form shows again, in characters.
const maxShown = 4000

// formState is a form as its author typed it.
type formState struct {
	values url.Values
	errors map[string]string // by field, or by item of a list: limits[1]
	other  string            // an error that belongs to no field
}

// read sets the fields of a command to what a form has, and keeps what is wrong.
func (s *formState) read(c Command) {
	for _, f := range fieldsOf(c) {
		var options []string
		for _, o := range optionsOf(c, f) {
			options = append(options, o.Value)
		}
		if err := f.read(s.values, options); err != nil {
			s.errors[f.name] = err.Error()
		}
		if list, isLimits := f.target().(*[]policydoc.Limit); isLimits {
			_, wrong := policydoc.ToLimits(f.name, *list)
			s.refuse(c, &policy.InvalidError{Fields: wrong})
		}
	}
}

// refuse keeps the errors of a validation.
func (s *formState) refuse(c Command, invalid *policy.InvalidError) {
	fields := fieldsOf(c)
	var others []policy.FieldError
next:
	for _, e := range invalid.Fields {
		for _, f := range fields {
			below, found := f.holds(e.Field)
			if !found {
				continue
			}
			at := f.name
			if item, rest, closed := strings.Cut(below, "]"); closed {
				if _, isLimits := f.target().(*[]policydoc.Limit); isLimits {
					at += item + "]"
					s.errors[at] = form.Sentence(strings.TrimPrefix(rest+" "+e.Message, "."))
					continue next
				}
			}
			s.errors[at] = form.Sentence(e.Message)
			if f.name == "reason" && strings.TrimSpace(f.value.String()) == "" {
				s.errors[at] = "Enter a reason, up to 200 characters."
			}
			continue next
		}
		if e.Field == "confirm" {
			s.errors[e.Field] = form.Sentence(e.Message)
			continue
		}
		others = append(others, e)
	}
	if len(others) > 0 {
		s.other = form.Invalid(setOf(c), others)
	}
}

// setOf returns the policy set by whose limits an error is described; nil without one.
func setOf(c Command) *policy.Set {
	if has, ok := c.(interface{ edited() *policy.Set }); ok {
		return has.edited()
	}
	return nil
}

// optionsOf returns what a field may be; nil for anything.
func optionsOf(c Command, f field) []templates.Option {
	if w, ok := c.(interface{ inner() Command }); ok {
		c = w.inner()
	}
	if choices, ok := c.(chooser); ok {
		return choices.options(f.name)
	}
	return nil
}

// show returns the fields of a form: the first ones, those that few set, and the reason.
func (s *formState) show(c Command) (f templates.Form) {
	hides, _ := c.(hider)
	for _, of := range fieldsOf(c) {
		if hides != nil && hides.hides(of.name) && s.errors[of.name] == "" {
			continue
		}
		shown := s.field(of, optionsOf(c, of))
		switch rare := of.tag.Get("rare"); {
		case of.name == "reason":
			f.After = append(f.After, shown...)
		case rare == "":
			f.Fields = append(f.Fields, shown...)
		case len(f.Rare) > 0 && f.Rare[len(f.Rare)-1].Summary == rare:
			last := &f.Rare[len(f.Rare)-1]
			last.Fields = append(last.Fields, shown...)
		default:
			f.Rare = append(f.Rare, templates.RareFields{Summary: rare, Fields: shown})
		}
	}
	f.Error, f.Errors = s.other, len(s.errors)
	return f
}

func (s *formState) field(f field, options []templates.Option) []templates.FormField {
	shown := templates.FormField{ID: f.name, Label: f.tag.Get("label"), Kind: templates.TextField,
		Hint: f.tag.Get("hint"), Sample: f.tag.Get("sample"), Max: strconv.Itoa(cmp.Or(f.longest(), 60_000)),
		Field: templates.Field{Value: s.values.Get(f.name), Error: s.errors[f.name]}}
	if shown.Rows = f.tag.Get("rows"); shown.Rows != "" {
		shown.Kind = templates.AreaField
	}
	switch f.target().(type) {
	case *string:
		if shown.Rows == "" {
			shown.Field.Value = page.Clip(shown.Field.Value, maxShown)
		}
	case *time.Time, **time.Time:
		return f.showTime(s.values, shown.Field.Error)
	case *bool:
		shown.Kind = templates.CheckField
	case *[]policydoc.Limit:
		s.limits(&shown)
	}
	if options != nil {
		shown.Kind, shown.Options = templates.ChoiceField, options
	}
	if f.tag.Get("secret") != "" {
		shown.Field.Value = ""
	}
	return []templates.FormField{shown}
}

// limits says what each line of a list of limits does, or what is wrong with it.
func (s *formState) limits(f *templates.FormField) {
	typed := lines(f.Field.Value)
	f.Kind, f.Rows = templates.AreaField, strconv.Itoa(len(typed)+2)
	f.Sample, f.Samples = "100 per 10 seconds", limitSamples
	for i, text := range typed {
		line := templates.Line{Text: text, Error: s.errors[f.ID+"["+strconv.Itoa(i)+"]"]}
		switch l, err := limits.Parse(text); {
		case line.Error == "" && err == nil:
			line.Meaning = policydoc.Meaning(l)
		case line.Error != "" && err != nil:
			line.Error = form.Sentence(err.Error())
		}
		f.Lines = append(f.Lines, line)
	}
}

var limitSamples = []templates.Line{
	{Text: "100 per 10 seconds", Meaning: "How much, and per what time. Exact: in any 10 seconds."},
	{Text: "10,000 per calendar month (Europe/Berlin)", Meaning: "By the clock of a time zone, or UTC."},
	{Text: "500 calls per minute", Meaning: "Counts calls. Without a unit it counts what calls cost."},
	{Text: "8,000 output per minute", Meaning: "Counts a unit that a route's cost names."},
	{Text: "20 at once, up to 5 minutes", Meaning: "Calls at the same time; a settlement ends one."},
	{Text: "20 per minute, on search", Meaning: "Only calls of a route; except search leaves them out."},
	{Text: "600 per minute, each address",
		Meaning: "For each caller, group, address or {parameter}; or together."},
	{Text: "5 per second, on rooms, each caller and {room}", Meaning: "A count for each value in the path."},
	{Text: "5 per second, token bucket",
		Meaning: "Another algorithm: token bucket, counter or fixed window."},
	{Text: "1,000 per hour, notify at 80/100 %", Meaning: "Alerts when that much is used."},
	{Text: "20 per minute, denied calls count", Meaning: "Denied calls count too."},
	{Text: "100 per minute, shadow", Meaning: "Counts only, and denies nothing."},
}
