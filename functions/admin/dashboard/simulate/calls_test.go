package simulate_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/internal/testing/sitetest"
)

// Calls are decided in the order of their times, for any order and spelling of the times.
// The expected rows are those of the default limit, 3 per 10 seconds.
func TestCallsTimeline(t *testing.T) {
	s := sitetest.New(t).Login()
	rows := []string{
		"1 0 s allowed 2 3 per 10 seconds – none", "2 1 s allowed 1 ", "3 1.5 s allowed 0 ",
		"4 1.5 s denied 0 3 per 10 seconds 8.5 s at 10 s", "5 1.5 s denied 0 ",
		"6 10 s allowed 0 ", "7 1 min allowed 2 ",
	}
	for _, times := range []string{"0s, 1s, 1.5s x3, 10s, 1m", "1m; 10\n1.5x3\n1,0",
		"1m,1.5s ×3,,10s,1s,0ms"} {
		text := sitetest.InWords(
			s.Get("/simulate/calls?"+url.Values{"times": {times}}.Encode()).Wants(
				t, http.StatusOK, "5 of 7 allowed",
			).Body,
		)
		for _, row := range rows {
			if !strings.Contains(text, row) {
				t.Errorf("%q: want row %q in\n%s", times, row, text)
			}
		}
	}
}

// Limits decide like the model of all of them, and each row names the limit that decides.
func TestCallsFollowTheModel(t *testing.T) {
	s := sitetest.New(t).Login()
	at := []time.Duration{0, 0, 4 * time.Second, 9 * time.Second, 11 * time.Second, 11 * time.Second,
		12 * time.Second, 40 * time.Second}
	for _, texts := range [][]string{
		{"3 per 10 seconds"}, {"3 per 10 seconds, denied calls count"}, {"3 per 10 seconds, 64 slots"},
		{"3 per 10 seconds, counter"}, {"3 per 10 seconds, token bucket"}, {"3 per 10 seconds, fixed window"},
		{"3 per 10 seconds", "5 per minute, fixed window"}, {"2 per 10 seconds, shadow", "4 per minute"},
	} {
		limits := make([]limiter.Limit, len(texts))
		for i, text := range texts {
			var err error
			if limits[i], err = policydoc.ParseLimit(text); err != nil {
				t.Fatal(err)
			}
		}
		decisions, err := accuracy.Trace(limits, at)
		if err != nil {
			t.Fatal(err)
		}
		typed := strings.Join(texts, "; ")
		text := sitetest.InWords(s.Get("/simulate/calls?"+url.Values{"times": {"0x2,4,9,11x2,12,40"},
			"limits": {typed}}.Encode()).Wants(t, http.StatusOK).Body)
		for i, d := range decisions {
			want := strconv.Itoa(i+1) + " " + sitetest.InWords(page.Offset(at[i])) + " "
			if d.Allowed {
				want += "allowed "
			} else {
				want += "denied 0 "
			}
			if !strings.Contains(text, want) {
				t.Errorf("%s: want row %q in\n%s", typed, want, text)
			}
			if wait := sitetest.InWords(page.Offset(d.RetryAfter())); !d.Allowed && !strings.Contains(text,
				" "+wait+" at ") {
				t.Errorf("%s: want a wait of %q in\n%s", typed, wait, text)
			}
		}
	}
	text := sitetest.InWords(s.Get("/simulate/calls?times=0x6&limits=5+per+second%3B3+per+day").Wants(
		t, http.StatusOK, "3 of 6 allowed").Body)
	if want := "4 0 s denied 0 3 per day 1 d at 1 d"; !strings.Contains(text, want) {
		t.Errorf("want row %q in\n%s", want, text)
	}
	text = sitetest.InWords(s.Get("/simulate/calls?times=0x2&limits=1+per+second,+shadow").Wants(
		t, http.StatusOK, "2 of 2 allowed").Body)
	if want := "2 0 s allowed – no limit is enforced"; !strings.Contains(text, want) {
		t.Errorf("want row %q in\n%s", want, text)
	}
}

func TestCallsBadInput(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, row := range []struct{ query, field, want string }{
		{"times=", "times", "Enter call times, such as"},
		{"times=0s,soon", "times", "“soon” is not a time of at most 366 days."},
		{"times=-1s", "times", "“-1s” is not a time of at most 366 days."},
		{"times=9000h", "times", "“9000h” is not a time of at most 366 days."},
		{"times=1s+2s", "times", "“1s 2s” is not valid here."},
		{"times=0x501", "times", "Enter at most 500 items. This list has 501."},
		{"limits=0+per+second", "limits", "The number of calls is 0: must be 1 to 1000000000."},
		{"limits=+%3B", "limits", "Enter 1 to 8 limits"},
		{"limits=" + strings.Repeat("5+per+second%3B", 9), "limits", "Enter 1 to 8 limits"},
		{"limits=5+per+second%3Bguess", "limits", "&#34;guess&#34; is not a limit"},
	} {
		page := s.Get("/simulate/calls?"+row.query).Wants(t, http.StatusUnprocessableEntity,
			`id="`+row.field+`-error">`+row.want, "Not simulated. Fix 1 field.")
		if strings.Contains(page.Body, "allowed</") {
			t.Errorf("%s: got decisions, want only an error", row.query)
		}
	}
	s.Get("/simulate/calls?times=0x500").Wants(t, http.StatusOK, "3 of 500 allowed")
	s.Get("/simulate/calls?times=8784h&limits=3+per+366+days").Wants(t, http.StatusOK, "1 of 1 allowed")
}
