package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

// Three calls per ten seconds: the answers that the model gives, in the order of the
// times, whatever order they were typed in.
func TestCallsTimeline(t *testing.T) {
	s := newSite(t).login()
	rows := []string{
		"1 0 s allowed 2 – none", "2 1 s allowed 1 – none", "3 1.5 s allowed 0 – none", "4 1.5 s denied 0 8.5 s at 10 s", "5 1.5 s denied 0 8.5 s at 10 s",
		"6 10 s allowed 0 – none", "7 1 min allowed 2 – none",
	}
	for _, times := range []string{"0s, 1s, 1.5s x3, 10s, 1m", "1m; 10\n1.5x3\n1,0", "1m,1.5s ×3,,10s,1s,0ms"} {
		text := inWords(s.get("/simulate/calls?"+url.Values{"times": {times}}.Encode()).wants(t, http.StatusOK, "5 of 7 allowed").body)
		for _, row := range rows {
			if !strings.Contains(text, row) {
				t.Errorf("%q: no %q in\n%s", times, row, text)
			}
		}
	}
}

// Every rule that is offered decides as the model of its limit does.
func TestCallsFollowTheModel(t *testing.T) {
	s := newSite(t).login()
	at := []time.Duration{0, 0, 4 * time.Second, 9 * time.Second, 11 * time.Second, 11 * time.Second, 12 * time.Second, 40 * time.Second}
	if len(ruleOptions()) != len(rules) {
		t.Fatalf("%d rules are offered, %d are known", len(ruleOptions()), len(rules))
	}
	for _, r := range rules {
		limit := r.limit
		limit.Requests, limit.Window = 3, 10*time.Second
		decisions, err := accuracy.Trace(limit, at)
		if err != nil {
			t.Fatal(err)
		}
		text := inWords(s.get("/simulate/calls?times=0x2,4,9,11x2,12,40&algorithm="+r.name).wants(t, http.StatusOK).body)
		for i, d := range decisions {
			row := callRow(i, at[i], d)
			want := row.Number + " " + inWords(row.At) + " "
			if d.Allowed {
				want += "allowed " + page.Number(d.Limits[0].Remaining)
			} else {
				want += "denied " + page.Number(d.Limits[0].Remaining) + " " + inWords(page.Offset(d.RetryAfter()))
			}
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", r.name, want, text)
			}
		}
	}
}

func TestCallsBadInput(t *testing.T) {
	s := newSite(t).login()
	for _, row := range []struct{ query, field, want string }{
		{"times=", "times", "Type when calls come, such as"},
		{"times=0s,soon", "times", "“soon” is no time up to 366 days."},
		{"times=-1s", "times", "“-1s” is no time up to 366 days."},
		{"times=9000h", "times", "“9000h” is no time up to 366 days."},
		{"times=1s+2s", "times", "“1s 2s” cannot be read."},
		{"times=0x501", "times", "This is a list of 501. It may hold at most 500."},
		{"limit=0", "limit", "Must be 1 to 1,000,000,000."},
		{"window=", "window", "Type how long the window is."},
		{"unit=calendar+day", "unit", form.ChooseFromList},
		{"algorithm=guess", "algorithm", form.ChooseFromList},
	} {
		page := s.get("/simulate/calls?"+row.query).wants(t, http.StatusUnprocessableEntity,
			`id="`+row.field+`-error">`+row.want, "Nothing was played: 1 field needs another look.")
		if strings.Contains(page.body, "allowed</") {
			t.Errorf("%s: answers beside an error", row.query)
		}
	}
	s.get("/simulate/calls?times=0x500").wants(t, http.StatusOK, "3 of 500 allowed")
	s.get("/simulate/calls?times=8784h&window=366&unit=day").wants(t, http.StatusOK, "1 of 1 allowed")
}

// The longest window and the most calls of a rule are the limiter's own.
func TestCallsBounds(t *testing.T) {
	if d, ok := parseOffset("8784h"); !ok || d != limiter.MaxWindow {
		t.Errorf("%v, %v", d, ok)
	}
}
