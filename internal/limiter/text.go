package limiter

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// windowUnits are the units of a window, longest first.
var windowUnits = []struct {
	name string
	size time.Duration
}{
	{"day", 24 * time.Hour},
	{"hour", time.Hour},
	{"minute", time.Minute},
	{"second", time.Second},
	{"millisecond", time.Millisecond},
}

// splitWindow returns the window as a count of the longest unit that divides it: 90,
// "second" for 90 seconds, and 2, "minute" for 120 seconds.
func splitWindow(w time.Duration) (count int64, unit string) {
	for _, u := range windowUnits {
		if w >= u.size && w%u.size == 0 {
			return int64(w / u.size), u.name
		}
	}
	return int64(w / time.Millisecond), "millisecond"
}

// JoinWindow is the inverse of splitWindow. unit may be plural. It returns an error for
// an unknown unit or a window that is out of bounds for a Limit.
func JoinWindow(count int64, unit string) (time.Duration, error) {
	for _, u := range windowUnits {
		if unit != u.name && unit != u.name+"s" {
			continue
		}
		if count < 1 || count > int64(MaxWindow/u.size) {
			return 0, fmt.Errorf("window is %d %ss: must be 1 millisecond to 366 days", count, u.name)
		}
		return time.Duration(count) * u.size, nil
	}
	names := make([]string, len(windowUnits))
	for i, u := range windowUnits {
		names[i] = u.name
	}
	return 0, fmt.Errorf("unit %q is not one of %s", unit, strings.Join(names, ", "))
}

// FormatWindow returns a window in words: "10 seconds", "1 hour". A window that is not
// whole milliseconds is formatted as a time.Duration.
func FormatWindow(w time.Duration) string {
	if w < time.Millisecond || w%time.Millisecond != 0 {
		return w.String()
	}
	count, unit := splitWindow(w)
	if count == 1 {
		return "1 " + unit
	}
	return strconv.FormatInt(count, 10) + " " + unit + "s"
}

// ShortWindow formats a window as ParseWindow parses it: "10s", "1h", "30d", "250ms".
func ShortWindow(w time.Duration) string {
	if w%time.Millisecond != 0 || w < time.Millisecond {
		return w.String()
	}
	count, unit := splitWindow(w)
	if unit == "millisecond" {
		return strconv.FormatInt(count, 10) + "ms"
	}
	return strconv.FormatInt(count, 10) + unit[:1]
}

// ParseWindow parses a window: a whole number of days ("30d"), or any text that
// time.ParseDuration accepts ("10s", "1h30m").
func ParseWindow(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 1 || n > int64(MaxWindow/(24*time.Hour)) {
			return 0, fmt.Errorf("window %.40q: days must be a whole number, 1d to 366d", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	w, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("window %.40q: must be a number and ms, s, m, h or d, such as 10s", text)
	}
	return w, nil
}

// Text is a Limit in JSON and YAML: {"requests": 100, "window": "10s"}. Stored policies,
// the API and policy files use it. Fields with the zero value are left out.
type Text struct {
	Requests    int64  `json:"requests" yaml:"requests" minimum:"1" maximum:"1000000000"`
	Window      string `json:"window,omitempty" yaml:"window,omitempty" maxLength:"40" example:"10s" doc:"1ms to 366d; none with a calendar"`
	Algorithm   string `json:"algorithm,omitempty" yaml:"algorithm,omitempty" enum:"log,counter,token-bucket,fixed-window" doc:"Default: log, which is exact"`
	Counts      string `json:"counts,omitempty" yaml:"counts,omitempty" enum:"cost,calls" doc:"Default: cost. calls counts each call as 1, whatever it costs"`
	CountDenied bool   `json:"countDenied,omitempty" yaml:"countDenied,omitempty" doc:"Denied calls count too; only with the algorithm log, not for shared limits"`
	Slots       int    `json:"slots,omitempty" yaml:"slots,omitempty" minimum:"64" maximum:"100000" doc:"Bounds the memory of the algorithm log"`
	Calendar    string `json:"calendar,omitempty" yaml:"calendar,omitempty" enum:"minute,hour,day,week,month,year" doc:"Calendar period in place of a window; only with fixed-window"`
	Zone        string `json:"zone,omitempty" yaml:"zone,omitempty" maxLength:"60" example:"Europe/Berlin" doc:"Time zone of the calendar; default UTC"`

	Notify []int  `json:"notify,omitempty" yaml:"notify,omitempty,flow" maxItems:"5" example:"[80,100]" doc:"Percentages of the limit at which a call is reported; not with a lease, a candidate, countDenied or a window below a minute"`
	Mode   string `json:"mode,omitempty" yaml:"mode,omitempty" enum:"enforce,shadow" doc:"Default: enforce. shadow counts what the limit would deny and denies nothing"`
}

// The modes of a limit in a Text.
const (
	enforceMode = "enforce"
	shadowMode  = "shadow"
)

// What a limit in a Text counts.
const (
	countsCost  = "cost"
	countsCalls = "calls"
)

// Text returns the limit as a Text, with its window as ShortWindow formats it.
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
	if l.Calls {
		text.Counts = countsCalls
	}
	return text
}

// Limit is the inverse of Limit.Text. It returns an error for each field that cannot be
// parsed, and leaves bounds to Limit.Errors.
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
	if l.Calls = t.Counts == countsCalls; !l.Calls && t.Counts != "" && t.Counts != countsCost {
		add("counts", fmt.Errorf("counts %.20q is not one of cost, calls", t.Counts))
	}
	return l, errs
}

// MarshalJSON encodes the limit as its Text.
func (l Limit) MarshalJSON() ([]byte, error) { return json.Marshal(l.Text()) }

// UnmarshalJSON decodes a Text. It returns an error for the first field that cannot be
// parsed, and leaves bounds to Validate.
func (l *Limit) UnmarshalJSON(data []byte) error {
	var text Text
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	read, fieldErrors := text.Limit()
	if len(fieldErrors) > 0 {
		return errors.New(fieldErrors[0].Message)
	}
	*l = read
	return nil
}
