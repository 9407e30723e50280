package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

const limitsPath = "/keys/{acme}/limits"

// withLimits is the option of a registry with the key acme, whose plan has the limits.
func withLimits(t *testing.T, limits ...limiter.Limit) sitetest.Option {
	keys := sitetest.NewRegistry(t)
	keys.Add("acme", limits...)
	return sitetest.WithKeys(keys)
}

func TestEditForm(t *testing.T) {
	s := sitetest.New(
		t,
		withLimits(t, sitetest.Per(100, 10*time.Second), limiter.Limit{
			Requests: 1500, Window: 90 * time.Minute, Algorithm: limiter.Counter,
		}),
	).Login()
	s.Get(limitsPath).Wants(t, http.StatusOK,
		`name="version" value="1"`,
		`name="limits[0].requests" value="100"`, `name="limits[0].window" value="10"`,
		`<option value="second" selected>`, "100 per 10 seconds",
		`name="limits[1].requests" value="1,500"`, `name="limits[1].window" value="90"`,
		`<option value="minute" selected>`,
		`<option value="counter" selected data-mark="counter">`, "1,500 per 90 minutes",
	)
}

// The form has every field of a limit, so an edit of one keeps the others. Rarely used
// fields are open if one has a value.
func TestEditKeepsEveryField(t *testing.T) {
	s := sitetest.New(
		t, withLimits(t, sitetest.Monthly, sitetest.Hammered, sitetest.Coarse, sitetest.Per(7, time.Minute)),
	).Login()
	page := s.Get(limitsPath).Wants(t, http.StatusOK,
		`<option value="calendar month" selected>`, `name="limits[0].window" value="1"`,
		`name="limits[0].zone" value="Europe/Berlin"`,
		"1,000 per calendar month (Europe/Berlin), fixed window",
		`name="limits[1].countDenied" value="yes" checked`, "100 per 10 seconds, denied calls count",
		`name="limits[2].slots" value="2,500"`, "5,000 per hour, 2,500 slots, notify at 80/100 %",
		`name="limits[3].zone" value=""`, `name="limits[3].slots" value=""`,
	)
	if open := strings.Count(
		page.Body, `<details class="more" open>`,
	); open != 3 || strings.Count(page.Body, " checked") != 1 {
		t.Errorf("%d rows are open, want 3, and one checked box", open)
	}
	form := sitetest.With(sitetest.LimitsForm(1, [4]string{"1,000", "1", "calendar month", "fixed-window"},
		[4]string{"101", "10", "second", "log"},
		[4]string{"5,000", "1", "hour", "log"}, [4]string{"7", "1", "minute", "log"}),
		"limits[0].zone", "Europe/Berlin", "limits[1].countDenied", "yes",
		"limits[2].slots", "2,500", "limits[2].notify", "80, 100")
	s.PostAnyway(limitsPath, form).Wants(t, http.StatusSeeOther)
	want := []limiter.Limit{sitetest.Monthly, sitetest.Hammered, sitetest.Coarse,
		sitetest.Per(7, time.Minute)}
	want[1].Requests = 101
	if diff := cmp.Diff(want, s.Keys.Key("acme").Override.Limits); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK,
		"Saved: 1,000 per calendar month (Europe/Berlin), fixed window; "+
			"100 per 10 seconds, denied calls count; 5,000 per hour, 2,500 slots, notify at 80/100 %; "+
			"7 per minute → ")
}

func TestSaveCalendar(t *testing.T) {
	for _, row := range []struct {
		window, unit, zone string
		want               limiter.Limit
	}{
		{"1", "calendar minute", "", limiter.Limit{Calendar: limiter.Minute}},
		{"", "calendar hour", " Asia/Kolkata ", limiter.Limit{Calendar: limiter.Hour, Zone: "Asia/Kolkata"}},
		{" ", "calendar day", "UTC", limiter.Limit{Calendar: limiter.Day, Zone: "UTC"}},
		{"1", "calendar week", "", limiter.Limit{Calendar: limiter.Week}},
		{"", "calendar year", "Asia/Tokyo", limiter.Limit{Calendar: limiter.Year, Zone: "Asia/Tokyo"}},
		{" 1 ", "calendar month", "America/Argentina/ComodRivadavia",
			limiter.Limit{Calendar: limiter.Month, Zone: "America/Argentina/ComodRivadavia"}},
	} {
		s := sitetest.New(t).Login()
		s.Post(
			limitsPath,
			sitetest.With(
				sitetest.LimitsForm(1, [4]string{"50", row.window, row.unit, "fixed-window"}),
				"limits[0].zone", row.zone,
			),
		).
			Wants(t, http.StatusSeeOther)
		row.want.Requests, row.want.Algorithm = 50, limiter.FixedWindow
		if diff := cmp.Diff([]limiter.Limit{row.want}, s.Keys.Key("acme").Override.Limits); diff != "" {
			t.Errorf("%s saved (-want +got):\n%s", row.unit, diff)
		}
	}
}

// Fields that exclude each other give an error at the field to change. The typed text is
// kept and visible.
func TestInvalidCombinations(t *testing.T) {
	second := [4]string{"10", "1", "second", "log"}
	month := [4]string{"10", "1", "calendar month", "fixed-window"}
	counter := [4]string{"10", "1", "second", "counter"}
	rows := []struct {
		name           string
		limit          [4]string
		typed, text    string
		field, message string
	}{
		{"calendar with the log", [4]string{"10", "1", "calendar month", "log"}, "zone", "UTC", "unit",
			"Only the fixed window algorithm has calendar units"},
		{"calendar with a bucket", [4]string{"10", "", "calendar day", "token-bucket"}, "zone", "", "unit",
			"Choose it, or another unit."},
		{"two months", [4]string{"10", "2", "calendar month", "fixed-window"}, "zone", "UTC", "window",
			"Enter 1 with a calendar unit, or leave this blank."},
		{"months as a word", [4]string{"10", "one", "calendar month", "fixed-window"}, "zone", "UTC",
			"window", "Enter 1 with a calendar unit, or leave this blank."},
		{"calendar without requests", [4]string{"", "", "calendar month", "fixed-window"}, "zone", "",
			"requests", "Enter the number of calls"},
		{"unknown calendar", [4]string{"10", "1", "calendar decade", "fixed-window"}, "zone", "UTC", "unit",
			"Choose one"},
		{"empty calendar", [4]string{"10", "1", "calendar ", "fixed-window"}, "zone", "UTC", "unit",
			"Choose one"},
		{"zone without calendar", second, "zone", "Europe/Berlin", "zone",
			"Only calendar units have a time zone"},
		{"unknown zone", month, "zone", "Mars/Olympus", "zone", "such as Europe/Berlin"},
		{"zone of the machine", month, "zone", "Local", "zone", "such as Europe/Berlin"},
		{"zone as a path", month, "zone", "../../etc/passwd", "zone", "such as Europe/Berlin"},
		{"long zone", month, "zone", strings.Repeat("x", 70), "zone", "such as Europe/Berlin"},
		{"denied calls of a counter", counter, "countDenied", "yes", "countDenied",
			"Only the log algorithm can count denied calls"},
		{"denied calls of a calendar", month, "countDenied", "yes", "countDenied",
			"Only the log algorithm can count denied calls"},
		{"slots of a counter", counter, "slots", "64", "slots", "Only the log algorithm has slots"},
		{"few slots", second, "slots", "63", "slots", "Must be 64 to 100,000."},
		{"many slots", second, "slots", "100001", "slots", "Must be 64 to 100,000."},
		{"no slots", second, "slots", "0", "slots", "Must be 64 to 100,000."},
		{"slots as a word", second, "slots", "many", "slots", "Enter a whole number"},
		{"only slots", [4]string{"", "1", "second", "log"}, "slots", "64", "requests",
			"Enter the number of calls"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := sitetest.New(t).Login()
			got := s.Post(
				limitsPath, sitetest.With(sitetest.LimitsForm(1, row.limit),
					"limits[0]."+row.typed, row.text),
			)
			id := "limits-0-" + row.field
			got.Wants(t, http.StatusUnprocessableEntity, `aria-describedby="`+id+`-error"`,
				`<p class="wrong" id="`+id+`-error">`, row.message,
				"Not saved. Fix 1 field.", `name="limits[0].`+row.typed+`" value="`+row.text+`"`,
				`name="limits[0].window" value="`+row.limit[1]+`"`)
			if strings.Count(got.Body, `class="wrong"`) != 1 ||
				strings.Count(got.Body, `aria-invalid="true"`) != 1 {
				t.Error("other fields are marked as invalid too")
			}
			if open := strings.Contains(got.Body, `<details class="more" open>`); open != (row.text != "") {
				t.Errorf("the rarely used fields are open: %v, want %v", open, row.text != "")
			}
			if s.Keys.Written() != 0 {
				t.Error("the form was written")
			}
		})
	}
}

// All errors of a row are shown at once.
func TestSeveralErrors(t *testing.T) {
	s := sitetest.New(t).Login()
	form := sitetest.With(sitetest.LimitsForm(1, [4]string{"ten", "1", "second", "counter"}),
		"limits[0].zone", "Mars", "limits[0].slots", "64", "limits[0].countDenied", "yes")
	got := s.Post(limitsPath, form).Wants(
		t, http.StatusUnprocessableEntity, "Not saved. Fix 4 fields.", " checked",
	)
	for _, field := range []string{"requests", "zone", "slots", "countDenied"} {
		got.Wants(t, http.StatusUnprocessableEntity, `<p class="wrong" id="limits-0-`+field+`-error">`)
	}
}

// An edit is saved, and the key's page shows the change once.
func TestSaveOverride(t *testing.T) {
	s := sitetest.New(t).Login()
	got := s.Post(
		limitsPath,
		sitetest.LimitsForm(1, [4]string{"1,000", "10", "second", "log"}, [4]string{
			" 2 000 000 ", "1", "day", "counter",
		}),
	)
	got.Wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/keys/{acme}" {
		t.Errorf("the save redirects to %q, want /keys/{acme}", to)
	}
	want := []limiter.Limit{
		sitetest.Per(1000, 10*time.Second),
		{Requests: 2_000_000, Window: 24 * time.Hour, Algorithm: limiter.Counter},
	}
	if diff := cmp.Diff(want, s.Keys.Key("acme").Override.Limits); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	const flash = "Saved: 10 per 10 seconds → 1,000 per 10 seconds; 2,000,000 per day, counter. Effective " +
		"immediately."
	if refresh := s.Refresh("/keys/{acme}"); strings.Contains(refresh.Body, flash) {
		t.Error("a live refresh has the message")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, flash)
	if again := s.Get("/keys/{acme}"); strings.Contains(again.Body, flash) {
		t.Error("the message is shown twice")
	}
}

func TestSaveWithoutChange(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("acme", sitetest.Per(10, 10*time.Second))
	s.Post(
		limitsPath,
		sitetest.LimitsForm(2, [4]string{"10", "10000", "millisecond", "log"},
			[4]string{"", " ", "second", "log"}),
	).Wants(t, http.StatusSeeOther)
	if s.Keys.Written() != 0 {
		t.Error("an edit that changes nothing was written")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Nothing changed")
}

// An invalid field gets an error, and all typed text is kept.
func TestInvalidLimits(t *testing.T) {
	rows := []struct {
		name             string
		requests, window string
		unit, algorithm  string
		field, message   string
	}{
		{"word", "ten", "10", "second", "log", "requests", "Enter a whole number"},
		{"fraction", "1.5", "10", "second", "log", "requests", "Enter a whole number"},
		{"comma in the wrong place", "1,5", "10", "second", "log", "requests", "Enter a whole number"},
		{"hexadecimal", "0x10", "10", "second", "log", "requests", "Enter a whole number"},
		{"exponent", "1e3", "10", "second", "log", "requests", "Enter a whole number"},
		{"negative", "-5", "10", "second", "log", "requests", "Enter a whole number"},
		{"other digits", "١٢٣", "10", "second", "log", "requests", "Enter a whole number"},
		{"zero", "0", "10", "second", "log", "requests", "Must be 1 to 1,000,000,000."},
		{"too many", "1000000001", "10", "second", "log", "requests", "Must be 1 to 1,000,000,000."},
		{"overflow", "99999999999999999999999", "10", "second", "log", "requests",
			"Must be 1 to 1,000,000,000."},
		{"no requests", "", "10", "second", "log", "requests", "Enter the number of calls"},
		{"no window", "10", "", "second", "log", "window", "Enter the window length"},
		{"zero window", "10", "0", "second", "log", "window", "Must be 1 to"},
		{"too long", "10", "367", "day", "log", "window", "Must be 1 to 366 days."},
		{"window overflow", "10", "31622400000", "day", "log", "window", "Must be 1 to 366 days."},
		{"unknown unit", "10", "10", "fortnight", "log", "unit", "Choose one"},
		{"unknown algorithm", "10", "10", "second", "magic", "algorithm", "Choose one"},
		{"markup", "<script>", "10", "second", "log", "requests", "Enter a whole number"},
		{"long", strings.Repeat("9", 5000), "10", "second", "log", "requests", "Enter a whole number"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := sitetest.New(t).Login()
			got := s.Post(
				limitsPath,
				sitetest.LimitsForm(1, [4]string{"77", "7", "minute", "counter"}, [4]string{
					row.requests, row.window, row.unit, row.algorithm,
				}),
			)
			id := "limits-1-" + row.field
			got.Wants(t, http.StatusUnprocessableEntity,
				`aria-describedby="`+id+`-error"`, `<p class="wrong" id="`+id+`-error">`, row.message,
				"Not saved. Fix 1 field.",
				`name="limits[0].requests" value="77"`, `name="limits[0].window" value="7"`,
			)
			if typed := row.requests; len(typed) < form.MaxInput && !strings.ContainsAny(typed, "<") &&
				!strings.Contains(got.Body, `value="`+typed+`"`) {
				t.Errorf("the form lacks the typed %q", typed)
			}
			if strings.Count(got.Body, `class="wrong"`) != 1 ||
				strings.Count(got.Body, `aria-invalid="true"`) != 1 {
				t.Error("other fields are marked as invalid too")
			}
			if strings.Contains(got.Body, "<script>") || len(got.Body) > 30_000 {
				t.Error("the typed text is not escaped, or the page is not bounded")
			}
			if s.Keys.Written() != 0 {
				t.Error("the form was written")
			}
		})
	}
}

func TestNoLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, form := range []url.Values{
		sitetest.LimitsForm(1), sitetest.LimitsForm(1, [4]string{"", "", "second", "log"}),
	} {
		s.Post(limitsPath, form).Wants(t, http.StatusUnprocessableEntity, "Add at least one limit")
	}
	if s.Keys.Written() != 0 {
		t.Error("the form was written")
	}
}

// An error that only the store finds is shown at its field, also after blank rows.
func TestErrorOfStore(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) {
		set.Plans[0].Limits = []limiter.Limit{sitetest.Per(1000, time.Minute)}
		set.Routes = []policy.Route{{Name: "export", Cost: 600}}
	})
	s.Post(
		limitsPath,
		sitetest.LimitsForm(1, [4]string{"", "", "second", "log"}, [4]string{"501", "1", "hour", "log"}),
	).
		Wants(t, http.StatusUnprocessableEntity,
			`<p class="wrong" id="limits-1-requests-error">It is 501: a call of route &#34;export&#34; costs 600 and could never pass.</p>`)
}

// An edit of a key that somebody else changed meanwhile writes nothing and shows both
// versions. Saving again overwrites the other one.
func TestConflict(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("acme", sitetest.Per(77, time.Hour))
	mine := [4]string{"20", "10", "second", "log"}
	got := s.Post(limitsPath, sitetest.LimitsForm(1, mine)).Wants(t, http.StatusConflict,
		"<bdi>test</bdi> saved first", "<li><bdi>77 per hour</bdi></li>",
		"<li><bdi>20 per 10 seconds</bdi></li>",
		`name="version" value="2"`, `name="limits[0].requests" value="20"`, "Overwrite with my changes",
		"Discard my changes")
	if !strings.Contains(got.Body, `href="/keys/{acme}"`) {
		t.Error("the page lacks a link that discards the edit")
	}
	if s.Keys.Written() != 0 || s.Keys.Key("acme").Override.Limits[0].Requests != 77 {
		t.Fatal("the edit overwrote the other change")
	}
	s.Post(limitsPath, sitetest.LimitsForm(2, mine)).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Saved: 77 per hour → 20 per 10 seconds")
}

// Both sides of a conflict show every field of their limits.
func TestConflictShowsEveryField(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("acme", sitetest.Monthly, sitetest.Coarse)
	s.Post(
		limitsPath,
		sitetest.With(
			sitetest.LimitsForm(1, [4]string{"20", "10", "second", "log"}), "limits[0].countDenied", "yes",
			"limits[0].slots", "99",
		),
	).
		Wants(t, http.StatusConflict, "<li><bdi>1,000 per calendar month (Europe/Berlin), fixed window; "+
			"5,000 per hour, 2,500 slots, notify at 80/100 %</bdi></li>",
			"<li><bdi>20 per 10 seconds, denied calls count, 99 slots</bdi></li>",
			`name="limits[0].countDenied" value="yes" checked`)
}

// Without JavaScript, buttons add and remove limits without saving, and keep the typed
// text. One limit always remains.
func TestRowsWithoutScript(t *testing.T) {
	s := sitetest.New(t).Login()
	form := sitetest.LimitsForm(1, [4]string{"ten", "10", "second", "log"}, [4]string{
		"5", "1", "hour", "counter",
	})
	form.Set("action", "add:limits")
	got := s.Post(limitsPath, form).Wants(
		t, http.StatusOK, `value="ten"`, `name="limits[2].requests" value=""`, `value="remove:limits:2"`,
	)
	if strings.Contains(got.Body, `class="wrong"`) {
		t.Error("adding a limit shows errors of the others")
	}
	form.Set("action", "remove:limits:0")
	got = s.Post(limitsPath, form).Wants(t, http.StatusOK,
		`name="limits[0].requests" value="5"`, "5 per hour")
	if strings.Contains(got.Body, `value="ten"`) || strings.Contains(got.Body, `value="remove:limits:0"`) {
		t.Error("the removed limit is still there, or the last one can be removed")
	}
	for _, action := range []string{"remove:limits:7", "remove:limits:-1", "remove:limits:x"} {
		form.Set("action", action)
		s.Post(limitsPath, form).Wants(t, http.StatusOK, `value="ten"`, `name="limits[1].requests" value="5"`)
	}
	if s.Keys.Written() != 0 {
		t.Error("adding or removing a limit wrote something")
	}
}

// The form offers at most limiter.MaxLimits limits, and more are refused.
func TestMaxLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	var rows [][4]string
	for i := range limiter.MaxLimits {
		rows = append(rows, [4]string{fmt.Sprint(i + 1), fmt.Sprint(i + 1), "hour", "log"})
	}
	form := sitetest.LimitsForm(1, rows...)
	form.Set("action", "add:limits")
	got := s.Post(limitsPath, form).Wants(t, http.StatusOK, `name="limits[7].requests" value="8"`)
	if strings.Contains(got.Body, "Add a limit") || strings.Contains(got.Body, "limits[8]") {
		t.Error("the form offers a ninth limit")
	}
	s.PostAnyway(limitsPath, sitetest.LimitsForm(1, rows...)).Wants(t, http.StatusSeeOther)
	s.Post(
		limitsPath, sitetest.LimitsForm(2, append(rows, [4]string{"9", "9", "hour", "log"})...),
	).Wants(t, http.StatusBadRequest)
}

// A form without a valid version is refused, and so is one of an unknown key.
func TestForeignForm(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, version := range []string{"", "x", "1.5", "99999999999999999999"} {
		form := sitetest.LimitsForm(1, [4]string{"20", "1", "hour", "log"})
		form.Set("version", version)
		s.Post(limitsPath, form).Wants(t, http.StatusBadRequest)
	}
	s.Post("/keys/ZZZZZZZZZZZZ/limits", sitetest.LimitsForm(1)).Wants(t, http.StatusNotFound)
	if s.Keys.Written() != 0 {
		t.Error("the form was written")
	}
}

// The limits of a revoked key cannot be edited.
func TestLimitsOfRevokedKey(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Status = policy.Revoked })
	s.Get(limitsPath).Wants(t, http.StatusConflict, "This key is revoked")
	s.Post(limitsPath, sitetest.LimitsForm(2, [4]string{"20", "1", "hour", "log"})).Wants(
		t, http.StatusConflict, "This key is revoked",
	)
	if s.Keys.Written() != 0 {
		t.Error("the form was written")
	}
}
