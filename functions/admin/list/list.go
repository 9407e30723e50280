// Package list owns what every list of the admin function has, whoever asks for it: a query
// in a struct with tags, pages with a cursor, and rows as CSV. Package app answers queries,
// the API declares them as operations, and package table shows them. It must know no list.
package list

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Page is a page of a list, as the API answers it.
type Page[T any] struct {
	Items []T      `json:"items"`
	Notes []string `json:"notes,omitempty" doc:"What the list leaves out, in words"`
	Next  string   `json:"next,omitempty" doc:"Value of after for the next page; absent on the last page. Other pages can be short too"`
}

// Of returns a page whose items are those of from, each converted; never nil.
func Of[S, T any](from []S, next string, convert func(*S) T) Page[T] {
	items := make([]T, len(from))
	for i := range from {
		items[i] = convert(&from[i])
	}
	return Page[T]{Items: items, Next: next}
}

// Paging is the part of a query that selects a page.
type Paging struct {
	After string `query:"after" maxLength:"1000" doc:"The value of next on the previous page"`
	Count int    `query:"count" minimum:"1" maximum:"500" default:"50"`
}

// Place returns the paging itself, for what handles any query.
func (p *Paging) Place() *Paging { return p }

// Query is a pointer to a struct that embeds Paging. Its fields have the tags of package
// huma: query, enum, maxLength, minimum, maximum, default and doc.
type Query interface{ Place() *Paging }

// Period is the part of a query that selects a time: from and to, or a named range.
type Period struct {
	From  time.Time `query:"from" doc:"Only what happened at or after this time"`
	To    time.Time `query:"to" doc:"Only what happened before this time"`
	Range string    `query:"range" enum:"1h,24h,7d,today,yesterday" doc:"In place of from and to; days are in UTC"`
}

// Span of a day, and the names of ranges that are whole days in UTC.
const (
	day       = 24 * time.Hour
	Today     = "today"
	Yesterday = "yesterday"
)

// Day returns the bounds of the day that a range names, up to now. It reports false for
// other names.
func Day(name string, now time.Time) (from, to time.Time, ok bool) {
	midnight := now.UTC().Truncate(day)
	switch name {
	case Today:
		return midnight, now, true
	case Yesterday:
		return midnight.Add(-day), midnight, true
	}
	return from, to, false
}

// Bounds returns the beginning and the end of the period at a time. Either is zero if it
// has none.
func (p *Period) Bounds(now time.Time) (from, to time.Time, err error) {
	switch {
	case !p.From.IsZero() || !p.To.IsZero():
		if p.Range = ""; !p.To.IsZero() && !p.From.Before(p.To) {
			return from, to, &InvalidError{Name: "to", Message: "must be after from"}
		}
		return p.From, p.To, nil
	case p.Range == Today: // with what happens meanwhile
		from, _, _ = Day(p.Range, now)
		return from, to, nil
	case p.Range == Yesterday:
		from, to, _ = Day(p.Range, now)
		return from, to, nil
	case p.Range == "1h":
		return now.Add(-time.Hour), to, nil
	case p.Range == "24h":
		return now.Add(-day), to, nil
	case p.Range == "7d":
		return now.Add(-7 * day), to, nil
	}
	return from, to, nil
}

// InvalidError is a parameter of a query that has no such value.
type InvalidError struct {
	Name, Message string
	Secret        bool // the value is a secret: never show it
}

func (e *InvalidError) Error() string { return "list: " + e.Name + " " + e.Message }

// ErrCursor is the error of a cursor that no page has had.
var ErrCursor = &InvalidError{Name: "after",
	Message: "is not a position in this list: start from the first page"}

// fieldsOf returns the fields of a query by their parameters, in the order of the struct.
func fieldsOf(query any) (value reflect.Value, fields []reflect.StructField) {
	value = reflect.ValueOf(query).Elem()
	for _, f := range reflect.VisibleFields(value.Type()) {
		if f.Tag.Get("query") != "" {
			fields = append(fields, f)
		}
	}
	return value, fields
}

// Read reads a query from the parameters of an address. It ignores others, as links may
// have them.
func Read[Q any](values url.Values) (*Q, error) {
	query := new(Q)
	into, fields := fieldsOf(query)
	for _, f := range fields {
		name := f.Tag.Get("query")
		text := strings.TrimSpace(values.Get(name))
		if text == "" {
			text = f.Tag.Get("default")
		}
		if message := set(into.FieldByIndex(f.Index), text, f.Tag); message != "" {
			return query, &InvalidError{Name: name, Message: message}
		}
	}
	return query, nil
}

// set sets a field, or returns what is wrong with the text.
func set(field reflect.Value, text string, tag reflect.StructTag) string {
	if text == "" {
		return ""
	}
	switch to := field.Addr().Interface().(type) {
	case *string:
		if most, err := strconv.Atoi(tag.Get("maxLength")); err == nil &&
			utf8.RuneCountInString(text) > most {
			return fmt.Sprintf("must have at most %d characters", most)
		}
		if all := tag.Get("enum"); all != "" && !slices.Contains(strings.Split(all, ","), text) {
			return "must be one of " + strings.ReplaceAll(all, ",", ", ")
		}
		*to = text
	case *int:
		least, _ := strconv.Atoi(tag.Get("minimum"))
		most, _ := strconv.Atoi(tag.Get("maximum"))
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Sprintf("must be a number from %d to %d", least, most)
		}
		*to = n
	case *time.Time:
		at, err := ParseInstant(text)
		if err != nil {
			return "must be a date and a time, such as 2026-11-21T00:13"
		}
		*to = at.UTC()
	default:
		panic(fmt.Sprintf("list: a query has a parameter of type %T", to))
	}
	return ""
}

// Values returns the parameters of a query without its place, for the links of a page.
func Values[Q any](query *Q) url.Values {
	values := url.Values{}
	from, fields := fieldsOf(query)
	for _, f := range fields {
		name := f.Tag.Get("query")
		switch v := from.FieldByIndex(f.Index).Interface().(type) {
		case string:
			if v != "" && v != f.Tag.Get("default") && name != "after" {
				values.Set(name, v)
			}
		case time.Time:
			if !v.IsZero() {
				values.Set(name, v.Format(time.RFC3339))
			}
		}
	}
	return values
}

// ParseInstant parses a time of an address or a form: RFC 3339, or UTC without a zone,
// with or without seconds.
func ParseInstant(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Parse(time.RFC3339, text)
}
