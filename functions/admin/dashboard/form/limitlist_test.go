package form

import (
	"net/url"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// drawLimit draws a valid limit of any kind.
func drawLimit(t *rapid.T) limiter.Limit {
	l := limiter.Limit{
		Requests: rapid.Int64Range(1, limiter.MaxRequests).Draw(t, "requests"),
		Window: time.Duration(rapid.Int64Range(1, int64(limiter.MaxWindow/time.Millisecond)).Draw(t,
			"window")) * time.Millisecond,
		Algorithm: rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm"),
	}
	l.Shadow = rapid.Bool().Draw(t, "shadow")
	l.Calls = rapid.Bool().Draw(t, "calls")
	switch l.Algorithm {
	case limiter.Log:
		l.CountDenied = rapid.Bool().Draw(t, "count denied")
		l.Slots = rapid.OneOf(rapid.Just(0),
			rapid.IntRange(limiter.MinSlots, limiter.MaxSlots)).Draw(t, "slots")
	case limiter.FixedWindow:
		l.Calendar = rapid.SampledFrom(append(limiter.Calendars(), limiter.NoCalendar)).Draw(t, "calendar")
		if l.Calendar != limiter.NoCalendar {
			l.Window, l.Zone = 0, rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin",
				"Asia/Kolkata"}).Draw(t, "zone")
		}
	case limiter.Counter, limiter.TokenBucket:
	}
	if !l.CountDenied && l.Span() >= limiter.MinNotifyWindow {
		l.Notify = rapid.SampledFrom([]limiter.Thresholds{{}, {100}, {50, 80, 100}, {1, 2, 3, 4, 99}}).Draw(
			t, "notify")
	}
	return l
}

// A limit that the page shows is read back unchanged after a browser sent the form.
func TestFormRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := drawLimit(t)
		if err := limit.Validate(); err != nil {
			t.Fatalf("drew an invalid limit %+v: %v", limit, err)
		}
		list, err := ReadLimitList(sentBy(NewLimitList("limits", []limiter.Limit{limit})), "limits")
		if err != nil {
			t.Fatal(err)
		}
		got := list.Limits()
		if list.ErrorCount() > 0 || len(got) != 1 || got[0] != limit {
			t.Fatalf("got %v, want %v; form %+v", got, limit, list)
		}
	})
}

// sentBy returns the values that a browser sends for a list: a box only if it is checked,
// a choice only if its value is an option.
func sentBy(list LimitList) url.Values {
	values := url.Values{}
	for _, row := range list.View("", "").Rows {
		set := func(name, text string) { values.Set(row.Field+"."+name, text) }
		set("requests", row.Requests.Value)
		set("window", row.Window.Value)
		set("zone", row.Zone.Value)
		set("slots", row.Slots.Value)
		set("notify", row.Notify.Value)
		if row.Denied.Value != "" {
			set("countDenied", "yes")
		}
		for _, o := range modes() {
			if o.Value == row.Mode.Value {
				set("mode", o.Value)
			}
		}
		for _, o := range counts() {
			if o.Value == row.Counts.Value {
				set("counts", o.Value)
			}
		}
		for _, o := range units() {
			if o.Value == row.Unit.Value {
				set("unit", o.Value)
			}
		}
		for _, o := range algorithms() {
			if o.Value == row.Algorithm.Value {
				set("algorithm", o.Value)
			}
		}
	}
	return values
}

// Arbitrary text never makes the form panic or yields an invalid limit.
func TestFormRejectsInvalidLimits(t *testing.T) {
	unitNames := []string{"calendar ", "calendar decade"}
	for _, u := range units() {
		unitNames = append(unitNames, u.Value)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9., _+\-ex]{0,25}`),
			rapid.StringMatching(`[1-9][0-9]{0,4}`), rapid.Just(""))
		form := LimitList{Rows: []LimitInput{{
			Requests: Input{Text: text.Draw(t, "requests")},
			Window:   Input{Text: text.Draw(t, "window")},
			Unit:     Input{Text: rapid.OneOf(text, rapid.SampledFrom(unitNames)).Draw(t, "unit")},
			Algorithm: Input{
				Text: rapid.SampledFrom([]string{"log", "counter", "fixed-window", "",
					"x"}).Draw(t, "algorithm"),
			},
			zone: Input{
				Text: rapid.OneOf(text, rapid.SampledFrom([]string{"", "UTC", "Local", "Europe/Berlin"})).
					Draw(t, "zone"),
			},
			slots:       Input{Text: text.Draw(t, "slots")},
			notify:      Input{Text: text.Draw(t, "notify")},
			countDenied: Input{Text: rapid.SampledFrom([]string{"", "yes"}).Draw(t, "count denied")},
			mode:        Input{Text: rapid.SampledFrom([]string{"", "shadow", "off"}).Draw(t, "mode")},
			counts:      Input{Text: rapid.SampledFrom([]string{"", "calls", "x"}).Draw(t, "counts")},
		}}}
		limits := form.Limits()
		if form.ErrorCount() > 0 {
			return
		}
		for _, l := range limits {
			if err := l.Validate(); err != nil {
				t.Fatalf("form %+v has no error, but yields an invalid limit: %v", form, err)
			}
		}
	})
}

// twoRows returns a form whose first row is blank.
func twoRows() url.Values {
	return url.Values{
		"limits[0].requests": {""}, "limits[0].unit": {"second"}, "limits[0].algorithm": {"log"},
		"limits[1].requests": {"50"}, "limits[1].window": {"1"}, "limits[1].unit": {"hour"},
		"limits[1].algorithm": {"log"},
	}
}

// An error of the store for any field of a limit is shown at that field of its row.
func TestSetError(t *testing.T) {
	for field, id := range map[string]string{
		"requests": "requests", "window": "window", "algorithm": "algorithm", "calendar": "unit",
		"zone": "zone", "slots": "slots", "countDenied": "countDenied", "notify": "notify",
		"mode": "mode", "counts": "counts",
	} {
		list, err := ReadLimitList(twoRows(), "limits")
		if err != nil || len(list.Limits()) != 1 {
			t.Fatal(err)
		}
		e := policy.FieldError{Field: "override.limits[0]." + field, Message: "is not valid"}
		if !list.SetError(e, "override.limits") || list.SetError(
			policy.FieldError{Field: "override.limits[1].requests"}, "override.limits",
		) {
			t.Errorf("%s: SetError accepts no error, or one of a missing limit", field)
		}
		row := list.View("", "").Rows[1]
		messages := map[string]string{
			"requests": row.Requests.Error, "window": row.Window.Error, "unit": row.Unit.Error,
			"algorithm": row.Algorithm.Error,
			"zone":      row.Zone.Error, "slots": row.Slots.Error, "countDenied": row.Denied.Error,
			"notify": row.Notify.Error, "mode": row.Mode.Error, "counts": row.Counts.Error,
		}
		if messages[id] != "It is not valid." || row.More != (id == "zone" || id == "slots" ||
			id == "countDenied" || id == "notify" || id == "mode" || id == "counts") {
			t.Errorf("%s: got row %+v, want the error at %s", field, row, id)
		}
	}
}
