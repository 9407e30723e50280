package limits

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
)

// Fields is a limit as an object of JSON, or a mapping of a policy file:
// {"requests":30,"unit":"calls","window":"1m","on":"messages","each":"caller and {channel}"}.
// Fields with the zero value are left out.
type Fields struct {
	Requests    int64    `json:"requests,omitempty" minimum:"1" maximum:"1000000000"`
	Unit        string   `json:"unit,omitempty" maxLength:"100" example:"calls" doc:"What is counted: calls, or a unit that a route's cost names. Default: the cost of a call"`
	Window      string   `json:"window,omitempty" maxLength:"40" example:"10s" doc:"1ms to 366d; none with a calendar"`
	Calendar    string   `json:"calendar,omitempty" enum:"minute,hour,day,week,month,year,billing month" doc:"Calendar period in place of a window"`
	Zone        string   `json:"zone,omitempty" maxLength:"60" example:"Europe/Berlin" doc:"Time zone of the calendar; default UTC. A billing month has that of the key or the group"`
	AtOnce      int64    `json:"atOnce,omitempty" minimum:"1" maximum:"1000" doc:"Calls at the same time, in place of requests and window; a settlement ends a call"`
	UpTo        string   `json:"upTo,omitempty" maxLength:"40" example:"5m" doc:"With atOnce: how long a call counts that nobody ends, 1s to 24h; default 30s"`
	On          string   `json:"on,omitempty" maxLength:"800" example:"search" doc:"A route's name, or a pattern; default every call"`
	Except      []string `json:"except,omitempty" maxItems:"10" doc:"Routes or patterns whose calls are left out"`
	Each        string   `json:"each,omitempty" maxLength:"120" example:"address" doc:"For whom it counts apart: caller, group, address, {parameter}, caller and {parameter}, or caller and pattern"`
	Together    bool     `json:"together,omitempty" doc:"All callers together"`
	Algorithm   string   `json:"algorithm,omitempty" enum:"log,counter,token-bucket,fixed-window" doc:"Default: log, which is exact"`
	CountDenied bool     `json:"countDenied,omitempty" doc:"Denied calls count too"`
	Notify      []int    `json:"notify,omitempty" maxItems:"5" example:"[80,100]" doc:"Percentages of the limit at which a call is reported"`
	Shadow      bool     `json:"shadow,omitempty" doc:"Denies nothing: what it would deny is counted"`
	NoLimit     bool     `json:"noLimit,omitempty" doc:"Only in an override: lifts the limits of each caller with the same unit, on, except and parameter"`
}

// gone says what to write instead of fields that a limit no longer has.
var gone = map[string]string{
	"slots":     "is gone: limits to 1,000 are exact; leave it out",
	"mode":      `is gone: write "shadow": true, or leave it out`,
	"counts":    `is gone: write "unit": "calls", or leave it out`,
	"limit":     `is called "requests"`,
	"candidate": `is gone: write a limit with "shadow": true`,
	"lease":     "is gone: leave it out",
	"route":     `is called "on"`,
	"for":       `is called "each"`,
}

// Fields returns the limit as Fields.
func (l Limit) Fields() Fields {
	f := Fields{Requests: l.Requests, Unit: l.Unit, Calendar: l.Calendar.String(), Zone: l.Zone, On: l.On,
		Except: l.Except, Together: l.Who == Together, CountDenied: l.CountDenied, Notify: l.Notify,
		Shadow: l.Shadow, NoLimit: l.Lifted}
	switch {
	case l.AtOnce:
		f.AtOnce, f.Requests, f.Unit = l.Requests, 0, ""
		if l.Window != DefaultUpTo && !l.Lifted {
			f.UpTo = ShortWindow(l.Window)
		}
		if l.Lifted {
			f.Unit = atOnceUnit
		}
	case l.Window != 0:
		f.Window = ShortWindow(l.Window)
	}
	if l.Algorithm != limiter.Log && l.Calendar == calendar.None {
		f.Algorithm = l.Algorithm.String()
	}
	if l.Who != Together {
		f.Each = strings.TrimPrefix(l.For(), eachWord)
	}
	return f
}

// Limit is the inverse of Limit.Fields. It returns an error for each field that cannot be
// parsed; Limit.Errors checks bounds.
func (f Fields) Limit() (Limit, []FieldError) {
	l := Limit{Requests: f.Requests, Zone: f.Zone, CountDenied: f.CountDenied, Notify: slices.Clone(f.Notify),
		Shadow: f.Shadow, Lifted: f.NoLimit}
	var errs []FieldError
	add := func(field string, err error) {
		if err != nil {
			errs = append(errs, FieldError{field, err.Error()})
		}
	}
	var err error
	if f.AtOnce != 0 || f.UpTo != "" || f.NoLimit && strings.EqualFold(f.Unit, atOnceUnit) {
		add("upTo", f.atOnce(&l))
	}
	if l.AtOnce {
		l.Unit = Calls
	} else if l.Unit = f.Unit; strings.EqualFold(f.Unit, "call") || strings.EqualFold(f.Unit, Calls) {
		l.Unit = Calls
	} else if requestWords[strings.ToLower(f.Unit)] {
		add("unit", fmt.Errorf("is %q: write calls, which counts each call as 1, or leave it out", f.Unit))
		l.Unit = Cost
	}
	if f.Window != "" {
		l.Window, err = ParseWindow(f.Window)
		add("window", err)
	}
	if f.Algorithm != "" {
		l.Algorithm, err = parseAlgorithm(f.Algorithm)
		add("algorithm", err)
	}
	if f.Calendar != "" {
		l.Calendar, err = calendar.Parse(strings.ToLower(f.Calendar))
		add("calendar", err)
		if f.Algorithm == "" {
			l.Algorithm = limiter.FixedWindow
		}
	}
	if l.Zone == utc {
		l.Zone = ""
	}
	if f.On != "" {
		l.On, err = parseOn(f.On)
		add("on", err)
	}
	for i, text := range f.Except {
		read, err := parseOn(text)
		add(fmt.Sprintf("except[%d]", i), err)
		l.Except = append(l.Except, read)
	}
	slices.Sort(l.Except)
	switch {
	case f.Together && f.Each != "":
		add("each", errors.New("is beside together: leave out one of the two"))
	case f.Together:
		l.Who = Together
	case f.Each != "":
		l.Who, l.Param, err = parseWho(strings.TrimPrefix(f.Each, eachWord))
		add("each", err)
	}
	return l, errs
}

// atOnceUnit is the unit of noLimit that lifts a limit of calls at once.
const atOnceUnit = "at once"

// atOnce sets a limit of calls at once.
func (f Fields) atOnce(l *Limit) error {
	switch {
	case f.NoLimit:
		l.AtOnce = true
		return nil
	case f.AtOnce == 0:
		return errors.New("is set without atOnce: leave it out")
	case f.Requests != 0 || f.Window != "" || f.Calendar != "":
		return errors.New("and atOnce stand in place of requests, window and calendar: leave these out")
	case f.Unit != "" && !strings.EqualFold(f.Unit, Calls):
		return errors.New("and atOnce count calls: leave out unit")
	}
	l.AtOnce, l.Requests, l.Window = true, f.AtOnce, DefaultUpTo
	if f.UpTo == "" {
		return nil
	}
	var err error
	l.Window, err = ParseWindow(f.UpTo)
	return err
}

func parseAlgorithm(name string) (limiter.Algorithm, error) {
	for a, words := range algorithms {
		if strings.EqualFold(name, words) || strings.EqualFold(name, limiter.Algorithm(a).String()) {
			return limiter.Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("is %.40q: must be one of log, counter, token-bucket, fixed-window", name)
}

// MarshalJSON encodes the limit as its Fields.
func (l Limit) MarshalJSON() ([]byte, error) { return json.Marshal(l.Fields()) }

// UnmarshalJSON decodes a limit in words or as Fields. Its error names the field.
func (l *Limit) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		read, err := Parse(text)
		*l = read
		return err
	}
	var f Fields
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return fieldsProblem(err)
	}
	read, errs := f.Limit()
	*l = read
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// fieldsProblem says what to write instead of an unknown field.
func fieldsProblem(err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !unknown {
		return err
	}
	return UnknownField(strings.Trim(name, `"`))
}

// UnknownField returns the error of a field that a limit does not have.
func UnknownField(name string) error {
	if problem := gone[name]; problem != "" {
		return FieldError{name, problem}
	}
	if strings.Trim(name, "0123456789") == "" {
		return FieldError{name, "is part of a number with a comma: write 1000, " +
			"or the limit as a text in quotes"}
	}
	if name == "true" {
		return FieldError{name, `is how some programs read the key on: write "on" in quotes`}
	}
	return FieldError{name, "is not a field of a limit"}
}
