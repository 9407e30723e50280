package limits

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Billing says when the billing months of a key or a group begin. The zero value is the
// first day of a month in UTC.
type Billing struct {
	Day  int    `json:"day,omitempty" minimum:"1" maximum:"31" doc:"1 to 31, in shorter months the last day; default 1"`
	Zone string `json:"zone,omitempty" maxLength:"60" example:"Europe/Berlin" doc:"Time zone; default UTC"`
}

// String returns the day and the zone: "15 (Europe/Berlin)", "15"; empty for the zero value.
func (b Billing) String() string {
	if b == (Billing{}) {
		return ""
	}
	text := strconv.Itoa(max(b.Day, 1))
	if b.Zone != "" {
		text += " (" + b.Zone + ")"
	}
	return text
}

// ParseBilling is the inverse of Billing.String.
func ParseBilling(text string) (Billing, error) {
	if text = strings.TrimSpace(text); text == "" {
		return Billing{}, nil
	}
	day, zone, zoned := strings.Cut(text, "(")
	n, err := strconv.Atoi(strings.TrimSpace(day))
	zone, closed := strings.CutSuffix(strings.TrimSpace(zone), ")")
	if err != nil || zoned != closed {
		return Billing{}, fmt.Errorf("is %.60q: write a day of the month such as 15, or 15 (Europe/Berlin)",
			text)
	}
	b := Billing{Day: n, Zone: strings.TrimSpace(zone)}
	if b.Zone == utc {
		b.Zone = ""
	}
	if errs := b.Errors(); len(errs) > 0 {
		return Billing{}, errors.New(errs[0].Message)
	}
	return b, nil
}

// Errors returns what is wrong with a Billing.
func (b Billing) Errors() []FieldError {
	var errs []FieldError
	if b.Day < 0 || b.Day > 31 {
		errs = append(errs, FieldError{"day", fmt.Sprintf("is %d: must be 1 to 31", b.Day)})
	}
	if problem := zoneNameProblem(b.Zone); problem != "" {
		errs = append(errs, FieldError{"zone", problem})
	}
	return errs
}
