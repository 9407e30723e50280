package command

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// wrong is a sentence that says what to do about a field.
type wrong string

// Error implements error.
func (w wrong) Error() string { return string(w) }

// field is a field of a command that a form shows: one with a label. Its tags are
//
//	json, query, field    its name; field is for what JSON does not have
//	label, hint, sample   what a form says of it
//	most                  characters of its text in a form, if it is not one in JSON
//	minLength, maxLength, minimum, maximum, enum   bounds; the schema has them too
//	missing               what to do without a value, if it needs one
//	rows                  of a text that has several lines
//	rare                  the heading under which a form folds it
//	never, begins         of a time: the option for none, the first choice
//	at                    where package policy finds it in what the command changes
type field struct {
	name  string
	in    string // body or query
	tag   reflect.StructTag
	value reflect.Value
}

// fieldsOf returns the fields of a command.
func fieldsOf(c Command) []field {
	if w, ok := c.(interface{ inner() Command }); ok {
		c = w.inner()
	}
	return walk(reflect.ValueOf(c).Elem(), "")
}

func walk(v reflect.Value, in string) []field {
	var all []field
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		if !f.IsExported() {
			continue
		}
		if value.Kind() == reflect.Pointer && f.Name == "Body" {
			if value.IsNil() {
				value.Set(reflect.New(value.Type().Elem()))
			}
			value = value.Elem()
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case in == "" && f.Name == "Body":
			all = append(all, walk(value, "body")...)
		case f.Anonymous && f.Tag.Get("label") == "" && value.Kind() == reflect.Struct:
			all = append(all, walk(value, in)...)
		case f.Tag.Get("label") == "":
		case in == "body" && name != "":
			all = append(all, field{name, in, f.Tag, value})
		case f.Tag.Get("query") != "":
			all = append(all, field{f.Tag.Get("query"), "query", f.Tag, value})
		default:
			all = append(all, field{f.Tag.Get("field"), "body", f.Tag, value})
		}
	}
	return all
}

// reasonOf returns the reason in a command; empty without one.
func reasonOf(c Command) string {
	for _, f := range fieldsOf(c) {
		if f.name == "reason" {
			return f.value.String()
		}
	}
	return ""
}

// inFields names invalid fields as the command does.
func inFields(c Command, err error) error {
	invalid, ok := errors.AsType[*policy.InvalidError](err)
	if !ok {
		return err
	}
	named := make([]policy.FieldError, len(invalid.Fields))
	for i, e := range invalid.Fields {
		named[i] = e
		for _, f := range fieldsOf(c) {
			if rest, found := f.holds(e.Field); found {
				named[i].Field = f.name + rest
				break
			}
		}
	}
	return policy.Invalid(named)
}

// holds reports whether the field has a path, and returns the path below it.
func (f field) holds(path string) (rest string, found bool) {
	for at := range strings.SplitSeq(f.name+","+f.tag.Get("at"), ",") {
		rest, found := strings.CutPrefix(path, at)
		if at != "" && found && (rest == "" || rest[0] == '[' || rest[0] == '.') {
			return rest, true
		}
	}
	return "", false
}

// number returns the number in a tag; 0 without one.
func (f field) number(tag string) int {
	n, err := strconv.Atoi(f.tag.Get(tag))
	if err != nil {
		return 0
	}
	return n
}

// perLimit is how many characters a limit of a form may have, on average.
const perLimit = 250

// longest returns how many characters a form takes for the field; 0 for any number.
func (f field) longest() int {
	if _, ok := f.target().(*[]policydoc.Limit); ok {
		return f.number("maxItems") * perLimit
	}
	return max(f.number("maxLength"), f.number("most"))
}

// optional is a value that a request may omit.
type optional interface {
	given() any
	clear()
}

// target is the pointer to the value of the field, which the form sets.
func (f field) target() any {
	to := f.value.Addr().Interface()
	if o, ok := to.(optional); ok {
		return o.given()
	}
	return to
}

// read sets the field to what a form has. Its error says what to do.
func (f field) read(v url.Values, options []string) error {
	text := strings.ToValidUTF8(v.Get(f.name), "\u202e") // no field accepts this character
	if longest := f.longest(); longest > 0 && utf8.RuneCountInString(text) > longest {
		return wrong("Use at most " + page.Number(int64(longest)) + " characters.")
	}
	switch to := f.target().(type) {
	case *time.Time:
		err := f.readTime(v, to)
		if o, ok := f.value.Addr().Interface().(optional); ok && to.IsZero() {
			o.clear()
		}
		return err
	case **time.Time:
		var t time.Time
		if err := f.readTime(v, &t); err != nil {
			return err
		}
		if *to = nil; !t.IsZero() {
			*to = &t
		}
		return nil
	case *string:
		return f.readText(text, to, options)
	case *policy.Degraded:
		*to = policy.Degraded(text)
		return f.readText(text, new(string), options)
	case *[]byte:
		*to = []byte(text)
	case *bool:
		*to = text != ""
	case *int:
		return f.readNumber(text, to)
	case *[]string:
		*to = words(text, f.tag.Get("list"))
	case *[]policydoc.Limit:
		*to = nil
		for _, line := range lines(text) {
			var l policydoc.Limit
			_ = json.Unmarshal(quoted(line), &l) // keeps what is wrong
			*to = append(*to, l)
		}
	case *[]policydoc.Pattern:
		list, err := patterns(text)
		*to = list
		return err
	case *policydoc.Patterns:
		list, err := patterns(text)
		*to = list
		return err
	case *limits.Billing:
		b, err := limits.ParseBilling(text)
		if *to = b; err == nil && b.Day == 0 && strings.TrimSpace(text) != "" {
			return wrong("Enter a day from 1 to 31.")
		}
		if err != nil {
			return wrong("The billing day " + err.Error() + ".")
		}
	case **policydoc.Cost:
		return readCost(text, to)
	default:
		panic("a form cannot have the field " + f.name)
	}
	return nil
}

func (f field) readText(text string, to *string, options []string) error {
	if f.tag.Get("secret") != "" {
		text = strings.TrimSpace(text)
	}
	*to = text
	switch {
	case options != nil:
		if !slices.Contains(options, text) {
			return wrong(chooseFromList)
		}
	case f.number("minLength") > 0 && strings.TrimSpace(text) == "":
		return wrong("Enter a " + strings.ToLower(f.tag.Get("label")) + ", up to " +
			strconv.Itoa(f.longest()) + " characters.")
	}
	return nil
}

var (
	ungrouped = regexp.MustCompile(`^[0-9]+$`)
	grouped   = regexp.MustCompile(`^[0-9]{1,3}([,_ \x{a0}\x{2009}\x{202f}][0-9]{3})+$`)
)

// whole returns a typed whole number, which may have separators between thousands.
func whole(text string) (int64, error) {
	if text = strings.TrimSpace(text); !ungrouped.MatchString(text) && !grouped.MatchString(text) {
		return 0, wrong("Enter a whole number, such as 100 or 1,000.")
	}
	digits := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, text)
	return strconv.ParseInt(digits, 10, 64)
}

func (f field) readNumber(text string, to *int) error {
	if *to = 0; strings.TrimSpace(text) == "" {
		return nil
	}
	n, err := whole(text)
	if least, most := int64(f.number("minimum")),
		int64(f.number("maximum")); err == nil && (n < least || n > most) {
		err = wrong("Must be " + page.Number(least) + " to " + page.Number(most) + ".")
	}
	*to = int(n)
	return err
}

// words returns the parts of a typed list without blank ones: tags, which commas separate,
// networks, where an address is a network of its own, or words.
func words(text, list string) []string {
	switch list {
	case "tags":
		var tags []string
		for tag := range strings.SplitSeq(text, ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				tags = append(tags, tag)
			}
		}
		return tags
	case "networks":
		all := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ';' || c <= ' ' })
		for i, word := range all {
			if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" {
				a = a.Unmap()
				all[i] = netip.PrefixFrom(a, a.BitLen()).String()
			}
		}
		return all
	}
	return strings.Fields(text)
}

// lines returns the lines that are not blank.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// quoted returns a text as JSON.
func quoted(text string) []byte {
	all, err := json.Marshal(text)
	if err != nil {
		panic(err) // texts always marshal
	}
	return all
}

const maxQuoted = 50 // characters of an item that an error quotes

func patterns(text string) ([]policydoc.Pattern, error) {
	var all []policydoc.Pattern
	for _, line := range lines(text) {
		p, err := route.Parse(line)
		if err != nil {
			return nil, wrong(
				"“" + page.Clip(line, maxQuoted) + "”: " + page.Clip(err.Error(), page.MaxName) + ".",
			)
		}
		all = append(all, policydoc.Pattern(p))
	}
	return all, nil
}
