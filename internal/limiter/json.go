package limiter

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Text is a Limit in JSON and YAML: {"requests": 100, "window": "10s"}. The stored
// policies, the API and policy files have it. What has its zero value is left out.
type Text struct {
	Requests    int64  `json:"requests" yaml:"requests" minimum:"1" maximum:"1000000000"`
	Window      string `json:"window,omitempty" yaml:"window,omitempty" maxLength:"40" example:"10s" doc:"1ms to 366d; none with a calendar"`
	Algorithm   string `json:"algorithm,omitempty" yaml:"algorithm,omitempty" enum:"log,counter,token-bucket,fixed-window" doc:"log, which is exact, when it is left out"`
	CountDenied bool   `json:"countDenied,omitempty" yaml:"countDenied,omitempty" doc:"Denied calls count too; log only, not on limits that callers share"`
	Slots       int    `json:"slots,omitempty" yaml:"slots,omitempty" minimum:"64" maximum:"100000" doc:"Bounds the memory of a log"`
	Calendar    string `json:"calendar,omitempty" yaml:"calendar,omitempty" enum:"minute,hour,day,week,month,year" doc:"Periods of the calendar in place of a window; fixed-window only"`
	Zone        string `json:"zone,omitempty" yaml:"zone,omitempty" maxLength:"60" example:"Europe/Berlin" doc:"Time zone of the calendar; UTC when it is left out"`

	Notify []int  `json:"notify,omitempty" yaml:"notify,omitempty,flow" maxItems:"5" example:"[80,100]" doc:"Percentages of the limit: a call that reaches one is reported; none with a lease, a candidate, countDenied or a window below a minute"`
	Mode   string `json:"mode,omitempty" yaml:"mode,omitempty" enum:"enforce,shadow" doc:"shadow counts what the limit would deny and denies nothing; enforce when it is left out"`
}

// The modes of a limit in a Text.
const (
	enforceMode = "enforce"
	shadowMode  = "shadow"
)

// Text returns the limit with its window as ShortWindow writes it and its algorithm by
// name.
func (l Limit) Text() Text {
	text := Text{Requests: l.Requests, CountDenied: l.CountDenied, Slots: l.Slots,
		Calendar: l.Calendar.String(), Zone: l.Zone, Notify: l.Notify.Percents()}
	if l.Window != 0 {
		text.Window = ShortWindow(l.Window)
	}
	if l.Algorithm != Log {
		text.Algorithm = l.Algorithm.String()
	}
	if l.Shadow {
		text.Mode = shadowMode
	}
	return text
}

// Limit is the inverse of Text. It returns an error for each field that cannot be read,
// and leaves bounds to Errors.
func (t Text) Limit() (Limit, []FieldError) {
	l := Limit{Requests: t.Requests, CountDenied: t.CountDenied, Slots: t.Slots, Zone: t.Zone,
		Notify: NewThresholds(t.Notify)}
	var errs []FieldError
	add := func(field string, err error) {
		if err != nil {
			errs = append(errs, FieldError{field, err.Error()})
		}
	}
	var err error
	if t.Window != "" {
		l.Window, err = ParseWindow(t.Window)
		add("window", err)
	}
	if t.Algorithm != "" {
		l.Algorithm, err = ParseAlgorithm(t.Algorithm)
		add("algorithm", err)
	}
	l.Calendar, err = ParseCalendar(t.Calendar)
	add("calendar", err)
	if l.Shadow = t.Mode == shadowMode; !l.Shadow && t.Mode != "" && t.Mode != enforceMode {
		add("mode", fmt.Errorf("mode %.20q is not one of enforce, shadow", t.Mode))
	}
	return l, errs
}

// storedShadow is a limit in shadow mode as it is stored. Releases that would enforce it
// read a limit of 0 requests, which they neither use nor save.
type storedShadow struct {
	Shadow *Text `json:"shadow"`
}

// MarshalJSON writes the limit as its Text, in shadow mode in a storedShadow.
func (l Limit) MarshalJSON() ([]byte, error) {
	text := l.Text()
	if l.Shadow {
		text.Mode = ""
		return json.Marshal(storedShadow{&text})
	}
	return json.Marshal(text)
}

// UnmarshalJSON is the inverse of MarshalJSON. It reads any Text, refuses what cannot be
// read, and leaves bounds to Validate.
func (l *Limit) UnmarshalJSON(data []byte) error {
	var stored struct {
		Text
		storedShadow
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	text := stored.Text
	if stored.Shadow != nil {
		text = *stored.Shadow
		text.Mode = shadowMode
	}
	read, fieldErrors := text.Limit()
	if len(fieldErrors) > 0 {
		return errors.New(fieldErrors[0].Message)
	}
	*l = read
	return nil
}
