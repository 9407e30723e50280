package limiter

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// limitText is a Limit in JSON and YAML: {"requests": 100, "window": "10s"}. What has its
// zero value is left out.
type limitText struct {
	Requests    int64  `json:"requests"`
	Window      string `json:"window,omitempty"`
	Algorithm   string `json:"algorithm,omitempty"`
	CountDenied bool   `json:"countDenied,omitempty"`
	Slots       int    `json:"slots,omitempty"`
	Calendar    string `json:"calendar,omitempty"`
	Zone        string `json:"zone,omitempty"`
}

// MarshalJSON writes the window as ShortWindow does and the algorithm by name.
func (l Limit) MarshalJSON() ([]byte, error) {
	text := limitText{Requests: l.Requests, CountDenied: l.CountDenied, Slots: l.Slots, Zone: l.Zone}
	if l.Window != 0 {
		text.Window = ShortWindow(l.Window)
	}
	if l.Algorithm != Log {
		text.Algorithm = l.Algorithm.String()
	}
	if l.Calendar != NoCalendar {
		text.Calendar = l.Calendar.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON is the inverse of MarshalJSON. It refuses what cannot be read, and leaves
// bounds to Validate.
func (l *Limit) UnmarshalJSON(data []byte) (err error) {
	var text limitText
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*l = Limit{Requests: text.Requests, CountDenied: text.CountDenied, Slots: text.Slots, Zone: text.Zone}
	if text.Window != "" {
		if l.Window, err = ParseWindow(text.Window); err != nil {
			return err
		}
	}
	if text.Algorithm != "" {
		if l.Algorithm, err = ParseAlgorithm(text.Algorithm); err != nil {
			return err
		}
	}
	if text.Calendar != "" {
		l.Calendar, err = ParseCalendar(text.Calendar)
	}
	return err
}

// ShortWindow returns a window as ParseWindow reads it: "10s", "1h", "30d", "250ms".
func ShortWindow(w time.Duration) string {
	if w%time.Millisecond != 0 || w < time.Millisecond {
		return w.String()
	}
	count, unit := SplitWindow(w)
	if unit == "millisecond" {
		return strconv.FormatInt(count, 10) + "ms"
	}
	return strconv.FormatInt(count, 10) + unit[:1]
}

// ParseWindow reads a window: a whole number of d, or what time.ParseDuration takes
// ("10s", "1h30m").
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
