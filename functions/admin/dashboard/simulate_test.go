package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

// simulateAll is the address of a preset's experiment with every algorithm.
func simulateAll(p preset) (address string, form simulation) {
	form = p.simulation()
	form.algorithms = nil
	for _, c := range accuracy.Contenders() {
		form.algorithms = append(form.algorithms, c.Name)
	}
	return "/simulate?" + form.values().Encode(), form
}

// What the page prints of each preset and algorithm is what the lab measures of the same
// scenario.
func TestSimulationFigures(t *testing.T) {
	s := newSite(t).login()
	for _, p := range presets {
		path, form := simulateAll(p)
		text := inWords(s.get(path).wants(t, http.StatusOK).body)
		result, err := accuracy.Run(form.scenario())
		if err != nil {
			t.Fatal(err)
		}
		want := page.Number(result.Calls) + " calls. The exact log admits " + page.Number(result.Exact.Admitted) + "."
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q", p.text, want)
		}
		for _, o := range result.Outcomes {
			row := strings.Join([]string{
				o.Title, page.Number(o.Admitted), page.Number(o.FalseAllows), page.Number(o.FalseDenials),
				page.Number(o.Worst), overLimit(o.Worst, result.Scenario.Limit),
				inWords(page.Offset(time.Duration(o.WorstAt-result.From) * time.Microsecond)),
			}, " ")
			if !strings.Contains(text, row) {
				t.Errorf("%s: no %q in\n%s", p.text, row, text)
			}
		}
	}
}

// Without a query the page shows the boundary attack: 101 calls past an exact log, 200
// past a fixed window, in the minute around the boundary.
func TestSimulateBoundaryFirst(t *testing.T) {
	s := newSite(t).login()
	page := s.get("/simulate").wants(t, http.StatusOK, `<path class="line s6" d="M0 `, `<svg viewBox="0 0 `)
	text := inWords(page.body)
	for _, want := range []string{
		"1,400 calls. The exact log admits 101.", "log 101 0 0 100 0 % 1 min 59.9697 s", "fixed window 200 100 1 200 +100 % 2 min 0.0297 s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	first := presets[0].simulation()
	if explicit := s.get("/simulate?" + first.values().Encode()); inWords(explicit.body) != text {
		t.Error("the first preset's link shows something else than the page without a query")
	}
	if got := strings.Count(page.body, `aria-current="true"`); got != 1 || !strings.Contains(page.body, `aria-current="true">Boundary burst`) {
		t.Errorf("%d presets are marked as shown", got)
	}
}

// The same address gives the same figures every time; another seed gives others.
func TestSimulateSeed(t *testing.T) {
	s := newSite(t).login()
	const path = "/simulate?shape=poisson&rate=2&windows=5&seed="
	main := func(seed string) string {
		_, text, _ := strings.Cut(inWords(s.get(path+seed).wants(t, http.StatusOK).body), "The exact log admits")
		return text
	}
	first := main("7")
	if again := main("7"); again != first || main("8") == first {
		t.Error("the seed does not decide")
	}
}

// Any address comes back as it went: what is read of it writes the same.
func TestSimulationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := url.Values{}
		for name := range new(simulation).fields() {
			if rapid.Bool().Draw(t, "has "+name) {
				q.Set(name, rapid.OneOf(rapid.StringMatching(`[0-9., x]{0,12}`), rapid.String()).Draw(t, name))
			}
		}
		for _, c := range accuracy.Contenders() {
			if rapid.Bool().Draw(t, c.Name) {
				q.Add("algorithm", c.Name)
			}
		}
		first := readSimulation(q)
		again, err := url.ParseQuery(first.values().Encode())
		if err != nil {
			t.Fatal(err)
		}
		second := readSimulation(again)
		if diff := cmp.Diff(first.values(), second.values()); diff != "" {
			t.Errorf("%v: %s", q, diff)
		}
		// Whatever it is, it is refused field by field or within the bounds of the lab.
		if sc := first.scenario(); first.errors() == 0 && (sc.Validate() != nil || sc.Count() > maxPlayed) {
			t.Errorf("%v is played: %v, %d calls", q, sc.Validate(), sc.Count())
		}
	})
}

// Each wrong field says beside itself what is wrong, and all that was typed is still
// there.
func TestSimulateBadInput(t *testing.T) {
	s := newSite(t).login()
	for _, row := range []struct{ query, field, want string }{
		{"limit=ten", "limit", "Type a whole number, such as 100 or 1,000."},
		{"limit=", "limit", "Type how many calls are allowed."},
		{"limit=100001", "limit", "Must be 1 to 100,000."},
		{"window=0", "window", "Must be 1 to"},
		{"window=367&unit=day", "window", "The window must be 1 millisecond to 366 days."},
		{"unit=fortnight", "unit", form.ChooseFromList},
		{"unit=calendar+month", "unit", form.ChooseFromList},
		{"shape=square", "shape", form.ChooseFromList},
		{"rate=fast", "rate", "Type a number such as 2 or 0.5."},
		{"rate=-1", "rate", "Type a number such as 2 or 0.5."},
		{"rate=0", "rate", "Must be 0.01 to 10,000."},
		{"rate=10000.01", "rate", "Must be 0.01 to 10,000."},
		{"windows=0", "windows", "Must be 1 to 50,000."},
		{"seed=x", "seed", "Type a whole number"},
		{"shape=poisson&rate=100&windows=400", "windows", "This makes 4,000,000 calls. At most 50,000 are played"},
		{"limit=1&shape=poisson&rate=0.01&windows=1", "windows", "This makes no calls."},
		{"window=366&unit=day&limit=1&rate=0.01&windows=50000&shape=poisson", "windows", "The lab cannot play"},
		{"shape=recorded&minutes=0x9", "minutes", "This makes no calls."},
		{"shape=recorded", "minutes", "Type how many calls each minute had"},
		{"shape=recorded&minutes=4,few", "minutes", "“few” is no number of calls."},
		{"shape=recorded&minutes=4,1+2+3", "minutes", "“1 2 3” cannot be read."},
		{"shape=recorded&minutes=1x1441", "minutes", "This is a list of 1,441. It may hold at most 1,440."},
		{"shape=recorded&minutes=60000", "minutes", "These are more than 50,000 calls."},
		{"shape=recorded&minutes=2000000000x900", "minutes", "These are more than 50,000 calls."},
		{"shape=recorded&minutes=" + strings.Repeat("1,", 2001), "minutes", "Type at most 4,000 characters"},
	} {
		page := s.get("/simulate?algorithm=log&"+row.query).wants(t, http.StatusUnprocessableEntity,
			`id="`+row.field+`-error">`+row.want, `aria-describedby="`+row.field+`-error"`, "Nothing was played: 1 field needs another look.")
		q, _ := url.ParseQuery(row.query)
		if typed := q.Get(row.field); len(typed) < 100 && row.field != "unit" && row.field != "shape" && !strings.Contains(page.body, typed) {
			t.Errorf("%s: %q is gone", row.query, typed)
		}
		if strings.Contains(page.body, "The exact log admits") {
			t.Errorf("%s: figures beside an error", row.query)
		}
	}
	s.get("/simulate?limit=100").wants(t, http.StatusUnprocessableEntity, `id="algorithms-error">Choose at least one algorithm.`)
	s.get("/simulate?limit=a&rate=b&seed=c").wants(t, http.StatusUnprocessableEntity, "4 fields need another look.")
}

// Names, scripts and the like in the address stay text.
func TestSimulateHostileInput(t *testing.T) {
	s := newSite(t).login()
	const evil = `"><script>alert(1)</script>`
	for _, path := range []string{"/simulate", "/simulate/calls"} {
		for _, name := range []string{"limit", "window", "unit", "shape", "minutes", "times", "algorithm"} {
			got := s.get(path + "?shape=recorded&" + url.Values{name: {evil}}.Encode())
			if strings.Contains(got.body, "<script>alert") {
				t.Errorf("%s: %s is not escaped", path, name)
			}
			checkPolicy(t, path, got)
		}
	}
}

// Recorded minutes are played minute by minute: three calls, then silence for a minute,
// then two.
func TestSimulateRecorded(t *testing.T) {
	s := newSite(t).login()
	text := inWords(s.get("/simulate?limit=2&shape=recorded&minutes=3,0x2,2&algorithm=log").wants(t, http.StatusOK).body)
	if !strings.Contains(text, "5 calls. The exact log admits 4.") {
		t.Error(text)
	}
}

// Every algorithm, traffic and line that can be chosen is explained.
func TestEverythingIsExplained(t *testing.T) {
	for _, c := range accuracy.Contenders() {
		if algorithmNotes[c.Name] == "" {
			t.Errorf("%s has no note", c.Name)
		}
	}
	for _, shape := range accuracy.Shapes() {
		if shapeNotes[shape] == "" {
			t.Errorf("%s has no note", shape)
		}
	}
	for _, o := range shapes() {
		if o.Text == "" {
			t.Errorf("shape %s has no name", o.Value)
		}
	}
}

func TestOverLimit(t *testing.T) {
	for _, row := range []struct {
		worst, limit int64
		want         string
	}{
		{100, 100, "0 %"},
		{3, 100, "0 %"},
		{101, 100, "+1 %"},
		{100_001, 100_000, "+0.1 %"},
		{2000, 1000, "+100 %"},
		{15, 9, "+66.7 %"},
	} {
		if got := overLimit(row.worst, row.limit); got != row.want {
			t.Errorf("%d of %d: %q, want %q", row.worst, row.limit, got, row.want)
		}
	}
}

// A key's recorded minutes can be played to its limit, by an address that the page reads
// as it was meant.
func TestRecordedSimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.SliceOfN(rapid.Int64Range(0, 3), 1, 300).Draw(t, "minutes")
		s, ok := recordedSimulation(per(50, 90*time.Second), minutes)
		again := readSimulation(s.values())
		sc := again.scenario()
		if !ok || sc.Limit != 50 || sc.Window != 90*time.Second || chart.Total(minutes) != int64(len(sc.Traffic.Calls)) {
			t.Fatalf("%v: %+v, %d calls", minutes, again, len(sc.Traffic.Calls))
		}
		for i, m := range again.recording(time.Unix(0, 0)) {
			if m.Calls != minutes[i] {
				t.Fatalf("%v came back as %v", minutes, again.minutes.Text)
			}
		}
	})
	for _, l := range []limiter.Limit{monthly, per(accuracy.MaxLimit+1, time.Minute)} {
		if _, ok := recordedSimulation(l, nil); ok {
			t.Errorf("%v is played", l)
		}
	}
}
