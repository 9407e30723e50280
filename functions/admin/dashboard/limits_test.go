package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

const limitsPath = "/keys/{acme}/limits"

// withLimits is a registry whose key acme has these limits, by its plan.
func withLimits(t *testing.T, limits ...limiter.Limit) option {
	keys := newRegistry(t)
	keys.add("acme", limits...)
	return withKeys(keys)
}

func TestEditForm(t *testing.T) {
	s := newSite(t, withLimits(t, per(100, 10*time.Second), limiter.Limit{Requests: 1500, Window: 90 * time.Minute, Algorithm: limiter.Counter})).login()
	s.get(limitsPath).wants(t, http.StatusOK,
		`name="version" value="1"`,
		`name="limits[0].requests" value="100"`, `name="limits[0].window" value="10"`, `<option value="second" selected>`, "100 per 10 seconds",
		`name="limits[1].requests" value="1,500"`, `name="limits[1].window" value="90"`, `<option value="minute" selected>`,
		`<option value="counter" selected data-mark="estimate">`, "1,500 per 90 minutes",
	)
}

// monthly, hammered and coarse are limits of which the form's rarer fields say something.
var (
	monthly  = limiter.Limit{Requests: 1000, Algorithm: limiter.FixedWindow, Calendar: limiter.Month, Zone: "Europe/Berlin"}
	hammered = limiter.Limit{Requests: 100, Window: 10 * time.Second, CountDenied: true}
	coarse   = limiter.Limit{Requests: 5000, Window: time.Hour, Slots: 2500}
)

// The form holds every field of a limit, so that an edit of one loses no other; the rarer
// ones are open where they say something.
func TestEditKeepsEveryField(t *testing.T) {
	s := newSite(t, withLimits(t, monthly, hammered, coarse, per(7, time.Minute))).login()
	page := s.get(limitsPath).wants(t, http.StatusOK,
		`<option value="calendar month" selected>`, `name="limits[0].window" value="1"`, `name="limits[0].zone" value="Europe/Berlin"`,
		"1,000 per calendar month (Europe/Berlin), fixed window",
		`name="limits[1].countDenied" value="yes" checked`, "100 per 10 seconds, denied calls count",
		`name="limits[2].slots" value="2,500"`, "5,000 per hour, 2,500 slots",
		`name="limits[3].zone" value=""`, `name="limits[3].slots" value=""`,
	)
	if open := strings.Count(page.body, `<details class="more" open>`); open != 3 || strings.Count(page.body, " checked") != 1 {
		t.Errorf("%d rows are open, want those 3 that say something, and one box checked", open)
	}
	form := with(limitsOf(1, [4]string{"1,000", "1", "calendar month", "fixed-window"}, [4]string{"101", "10", "second", "log"},
		[4]string{"5,000", "1", "hour", "log"}, [4]string{"7", "1", "minute", "log"}),
		"limits[0].zone", "Europe/Berlin", "limits[1].countDenied", "yes", "limits[2].slots", "2,500")
	s.post(limitsPath, form).wants(t, http.StatusSeeOther)
	want := []limiter.Limit{monthly, hammered, coarse, per(7, time.Minute)}
	want[1].Requests = 101
	if diff := cmp.Diff(want, s.keys.key("acme").Override.Limits); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	s.get("/keys/{acme}").wants(t, http.StatusOK, "Saved: 1,000 per calendar month (Europe/Berlin), fixed window; "+
		"100 per 10 seconds, denied calls count; 5,000 per hour, 2,500 slots; 7 per minute → ")
}

func TestSaveCalendar(t *testing.T) {
	for _, row := range []struct {
		window, unit, zone string
		want               limiter.Limit
	}{
		{"1", "calendar minute", "", limiter.Limit{Calendar: limiter.Minute}},
		{"", "calendar hour", " Asia/Kolkata ", limiter.Limit{Calendar: limiter.Hour, Zone: "Asia/Kolkata"}},
		{" ", "calendar day", "UTC", limiter.Limit{Calendar: limiter.Day, Zone: "UTC"}},
		{" 1 ", "calendar month", "America/Argentina/ComodRivadavia", limiter.Limit{Calendar: limiter.Month, Zone: "America/Argentina/ComodRivadavia"}},
	} {
		s := newSite(t).login()
		s.post(limitsPath, with(limitsOf(1, [4]string{"50", row.window, row.unit, "fixed-window"}), "limits[0].zone", row.zone)).
			wants(t, http.StatusSeeOther)
		row.want.Requests, row.want.Algorithm = 50, limiter.FixedWindow
		if diff := cmp.Diff([]limiter.Limit{row.want}, s.keys.key("acme").Override.Limits); diff != "" {
			t.Errorf("%s saved (-want +got):\n%s", row.unit, diff)
		}
	}
}

// Fields that do not go together say at the one to change what to do; what was typed
// stays in sight.
func TestInvalidTogether(t *testing.T) {
	second := [4]string{"10", "1", "second", "log"}
	month := [4]string{"10", "1", "calendar month", "fixed-window"}
	counter := [4]string{"10", "1", "second", "counter"}
	rows := []struct {
		name           string
		limit          [4]string
		typed, text    string
		field, message string
	}{
		{"calendar with the log", [4]string{"10", "1", "calendar month", "log"}, "zone", "UTC", "unit", "Only a fixed window follows"},
		{"calendar with a bucket", [4]string{"10", "", "calendar day", "token-bucket"}, "zone", "", "unit", "choose that algorithm, or another unit"},
		{"two months", [4]string{"10", "2", "calendar month", "fixed-window"}, "zone", "UTC", "window", "Type 1 with a calendar unit, or nothing."},
		{"word of months", [4]string{"10", "one", "calendar month", "fixed-window"}, "zone", "UTC", "window", "Type 1 with a calendar unit, or nothing."},
		{"no requests in a calendar", [4]string{"", "", "calendar month", "fixed-window"}, "zone", "", "requests", "Type how many calls"},
		{"unknown calendar", [4]string{"10", "1", "calendar year", "fixed-window"}, "zone", "UTC", "unit", "Choose one"},
		{"no calendar", [4]string{"10", "1", "calendar ", "fixed-window"}, "zone", "UTC", "unit", "Choose one"},
		{"zone without calendar", second, "zone", "Europe/Berlin", "zone", "Only a calendar has a time zone"},
		{"unknown zone", month, "zone", "Mars/Olympus", "zone", "such as Europe/Berlin"},
		{"zone of the machine", month, "zone", "Local", "zone", "such as Europe/Berlin"},
		{"zone as a path", month, "zone", "../../etc/passwd", "zone", "such as Europe/Berlin"},
		{"long zone", month, "zone", strings.Repeat("x", 70), "zone", "such as Europe/Berlin"},
		{"denied calls of an estimate", counter, "countDenied", "yes", "countDenied", "Only the log can count denied calls"},
		{"denied calls of a calendar", month, "countDenied", "yes", "countDenied", "Only the log can count denied calls"},
		{"slots of an estimate", counter, "slots", "64", "slots", "Only the log has slots"},
		{"few slots", second, "slots", "63", "slots", "Must be 64 to 100,000."},
		{"many slots", second, "slots", "100001", "slots", "Must be 64 to 100,000."},
		{"no slots", second, "slots", "0", "slots", "Must be 64 to 100,000."},
		{"word of slots", second, "slots", "many", "slots", "Type a whole number"},
		{"slots alone", [4]string{"", "1", "second", "log"}, "slots", "64", "requests", "Type how many calls"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newSite(t).login()
			got := s.post(limitsPath, with(limitsOf(1, row.limit), "limits[0]."+row.typed, row.text))
			id := "limits-0-" + row.field
			got.wants(t, http.StatusUnprocessableEntity, `aria-describedby="`+id+`-error"`, `<p class="wrong" id="`+id+`-error">`, row.message,
				"Nothing was saved: 1 field needs", `name="limits[0].`+row.typed+`" value="`+row.text+`"`, `name="limits[0].window" value="`+row.limit[1]+`"`)
			if strings.Count(got.body, `class="wrong"`) != 1 || strings.Count(got.body, `aria-invalid="true"`) != 1 {
				t.Error("other fields are marked too")
			}
			if open := strings.Contains(got.body, `<details class="more" open>`); open != (row.text != "") {
				t.Errorf("the rarer fields are open: %v", open)
			}
			if s.keys.written() != 0 {
				t.Error("it was written")
			}
		})
	}
}

// Everything wrong with a row is said at once.
func TestInvalidEverywhere(t *testing.T) {
	s := newSite(t).login()
	form := with(limitsOf(1, [4]string{"ten", "1", "second", "counter"}),
		"limits[0].zone", "Mars", "limits[0].slots", "64", "limits[0].countDenied", "yes")
	got := s.post(limitsPath, form).wants(t, http.StatusUnprocessableEntity, "Nothing was saved: 4 fields need", " checked")
	for _, field := range []string{"requests", "zone", "slots", "countDenied"} {
		got.wants(t, http.StatusUnprocessableEntity, `<p class="wrong" id="limits-0-`+field+`-error">`)
	}
}

// A saved edit is written, and the key's page says once what it changed.
func TestSave(t *testing.T) {
	s := newSite(t).login()
	got := s.post(limitsPath, limitsOf(1, [4]string{"1,000", "10", "second", "log"}, [4]string{" 2 000 000 ", "1", "day", "counter"}))
	got.wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/keys/{acme}" {
		t.Errorf("to %q", to)
	}
	want := []limiter.Limit{per(1000, 10*time.Second), {Requests: 2_000_000, Window: 24 * time.Hour, Algorithm: limiter.Counter}}
	if diff := cmp.Diff(want, s.keys.key("acme").Override.Limits); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	const flash = "Saved: 10 per 10 seconds → 1,000 per 10 seconds; 2,000,000 per day, estimate. The next check obeys."
	if refresh := s.refresh("/keys/{acme}"); strings.Contains(refresh.body, flash) {
		t.Error("a live refresh took the message")
	}
	s.get("/keys/{acme}").wants(t, http.StatusOK, flash)
	if again := s.get("/keys/{acme}"); strings.Contains(again.body, flash) {
		t.Error("the message is shown twice")
	}
}

func TestSaveWithoutChange(t *testing.T) {
	s := newSite(t).login()
	s.keys.override("acme", per(10, 10*time.Second))
	s.post(limitsPath, limitsOf(2, [4]string{"10", "10000", "millisecond", "log"}, [4]string{"", " ", "second", "log"})).wants(t, http.StatusSeeOther)
	if s.keys.written() != 0 {
		t.Error("an edit that changes nothing was written")
	}
	s.get("/keys/{acme}").wants(t, http.StatusOK, "Nothing was changed")
}

// What is wrong is said at its field, and everything typed is kept.
func TestInvalid(t *testing.T) {
	rows := []struct {
		name             string
		requests, window string
		unit, algorithm  string
		field, message   string
	}{
		{"word", "ten", "10", "second", "log", "requests", "Type a whole number"},
		{"fraction", "1.5", "10", "second", "log", "requests", "Type a whole number"},
		{"comma in the wrong place", "1,5", "10", "second", "log", "requests", "Type a whole number"},
		{"hexadecimal", "0x10", "10", "second", "log", "requests", "Type a whole number"},
		{"exponent", "1e3", "10", "second", "log", "requests", "Type a whole number"},
		{"negative", "-5", "10", "second", "log", "requests", "Type a whole number"},
		{"other digits", "١٢٣", "10", "second", "log", "requests", "Type a whole number"},
		{"zero", "0", "10", "second", "log", "requests", "Must be 1 to 1,000,000,000."},
		{"too many", "1000000001", "10", "second", "log", "requests", "Must be 1 to 1,000,000,000."},
		{"overflow", "99999999999999999999999", "10", "second", "log", "requests", "Must be 1 to 1,000,000,000."},
		{"no requests", "", "10", "second", "log", "requests", "Type how many calls"},
		{"no window", "10", "", "second", "log", "window", "Type how long"},
		{"zero window", "10", "0", "second", "log", "window", "Must be 1 to"},
		{"too long", "10", "367", "day", "log", "window", "1 millisecond to 366 days"},
		{"window overflow", "10", "31622400000", "day", "log", "window", "1 millisecond to 366 days"},
		{"unknown unit", "10", "10", "fortnight", "log", "unit", "Choose one"},
		{"unknown algorithm", "10", "10", "second", "magic", "algorithm", "Choose one"},
		{"markup", "<script>", "10", "second", "log", "requests", "Type a whole number"},
		{"long", strings.Repeat("9", 5000), "10", "second", "log", "requests", "Type a whole number"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newSite(t).login()
			got := s.post(limitsPath, limitsOf(1, [4]string{"77", "7", "minute", "counter"}, [4]string{row.requests, row.window, row.unit, row.algorithm}))
			id := "limits-1-" + row.field
			got.wants(t, http.StatusUnprocessableEntity,
				`aria-describedby="`+id+`-error"`, `<p class="wrong" id="`+id+`-error">`, row.message, "Nothing was saved: 1 field needs",
				`name="limits[0].requests" value="77"`, `name="limits[0].window" value="7"`,
			)
			if typed := row.requests; len(typed) < form.MaxInput && !strings.ContainsAny(typed, "<") && !strings.Contains(got.body, `value="`+typed+`"`) {
				t.Errorf("%q was not kept", typed)
			}
			if strings.Count(got.body, `class="wrong"`) != 1 || strings.Count(got.body, `aria-invalid="true"`) != 1 {
				t.Error("other fields are marked too")
			}
			if strings.Contains(got.body, "<script>") || len(got.body) > 30_000 {
				t.Error("what was typed is not escaped and bounded")
			}
			if s.keys.written() != 0 {
				t.Error("it was written")
			}
		})
	}
}

func TestNoLimits(t *testing.T) {
	s := newSite(t).login()
	for _, form := range []url.Values{limitsOf(1), limitsOf(1, [4]string{"", "", "second", "log"})} {
		s.post(limitsPath, form).wants(t, http.StatusUnprocessableEntity, "A key needs at least one limit, unless")
	}
	if s.keys.written() != 0 {
		t.Error("it was written")
	}
}

// What only the store finds wrong is shown at its field too, although blank rows stand
// before it.
func TestStoreRefuses(t *testing.T) {
	s := newSite(t).login()
	s.keys.save(func(set *policy.Set) {
		set.Plans[0].Limits = []limiter.Limit{per(1000, time.Minute)}
		set.Routes = []policy.Route{{Name: "export", Cost: 600}}
	})
	s.post(limitsPath, limitsOf(1, [4]string{"", "", "second", "log"}, [4]string{"501", "1", "hour", "log"})).
		wants(t, http.StatusUnprocessableEntity,
			`<p class="wrong" id="limits-1-requests-error">It is 501: a call of route &#34;export&#34; costs 600 and could never pass.</p>`)
}

// An edit of a key that somebody changed meanwhile writes nothing and shows both; saving
// again, knowing that, replaces theirs.
func TestConflict(t *testing.T) {
	s := newSite(t).login()
	s.keys.override("acme", per(77, time.Hour))
	mine := [4]string{"20", "10", "second", "log"}
	got := s.post(limitsPath, limitsOf(1, mine)).wants(t, http.StatusConflict,
		"<bdi>test</bdi> saved meanwhile", "<li><bdi>77 per hour</bdi></li>", "<li><bdi>20 per 10 seconds</bdi></li>",
		`name="version" value="2"`, `name="limits[0].requests" value="20"`, "Save mine over theirs", "Keep theirs and drop mine")
	if !strings.Contains(got.body, `href="/keys/{acme}"`) {
		t.Error("no way to drop the edit")
	}
	if s.keys.written() != 0 || s.keys.key("acme").Override.Limits[0].Requests != 77 {
		t.Fatal("the edit was written over theirs")
	}
	s.post(limitsPath, limitsOf(2, mine)).wants(t, http.StatusSeeOther)
	s.get("/keys/{acme}").wants(t, http.StatusOK, "Saved: 77 per hour → 20 per 10 seconds")
}

// Both sides of a conflict say all that there is to their limits.
func TestConflictInFull(t *testing.T) {
	s := newSite(t).login()
	s.keys.override("acme", monthly, coarse)
	s.post(limitsPath, with(limitsOf(1, [4]string{"20", "10", "second", "log"}), "limits[0].countDenied", "yes", "limits[0].slots", "99")).
		wants(t, http.StatusConflict, "<li><bdi>1,000 per calendar month (Europe/Berlin), fixed window; 5,000 per hour, 2,500 slots</bdi></li>",
			"<li><bdi>20 per 10 seconds, denied calls count, 99 slots</bdi></li>", `name="limits[0].countDenied" value="yes" checked`)
}

// Rows are added and removed without JavaScript and without saving, up to the most that a
// key can have; what was typed stays.
func TestRowsWithoutScript(t *testing.T) {
	s := newSite(t).login()
	form := limitsOf(1, [4]string{"ten", "10", "second", "log"}, [4]string{"5", "1", "hour", "counter"})
	form.Set("action", "add:limits")
	got := s.post(limitsPath, form).wants(t, http.StatusOK, `value="ten"`, `name="limits[2].requests" value=""`, `value="remove:limits:2"`)
	if strings.Contains(got.body, `class="wrong"`) {
		t.Error("adding a row complains about the others")
	}
	form.Set("action", "remove:limits:0")
	got = s.post(limitsPath, form).wants(t, http.StatusOK, `name="limits[0].requests" value="5"`, "5 per hour")
	if strings.Contains(got.body, `value="ten"`) || strings.Contains(got.body, `value="remove:limits:0"`) {
		t.Error("the row is still there, or the last one can be removed")
	}
	for _, action := range []string{"remove:limits:7", "remove:limits:-1", "remove:limits:x"} {
		form.Set("action", action)
		s.post(limitsPath, form).wants(t, http.StatusOK, `value="ten"`, `name="limits[1].requests" value="5"`)
	}
	if s.keys.written() != 0 {
		t.Error("changing rows wrote")
	}
}

func TestMostRows(t *testing.T) {
	s := newSite(t).login()
	var rows [][4]string
	for i := range limiter.MaxLimits {
		rows = append(rows, [4]string{fmt.Sprint(i + 1), fmt.Sprint(i + 1), "hour", "log"})
	}
	form := limitsOf(1, rows...)
	form.Set("action", "add:limits")
	got := s.post(limitsPath, form).wants(t, http.StatusOK, `name="limits[7].requests" value="8"`)
	if strings.Contains(got.body, "Add a limit") || strings.Contains(got.body, "limits[8]") {
		t.Error("a ninth limit is offered")
	}
	s.post(limitsPath, limitsOf(1, rows...)).wants(t, http.StatusSeeOther)
	s.post(limitsPath, limitsOf(2, append(rows, [4]string{"9", "9", "hour", "log"})...)).wants(t, http.StatusBadRequest)
}

func TestForeignForm(t *testing.T) {
	s := newSite(t).login()
	for _, version := range []string{"", "x", "1.5", "99999999999999999999"} {
		form := limitsOf(1, [4]string{"20", "1", "hour", "log"})
		form.Set("version", version)
		s.post(limitsPath, form).wants(t, http.StatusBadRequest)
	}
	s.post("/keys/ZZZZZZZZZZZZ/limits", limitsOf(1)).wants(t, http.StatusNotFound)
	if s.keys.written() != 0 {
		t.Error("it was written")
	}
}

func TestRevokedKey(t *testing.T) {
	s := newSite(t).login()
	s.keys.update("acme", func(k *policy.Key) { k.Status = policy.Revoked })
	s.get(limitsPath).wants(t, http.StatusConflict, "This key is revoked")
	s.post(limitsPath, limitsOf(2, [4]string{"20", "1", "hour", "log"})).wants(t, http.StatusConflict, "This key is revoked")
	if s.keys.written() != 0 {
		t.Error("it was written")
	}
}
