package form

import (
	"fmt"
	"strconv"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Field shows an input as it was typed.
func Field(in Input) templates.Field { return templates.Field{Value: in.Text, Error: in.Error} }

// ChoiceField asks for one of the options.
func ChoiceField(name, label string, options []templates.Option, in Input) templates.FormField {
	return templates.FormField{
		ID: name, Label: label, Kind: templates.ChoiceField, Options: options, Field: Field(in),
	}
}

// TextField asks for a line of at most that many characters.
func TextField(name, label, sample string, most int, in Input) templates.FormField {
	return templates.FormField{
		ID: name, Label: label, Kind: templates.TextField, Sample: sample, Max: strconv.Itoa(most),
		Field: clipped(in),
	}
}

// maxShown bounds the characters of a field that are sent back.
const maxShown = 4000

// clipped is a field whose text may hold what must not be shown as it is.
func clipped(in Input) templates.Field {
	return templates.Field{Value: page.Clip(in.Text, maxShown), Error: in.Error}
}

// ReasonField asks for the reason of a change.
func ReasonField(in Input) templates.FormField {
	return TextField("reason", "Reason", "why, with a link", policy.MaxReasonLen, in)
}

// MaxPrefixText bounds a typed list of networks; all fit.
const MaxPrefixText = 30_000

// AreaField asks for a list of networks.
func AreaField(name, label, hint string, in Input) templates.FormField {
	return templates.FormField{ID: name, Label: label, Kind: templates.AreaField, Hint: hint,
		Sample: "203.0.113.0/24",
		Max:    fmt.Sprint(MaxPrefixText), Field: Field(in)}
}
