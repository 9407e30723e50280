package dashboard

import (
	"math"
	"net/url"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
)

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 12345: "12,345", 1_000_000_000: "1,000,000,000", -1234: "-1,234", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := number(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                         "0 s",
		0:                                    "0 s",
		time.Microsecond:                     "0.1 s",
		3200 * time.Millisecond:              "3.2 s",
		3201 * time.Millisecond:              "3.3 s",
		59900 * time.Millisecond:             "59.9 s",
		59901 * time.Millisecond:             "1 min",
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
		if got := span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, row := range []struct{ used, of, want int64 }{
		{0, 10, 0}, {1, 1_000_000, 1}, {999_999, 1_000_000, 99}, {10, 10, 100}, {12, 10, 100}, {5, 10, 50}, {-1, 10, 0}, {1, 0, 0},
		{limiter.MaxRequests - 1, limiter.MaxRequests, 99},
	} {
		if got := app.Percent(row.used, row.of); got != row.want {
			t.Errorf("%d of %d: %d, want %d", row.used, row.of, got, row.want)
		}
	}
}

func TestFullWords(t *testing.T) {
	for want, limit := range map[string]limiter.Limit{
		"100 per 10 seconds":                                     per(100, 10*time.Second),
		"100 per 10 seconds, denied calls count":                 hammered,
		"5,000 per hour, 2,500 slots":                            coarse,
		"1 per day, denied calls count, 64 slots":                {Requests: 1, Window: 24 * time.Hour, CountDenied: true, Slots: 64},
		"1,000 per calendar month (Europe/Berlin), fixed window": monthly,
		"5 per calendar minute (UTC), fixed window":              {Requests: 5, Algorithm: limiter.FixedWindow, Calendar: limiter.Minute},
		"5 per minute, fixed window":                             {Requests: 5, Algorithm: limiter.FixedWindow, Window: time.Minute},
		"9 per 90 minutes, token bucket":                         {Requests: 9, Algorithm: limiter.TokenBucket, Window: 90 * time.Minute},
	} {
		if got := policydoc.Limit(limit); got != want {
			t.Errorf("%+v: %q, want %q", limit, got, want)
		}
	}
}

// drawLimit draws a valid limit, of every kind.
func drawLimit(t *rapid.T) limiter.Limit {
	l := limiter.Limit{
		Requests:  rapid.Int64Range(1, limiter.MaxRequests).Draw(t, "requests"),
		Window:    time.Duration(rapid.Int64Range(1, int64(limiter.MaxWindow/time.Millisecond)).Draw(t, "window")) * time.Millisecond,
		Algorithm: rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm"),
	}
	switch l.Algorithm {
	case limiter.Log:
		l.CountDenied = rapid.Bool().Draw(t, "count denied")
		l.Slots = rapid.OneOf(rapid.Just(0), rapid.IntRange(limiter.MinSlots, limiter.MaxSlots)).Draw(t, "slots")
	case limiter.FixedWindow:
		l.Calendar = rapid.SampledFrom(append(calendars(), limiter.NoCalendar)).Draw(t, "calendar")
		if l.Calendar != limiter.NoCalendar {
			l.Window, l.Zone = 0, rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin", "Asia/Kolkata"}).Draw(t, "zone")
		}
	case limiter.Counter, limiter.TokenBucket:
	}
	return l
}

// A limit that the page shows is read back as the same limit, by way of a browser.
func TestFormRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := drawLimit(t)
		if err := limit.Validate(); err != nil {
			t.Fatalf("the test drew %+v: %v", limit, err)
		}
		list, err := readLimitList(sent(newLimitList("limits", []limiter.Limit{limit})), "limits")
		if err != nil {
			t.Fatal(err)
		}
		got := list.limits()
		if list.errors() > 0 || len(got) != 1 || got[0] != limit {
			t.Fatalf("%v became %v, %+v", limit, got, list)
		}
	})
}

// sent is what a browser sends of a page that shows the list: a box only if it is
// checked, of a choice only what it offers.
func sent(list limitList) url.Values {
	values := url.Values{}
	for _, row := range list.view("", "").Rows {
		set := func(name, text string) { values.Set(row.Field+"."+name, text) }
		set("requests", row.Requests.Value)
		set("window", row.Window.Value)
		set("zone", row.Zone.Value)
		set("slots", row.Slots.Value)
		if row.Denied.Value != "" {
			set("countDenied", "yes")
		}
		for _, o := range units() {
			if o.Value == row.Unit.Value {
				set("unit", o.Value)
			}
		}
		for _, o := range methods() {
			if o.Value == row.Algorithm.Value {
				set("algorithm", o.Value)
			}
		}
	}
	return values
}

// Text that anybody typed never makes the form panic, nor pass as a limit out of bounds.
func TestFormNeverPassesNonsense(t *testing.T) {
	unitNames := []string{"calendar ", "calendar year"}
	for _, u := range units() {
		unitNames = append(unitNames, u.Value)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9., _+\-ex]{0,25}`), rapid.StringMatching(`[1-9][0-9]{0,4}`), rapid.Just(""))
		form := limitList{rows: []limitInput{{
			requests:    input{text: text.Draw(t, "requests")},
			window:      input{text: text.Draw(t, "window")},
			unit:        input{text: rapid.OneOf(text, rapid.SampledFrom(unitNames)).Draw(t, "unit")},
			algorithm:   input{text: rapid.SampledFrom([]string{"log", "counter", "fixed-window", "", "x"}).Draw(t, "algorithm")},
			zone:        input{text: rapid.OneOf(text, rapid.SampledFrom([]string{"", "UTC", "Local", "Europe/Berlin"})).Draw(t, "zone")},
			slots:       input{text: text.Draw(t, "slots")},
			countDenied: input{text: rapid.SampledFrom([]string{"", "yes"}).Draw(t, "count denied")},
		}}}
		limits := form.limits()
		if form.errors() > 0 {
			return
		}
		for _, l := range limits {
			if err := l.Validate(); err != nil {
				t.Fatalf("%+v passed: %v", form, err)
			}
		}
	})
}
