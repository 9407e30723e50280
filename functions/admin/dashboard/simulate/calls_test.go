package simulate_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/simulate"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/accuracy"
)

// Calls are decided in the order of their times, for any order and spelling of the times.
// The expected rows are those of the default limit, 3 per 10 seconds.
func TestCallsTimeline(t *testing.T) {
	s := sitetest.New(t).Login()
	rows := []string{
		"1 0 s allowed 2 – none", "2 1 s allowed 1 – none", "3 1.5 s allowed 0 – none",
		"4 1.5 s denied 0 8.5 s at 10 s", "5 1.5 s denied 0 8.5 s at 10 s",
		"6 10 s allowed 0 – none", "7 1 min allowed 2 – none",
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

// Every offered algorithm decides like the model of its limit.
func TestCallsFollowTheModel(t *testing.T) {
	s := sitetest.New(t).Login()
	at := []time.Duration{0, 0, 4 * time.Second, 9 * time.Second, 11 * time.Second, 11 * time.Second,
		12 * time.Second, 40 * time.Second}
	for name, limit := range simulate.SandboxLimits() {
		limit.Requests, limit.Window = 3, 10*time.Second
		decisions, err := accuracy.Trace(limit, at)
		if err != nil {
			t.Fatal(err)
		}
		text := sitetest.InWords(
			s.Get("/simulate/calls?times=0x2,4,9,11x2,12,40&algorithm="+name).Wants(t, http.StatusOK).Body,
		)
		for i, d := range decisions {
			want := strconv.Itoa(i+1) + " " + sitetest.InWords(page.Offset(at[i])) + " "
			if d.Allowed {
				want += "allowed " + page.Number(d.Limits[0].Remaining)
			} else {
				want += "denied " + page.Number(d.Limits[0].Remaining) + " " +
					sitetest.InWords(page.Offset(d.RetryAfter()))
			}
			if !strings.Contains(text, want) {
				t.Errorf("%s: want row %q in\n%s", name, want, text)
			}
		}
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
		{"limit=0", "limit", "Must be 1 to 1,000,000,000."},
		{"window=", "window", "Enter the window length."},
		{"unit=calendar+day", "unit", form.ChooseFromList},
		{"algorithm=guess", "algorithm", form.ChooseFromList},
	} {
		page := s.Get("/simulate/calls?"+row.query).Wants(t, http.StatusUnprocessableEntity,
			`id="`+row.field+`-error">`+row.want, "Not simulated. Fix 1 field.")
		if strings.Contains(page.Body, "allowed</") {
			t.Errorf("%s: got decisions, want only an error", row.query)
		}
	}
	s.Get("/simulate/calls?times=0x500").Wants(t, http.StatusOK, "3 of 500 allowed")
	s.Get("/simulate/calls?times=8784h&window=366&unit=day").Wants(t, http.StatusOK, "1 of 1 allowed")
}
