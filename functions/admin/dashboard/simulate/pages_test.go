package simulate_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/simulate"
	"tidegate/internal/accuracy"
	"tidegate/internal/testing/sitetest"
)

// The page shows the figures of package accuracy for each preset and algorithm.
func TestSimulationFigures(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, p := range simulate.Presets() {
		text := sitetest.InWords(s.Get(p.Address).Wants(t, http.StatusOK).Body)
		result, err := accuracy.Run(p.Scenario)
		if err != nil {
			t.Fatal(err)
		}
		want := page.Number(result.Exact.Admitted) + " of " + page.Number(result.Calls) + " calls pass."
		if !strings.Contains(text, want) {
			t.Errorf("%s: want %q in\n%s", p.Text, want, text)
		}
		for _, o := range result.Outcomes {
			row := strings.Join([]string{
				o.Title, page.Number(o.Admitted), page.Number(o.FalseAllows), page.Number(o.FalseDenials),
				page.Number(o.Worst), simulate.OverLimit(o.Worst, result.Scenario.Limit),
				sitetest.InWords(page.Offset(time.Duration(o.WorstAt-result.From) * time.Microsecond)),
			}, " ")
			if !strings.Contains(text, row) {
				t.Errorf("%s: want row %q in\n%s", p.Text, row, text)
			}
		}
	}
}

// Without a query the page simulates the boundary attack: in the minute around the
// boundary, an exact log admits 101 calls and a fixed window 200.
func TestSimulateBoundaryFirst(t *testing.T) {
	s := sitetest.New(t).Login()
	page := s.Get("/simulate").Wants(t, http.StatusOK, `<path class="line s6" d="M0 `, `<svg viewBox="0 0 `)
	text := sitetest.InWords(page.Body)
	for _, want := range []string{
		"100 per minute would let 101 of 1,400 calls pass.", "log 101 0 0 100 0 % 1 min 59.9697 s",
		"fixed window 200 100 1 200 +100 % 2 min 0.0297 s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if explicit := s.Get(
		"/simulate?" + simulate.Presets()[0].Query,
	); sitetest.InWords(explicit.Body) != text {
		t.Error("the link of the first preset differs from the page without a query")
	}
	if got := strings.Count(page.Body, `aria-current="true"`); got != 1 || !strings.Contains(
		page.Body, `aria-current="true">Boundary burst`,
	) {
		t.Errorf("got %d current links, want only Boundary burst", got)
	}
}

// The same address gives the same figures every time; another seed gives others.
func TestSimulateSeed(t *testing.T) {
	s := sitetest.New(t).Login()
	const path = "/simulate?shape=poisson&rate=2&windows=5&seed="
	resultOf := func(seed string) string {
		_, text, _ := strings.Cut(
			sitetest.InWords(s.Get(path+seed).Wants(t, http.StatusOK).Body), " would let ",
		)
		return text
	}
	first := resultOf("7")
	if again := resultOf("7"); again != first || resultOf("8") == first {
		t.Error("one seed gave two results, or two seeds gave the same")
	}
}

// Each invalid field has its error next to it, and keeps its typed text.
func TestSimulateBadInput(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, row := range []struct{ query, field, want string }{
		{"limit=ten", "limit", "&#34;ten&#34; is not a limit"},
		{"limit=", "limit", "Enter 1 to 8 limits"},
		{"limit=5+per+minute%3B9+per+day,+shadow", "limit", "A limit in shadow mode denies nothing."},
		{"limit=100001+per+hour", "limit", "Enter a limit of at most 100,000 calls."},
		{"limit=5+per+0+days", "limit", "Window is 0"},
		{"limit=5+per+calendar+month", "limit", "Enter a limit without a calendar."},
		{"shape=square", "shape", form.ChooseFromList},
		{"rate=fast", "rate", "Enter a number such as 2 or 0.5."},
		{"rate=-1", "rate", "Enter a number such as 2 or 0.5."},
		{"rate=0", "rate", "Must be 0.01 to 10,000."},
		{"rate=10000.01", "rate", "Must be 0.01 to 10,000."},
		{"windows=0", "windows", "Must be 1 to 20,000."},
		{"seed=x", "seed", "Enter a whole number"},
		{"shape=poisson&rate=100&windows=400", "windows",
			"This makes 4,000,000 calls. At most 20,000 are simulated"},
		{"limit=1+per+minute&shape=poisson&rate=0.01&windows=1", "windows", "This makes no calls."},
		{"shape=recorded&minutes=0x9", "minutes", "This makes no calls."},
		{"shape=recorded", "minutes", "Enter the calls of each minute"},
		{"shape=recorded&minutes=4,few", "minutes", "“few” is not a number of calls."},
		{"shape=recorded&minutes=4,1+2+3", "minutes", "“1 2 3” is not valid here."},
		{"shape=recorded&minutes=1x1441", "minutes", "Enter at most 1,440 items. This list has 1,441."},
		{"shape=recorded&minutes=60000", "minutes", "More than 20,000 calls, the maximum."},
		{"shape=recorded&minutes=2000000000x900", "minutes", "More than 20,000 calls, the maximum."},
		{"shape=recorded&minutes=" + strings.Repeat("1,", 2001), "minutes", "Enter at most 4,000 characters"},
	} {
		page := s.Get("/simulate?algorithm=log&"+row.query).Wants(t, http.StatusUnprocessableEntity,
			`id="`+row.field+`-error">`+row.want, `aria-describedby="`+row.field+`-error"`,
			"Not simulated. Fix 1 field.")
		q, _ := url.ParseQuery(row.query)
		if typed := q.Get(row.field); len(typed) < 100 && row.field != "shape" &&
			!strings.Contains(page.Body, typed) {
			t.Errorf("%s: the form lost the typed %q", row.query, typed)
		}
		if strings.Contains(page.Body, " calls pass") {
			t.Errorf("%s: got a result, want only an error", row.query)
		}
	}
	s.Get("/simulate?limit=100+per+minute").Wants(
		t, http.StatusUnprocessableEntity, `id="algorithms-error">Choose at least one algorithm.`,
	)
	s.Get("/simulate?limit=a&rate=b&seed=c").Wants(
		t, http.StatusUnprocessableEntity, "Fix 4 fields.",
	)
}

// HTML in an address is escaped.
func TestSimulateHostileInput(t *testing.T) {
	s := sitetest.New(t).Login()
	const evil = `"><script>alert(1)</script>`
	for _, path := range []string{"/simulate", "/simulate/calls"} {
		for _, name := range []string{"limit", "limits", "shape", "minutes", "times", "algorithm"} {
			got := s.Get(path + "?shape=recorded&" + url.Values{name: {evil}}.Encode())
			if strings.Contains(got.Body, "<script>alert") {
				t.Errorf("%s: %s is not escaped", path, name)
			}
			sitetest.CheckPolicy(t, path, got)
		}
	}
}

// Recorded traffic has the calls of each minute: three calls, none for two minutes, then
// two.
func TestSimulateRecorded(t *testing.T) {
	s := sitetest.New(t).Login()
	const address = "/simulate?limit=2+per+minute&shape=recorded&minutes=3,0x2,2&algorithm=log"
	for passed, end := range map[string]string{
		"": ".", "&passed=5": "; 5 passed then.", "&passed=odd": ".", "&passed=-1": ".",
	} {
		s.Get(address+passed).Wants(t, http.StatusOK,
			"2 per minute would have let 4 of 5 calls pass"+end+"</p>")
	}
}

// A call passes only if every limit has room: of 20 calls in the first minute 10 pass by
// the first limit, then 5 more by the second, whichever algorithm counts.
func TestSimulateEveryLimit(t *testing.T) {
	s := sitetest.New(t).Login()
	page := s.Get("/simulate?limit=10+per+minute%3B+15+per+hour&shape=recorded&minutes=20,0,20&algorithm=log"+
		"&algorithm=fixed-window").Wants(t, http.StatusOK,
		"10 per minute and 15 per hour would have let 15 of 40 calls pass.", "those of the first limit.")
	for _, row := range []string{"log 15 0 0 10 0 % ", "fixed window 15 0 0 10 0 % "} {
		if text := sitetest.InWords(page.Body); !strings.Contains(text, row) {
			t.Errorf("want %q in\n%s", row, text)
		}
	}
}
