package page

import (
	"strings"
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                         "0 s",
		0:                                    "0 s",
		time.Microsecond:                     "1 s",
		3200 * time.Millisecond:              "4 s",
		3201 * time.Millisecond:              "4 s",
		59900 * time.Millisecond:             "1 min",
		59001 * time.Millisecond:             "1 min",
		time.Minute:                          "1 min",
		time.Minute + time.Millisecond:       "1 min 1 s",
		time.Hour - time.Second:              "59 min 59 s",
		time.Hour - time.Millisecond:         "1 h",
		80 * time.Minute:                     "1 h 20 min",
		24*time.Hour - time.Second:           "1 d",
		76*time.Hour + time.Second:           "3 d 5 h",
		366 * 24 * time.Hour:                 "366 d",
		24*time.Hour - time.Minute:           "23 h 59 min",
		24*time.Hour - 61*time.Second:        "23 h 59 min",
		time.Hour - 1001*time.Millisecond:    "59 min 59 s",
		24*time.Hour + 60*time.Minute:        "1 d 1 h",
		23*time.Hour + 30*time.Minute + 1:    "23 h 31 min",
		59*time.Minute + 58*time.Second + 10: "59 min 59 s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestOffset(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0 s":                   0,
		"1.5 s":                 1500 * time.Millisecond,
		"1 min 1.569927 s":      61569927 * time.Microsecond,
		"2 min":                 2 * time.Minute,
		"3 d 4 h 5 min 0.001 s": 76*time.Hour + 5*time.Minute + time.Millisecond,
	} {
		if got := strings.ReplaceAll(Offset(d), "\u00a0", " "); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
