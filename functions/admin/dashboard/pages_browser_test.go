package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// sampleKeys is a registry with a key of each kind.
func sampleKeys(t testing.TB) *testRegistry {
	estimate := limiter.Limit{Requests: 44, Window: 366 * 24 * time.Hour, Algorithm: limiter.Counter}
	abroad := monthly
	abroad.Zone = "America/Argentina/ComodRivadavia"
	keys := newRegistry(t, "acme", "bolt", "chandlery", "dinghy")
	keys.override("chandlery", per(100, 10*time.Second), estimate)
	keys.update("dinghy", func(k *policy.Key) { k.Status = policy.Revoked })
	keys.ids["endless"] = keys.create(strings.Repeat("endless-", 12), "free").ID
	keys.add("ferry", abroad, hammered, coarse, limiter.Limit{Requests: 9, Window: time.Minute, CountDenied: true, Slots: 64})
	keys.use("acme", 10)
	keys.use("chandlery", 37, 37)
	keys.called("acme", time.Now().Add(-5*time.Minute), 30, 4)
	return keys
}

// handTimers makes a page's refresh timers wait until the test fires them; the list of
// due ones is window.due.
const handTimers = `
	window.due = new Map();
	{
		const delays = [2000, 4000, 8000, 16000, 30000], set = window.setTimeout, clear = window.clearTimeout;
		let last = 0;
		window.setTimeout = (f, ms, ...args) => {
			if (!delays.includes(ms)) return set(f, ms, ...args);
			due.set(--last, { f, ms });
			return last;
		};
		window.clearTimeout = (id) => { due.delete(id) || clear(id); };
		window.fire = () => { const [[id, { f }]] = due; due.delete(id); f(); };
		window.waits = () => [...due.values()].map(({ ms }) => ms).join();
	}`

func (v *visit) handTimers() {
	v.t.Helper()
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: handTimers}
	if _, err := chromedp.Call(v.ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		v.t.Fatal(err)
	}
}

func (v *visit) fire() { v.t.Helper(); v.act(chromedp.Evaluate[chromedp.Void]("fire()")) }

// Live figures change without a reload, while focus and typed text stay; nothing is asked
// for while the tab is hidden.
func TestBrowserLiveRefresh(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.handTimers()
	v.open("/keys?live=2")
	v.wait(`waits() === "2000"`)
	v.act(
		chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`),
		chromedp.SendKeys(chromedp.CSS("#q"), "half a wo"),
		chromedp.Evaluate[chromedp.Void](`document.querySelector("#q").setSelectionRange(4, 6)`),
	)
	v.keys.use("bolt", 7)
	v.fire()
	v.wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.wait(`waits() === "2000"`)
	v.wait(`/^updated \d s ago$/.test(document.querySelector("#age").textContent)`)
	state := eval[string](v, `[sameDocument, document.activeElement.id, q.value, q.selectionStart, q.selectionEnd].join()`)
	if state != "true,q,half a wo,4,6" {
		t.Errorf("after a refresh: %s", state)
	}
	v.act(chromedp.Evaluate[chromedp.Void](v.keys.named(`document.querySelector("#key-{bolt} a").focus()`)))
	v.keys.use("bolt", 10)
	v.fire()
	v.wait(`document.querySelector("#key-{bolt}").textContent.includes("blocked now")`)
	if got := eval[string](v, `document.activeElement.textContent`); got != "bolt" {
		t.Errorf("the focus is on %q, was on the link to bolt", got)
	}
	v.wait(`waits() === "2000"`)
	v.hide(true)
	v.wait(`waits() === ""`)
	v.keys.use("bolt", 1)
	v.hide(false)
	v.wait(`document.querySelector("#key-{bolt} .used").textContent.includes("1 of 10")`)
	v.wait(`waits() === "2000"`)
	v.noComplaints("")
}

// hide makes the page believe that its tab is hidden, or shown again.
func (v *visit) hide(hidden bool) {
	v.t.Helper()
	v.act(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`Object.defineProperty(document, "hidden", { value: %v, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`, hidden)))
}

// Without an answer the last figures stay, are shown as old, and are asked for ever more
// seldom; the first answer ends that.
func TestBrowserStoreAway(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.handTimers()
	v.open("/keys/{acme}?live=2")
	v.wait(`waits() === "2000"`)
	v.keys.fail("away")
	for _, wait := range []string{"2000", "4000", "8000", "16000", "30000", "30000"} {
		v.fire()
		v.wait(`waits() === "` + wait + `"`)
		if !eval[bool](v, `stale.textContent.includes("last known figures") && live.textContent.includes("10 of 10") &&
			getComputedStyle(document.querySelector("#live table")).filter.includes("grayscale") && age.textContent.startsWith("updated ")`) {
			t.Fatalf("the page is %s", eval[string](v, "document.body.innerText"))
		}
	}
	v.keys.fail("")
	v.keys.use("acme", 3)
	v.fire()
	v.wait(`stale.textContent === "" && live.textContent.includes("3 of 10") && waits() === "2000"`)
	v.noComplaints("503")
}

// A session that ends during live refresh leads to the login and back to the same
// address.
func TestBrowserSessionExpires(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.handTimers()
	v.open("/keys?live=2&q=a")
	v.wait(`waits() === "2000"`)
	v.forgetSessions()
	v.fire()
	v.act(
		chromedp.WaitVisible(chromedp.CSS("[name=password]")),
		chromedp.SendKeys(chromedp.CSS("[name=user]"), testUser),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), testSecret+"\n"),
		chromedp.WaitReady(chromedp.CSS("#live")),
	)
	if at := eval[string](v, `location.pathname + location.search`); at != "/keys?live=2&q=a" {
		t.Errorf("after the login: %s", at)
	}
	v.noComplaints("401")
}

// forgetSessions ends all sessions, as their store does after a while.
func (v *visit) forgetSessions() {
	v.t.Helper()
	if len(v.store.Keys()) == 0 {
		v.t.Fatal("there is no session")
	}
	v.store.FlushAll()
}

// noComplaints checks that the browser wrote no error, but for loads that failed with a
// status that the test caused.
func (v *visit) noComplaints(status string) {
	v.t.Helper()
	for _, c := range v.complaints() {
		if status == "" || !strings.Contains(c, "the server responded with a status of "+status) {
			v.t.Errorf("the browser complains: %s", c)
		}
	}
}

// shown is a page in one of its states.
type shown struct {
	name, path, status string
	prepare            func(*visit)
}

var everyAlgorithm, _ = simulateAll(presets[1])

// makeToken fills in the form, as an editor would.
func makeToken(v *visit) {
	v.act(
		chromedp.SendKeys(chromedp.CSS("#token-name"), "continuous integration of the warehouse in Rotterdam"),
		chromedp.SetValue(chromedp.CSS("#token-scope"), "write"),
		chromedp.Click(chromedp.CSS("form.panel button")),
		chromedp.WaitVisible(chromedp.CSS("#secret")),
	)
}

func shownPages() []shown {
	because := chromedp.SetValue(chromedp.CSS("#reason"), "asked for by their support")
	invalid := func(v *visit) {
		v.act(
			because,
			chromedp.SetValue(chromedp.CSS("#limits-0-requests"), "ten"),
			chromedp.Click(chromedp.CSS(".actions button")),
			chromedp.WaitVisible(chromedp.CSS(".wrong")),
		)
	}
	open := func(v *visit) {
		v.act(chromedp.Click(chromedp.CSS(".more summary")), chromedp.WaitVisible(chromedp.CSS("#limits-0-zone")))
	}
	allWrong := func(v *visit) {
		v.act(chromedp.SetValue(chromedp.CSS("#limits-0-unit"), "calendar month"))
		v.retype("#limits-0-window", "12")
		open(v)
		v.retype("#limits-0-zone", "Mars/Olympus Mons")
		v.retype("#limits-0-slots", "7")
		v.act(
			chromedp.SetValue(chromedp.CSS("#limits-0-algorithm"), "counter"),
			chromedp.Click(chromedp.CSS("#limits-0-countDenied")),
			chromedp.Click(chromedp.CSS(".actions button")),
			chromedp.WaitVisible(chromedp.CSS("#limits-0-countDenied-error")),
		)
	}
	conflict := func(v *visit) {
		v.keys.update("chandlery", func(k *policy.Key) { k.Tags = []string{"meanwhile"} })
		v.act(
			because,
			chromedp.SetValue(chromedp.CSS("#limits-0-requests"), "12"),
			chromedp.Click(chromedp.CSS(".actions button")),
			chromedp.WaitVisible(chromedp.CSS(".conflict")),
		)
	}
	saved := func(v *visit) {
		v.act(
			because,
			chromedp.SetValue(chromedp.CSS("#limits-0-requests"), "1,234"),
			chromedp.Click(chromedp.CSS(".actions button")),
			chromedp.WaitVisible(chromedp.CSS(".notice.good")),
		)
	}
	return []shown{
		{"keys", "/keys?live=2", "", nil},
		{"nothing found", "/keys?q=zzz", "", nil},
		{"key", "/keys/{chandlery}", "", nil},
		{"blocked key", "/keys/{acme}?live=30", "", nil},
		{"revoked key", "/keys/{dinghy}", "", nil},
		{"long name", "/keys/{endless}", "", nil},
		{"limits", "/keys/{chandlery}/limits", "", nil},
		{"limits of a long name", "/keys/{endless}/limits", "", nil},
		{"invalid limits", "/keys/{acme}/limits", "422", invalid},
		{"key with every field", "/keys/{ferry}", "", nil},
		{"limits with every field", "/keys/{ferry}/limits", "", nil},
		{"limits opened", "/keys/{acme}/limits", "", open},
		{"every field invalid", "/keys/{acme}/limits", "422", allWrong},
		{"saved", "/keys/{acme}/limits", "", saved},
		{"conflict", "/keys/{chandlery}/limits", "409", conflict},
		{"simulate", "/simulate", "", nil},
		{"simulate every algorithm", everyAlgorithm, "", nil},
		{"simulate bad input", "/simulate?limit=x&rate=0&windows=9999999&shape=q&seed=", "422", nil},
		{"simulate recorded, bad input", "/simulate?shape=recorded&minutes=a", "422", nil},
		{"try calls", "/simulate/calls?times=0s,1m30.5s,1h1m1.123456s+x3", "", nil},
		{"try calls bad input", "/simulate/calls?limit=x&times=soon", "422", nil},
		{"keyboard", "/keys", "", func(v *visit) { v.press("?"); v.act(chromedp.WaitVisible(chromedp.CSS("#keyboard"))) }},
		{"settings", "/settings", "", nil},
		{"token made", "/settings", "", makeToken},
		{"tokens", "/settings", "", nil},
		{"token refused", "/settings", "422", func(v *visit) {
			v.act(chromedp.Click(chromedp.CSS("form.panel button")), chromedp.WaitVisible(chromedp.CSS("#token-name-error")))
		}},
		{"not found", "/nothing", "404", nil},
		{"store away", "/keys?q=away", "503", func(v *visit) { v.keys.fail("away"); v.open("/keys") }},
	}
}

// Every page, in each of its states: no console or policy error, no sideways scroll from
// 360 to 2560 px, and no finding of axe in light and dark.
func TestBrowserPages(t *testing.T) {
	axe := axeScript(t)
	v := newVisit(t, withKeys(sampleKeys(t)))
	t.Run("login", func(t *testing.T) { v.open("/login"); v.look(t, axe, "") })
	t.Run("login refused", func(t *testing.T) {
		v.act(
			chromedp.SendKeys(chromedp.CSS("[name=user]"), testUser),
			chromedp.SendKeys(chromedp.CSS("[name=password]"), "n0t-it\n"),
			chromedp.WaitVisible(chromedp.CSS("#login-error")),
		)
		v.look(t, axe, "401")
	})
	v.enter()
	for _, p := range shownPages() {
		t.Run(p.name, func(t *testing.T) {
			v.t = t
			v.open(p.path)
			if p.prepare != nil {
				p.prepare(v)
			}
			v.look(t, axe, p.status)
		})
	}
}

// look checks the page that is shown. status is that of a load which the test made fail.
func (v *visit) look(t *testing.T, axe, status string) {
	t.Helper()
	for _, width := range []int64{360, 768, 1089, 1280, 1440, 2560} {
		v.act(chromedp.EmulateViewport(width, 900))
		if over := eval[int](v, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("%d px wide: scrolls sideways by %d px", width, over)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 1440} {
			v.scheme(scheme)
			v.act(chromedp.EmulateViewport(width, 900))
			for _, finding := range v.axe(axe) {
				t.Errorf("%s, %d px: %s", scheme, width, finding)
			}
		}
	}
	v.t = t
	v.noComplaints(status)
	v.mu.Lock()
	v.console = nil
	v.mu.Unlock()
}

// axe returns what the accessibility checker finds on the page. The protocol runs it
// outside the page's policy.
func (v *visit) axe(script string) []string {
	v.t.Helper()
	if !eval[bool](v, "typeof axe === 'object'") {
		v.act(chromedp.Evaluate[chromedp.Void](script))
	}
	const run = `axe.run().then(({ violations }) => violations.map(({ id, help, nodes }) =>
		id + ": " + help + " " + nodes.map(({ html, failureSummary }) => html + " " + failureSummary).join(" | ")))`
	findings, err := chromedp.Run(v.ctx, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise))
	if err != nil {
		v.t.Fatal(err)
	}
	return findings
}

// Everything but live refresh works without JavaScript: login, search, pages, rows,
// errors, save, logout.
func TestBrowserWithoutScript(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	if _, err := chromedp.Call(v.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	v.enter()
	v.act(
		chromedp.SendKeys(chromedp.CSS("#q"), "ac"),
		chromedp.Click(chromedp.CSS(".filters button")),
		chromedp.WaitNotPresent(chromedp.CSS(v.keys.named("#key-{bolt}"))),
		chromedp.Click(chromedp.CSS(v.keys.named("#key-{acme} a"))),
		chromedp.Click(chromedp.CSS(".actions .primary")),
		chromedp.SetValue(chromedp.CSS("#limits-0-requests"), "2,000"),
		chromedp.SetValue(chromedp.CSS("#reason"), "asked for"),
		chromedp.Click(chromedp.CSS("button[value='add:limits']")),
		chromedp.SendKeys(chromedp.CSS("#limits-1-requests"), "many"),
		chromedp.SendKeys(chromedp.CSS("#limits-1-window"), "1"),
		chromedp.Click(chromedp.CSS(".actions .primary")),
		chromedp.WaitVisible(chromedp.CSS("#limits-1-requests-error")),
	)
	v.act(
		chromedp.Click(chromedp.CSS("button[value='remove:limits:1']")),
		chromedp.WaitNotPresent(chromedp.CSS("#limits-1-requests")),
		chromedp.Click(chromedp.CSS(".actions .primary")),
		chromedp.WaitVisible(chromedp.CSS(".notice.good")),
	)
	if limits := v.keys.key("acme").Override.Limits; len(limits) != 1 || limits[0] != per(2000, 10*time.Second) {
		t.Errorf("saved %v", limits)
	}
	v.act(
		chromedp.Click(chromedp.CSS(".actions .primary")),
		chromedp.Click(chromedp.CSS(".more summary")),
		chromedp.SendKeys(chromedp.CSS("#limits-0-zone"), "Europe/Berlin"),
		chromedp.SetValue(chromedp.CSS("#limits-0-unit"), "calendar day"),
		chromedp.Click(chromedp.CSS(".actions .primary")),
		chromedp.WaitVisible(chromedp.CSS("#limits-0-unit-error")),
		chromedp.WaitVisible(chromedp.CSS("#limits-0-zone")),
		chromedp.SetValue(chromedp.CSS("#limits-0-algorithm"), "fixed-window"),
		chromedp.SetValue(chromedp.CSS("#limits-0-window"), "1"),
		chromedp.Click(chromedp.CSS(".actions .primary")),
		chromedp.WaitVisible(chromedp.CSS(".notice.good")),
	)
	daily := limiter.Limit{Requests: 2000, Algorithm: limiter.FixedWindow, Calendar: limiter.Day, Zone: "Europe/Berlin"}
	if limits := v.keys.key("acme").Override.Limits; len(limits) != 1 || limits[0] != daily {
		t.Errorf("saved %v", limits)
	}
	v.open("/settings")
	if eval[bool](v, `document.querySelector("[data-copy]") !== null`) {
		t.Error("a button that needs scripts is there before there is anything to copy")
	}
	makeToken(v)
	v.act(chromedp.WaitNotVisible(chromedp.CSS("[data-copy]")))
	v.act(chromedp.Click(chromedp.CSS("td form button")), chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	if all, err := v.tokens.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after the revocation: %v, %v", all, err)
	}
	v.act(chromedp.Click(chromedp.CSS(".who button")), chromedp.WaitVisible(chromedp.CSS("[name=password]")))
	v.noComplaints("422")
}

// A token that was made can be copied with a button, and read in its field.
func TestBrowserCopy(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.open("/settings")
	makeToken(v)
	v.act(chromedp.Click(chromedp.CSS("[data-copy]")))
	v.wait(`document.querySelector("[data-copy]").textContent !== "Copy"`)
	if got := eval[string](v, `secret.value.slice(secret.selectionStart, secret.selectionEnd)`); !tokenInPage.MatchString(got) {
		t.Errorf("selected: %q", got)
	}
	v.noComplaints("")
}

// The form says what it understands while it is typed, and Enter saves it.
func TestBrowserLimitsForm(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.open("/keys/{chandlery}/limits")
	v.retype("#limits-0-requests", "2,500")
	v.wait(`document.querySelector("output").textContent === "2,500 per 10 seconds"`)
	v.retype("#limits-0-window", "120")
	v.wait(`document.querySelector("output").textContent === "2,500 per 2 minutes"`)
	v.retype("#limits-0-window", "x")
	v.wait(`document.querySelector("output").textContent === ""`)
	v.retype("#limits-0-window", "1\n")
	v.act(chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	limits := v.keys.key("chandlery").Override.Limits
	if len(limits) != 2 || limits[0] != per(2500, time.Second) {
		t.Errorf("Enter saved %v", limits)
	}
	v.noComplaints("")
}

// What the page says while a limit is typed is what the server says of it.
func TestBrowserPreview(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	for _, limits := range [][]limiter.Limit{
		{monthly, hammered, coarse},
		{
			{Requests: 5, Algorithm: limiter.FixedWindow, Calendar: limiter.Minute},
			{Requests: 2500, Algorithm: limiter.TokenBucket, Window: 90 * time.Minute},
		},
	} {
		v.keys.override("bolt", limits...)
		v.open("/keys/{bolt}/limits")
		const previews = `[...document.querySelectorAll("output")].map((o) => o.textContent).join("; ")`
		server := eval[string](v, previews)
		v.act(chromedp.Evaluate[chromedp.Void](`
			document.querySelectorAll("output").forEach((o) => o.textContent = "");
			document.querySelectorAll("[name$='.requests']").forEach((i) => i.dispatchEvent(new Event("input", { bubbles: true })))`))
		if script := eval[string](v, previews); server != policydoc.Limits(limits) || script != server {
			t.Errorf("%v: the server says %q, the script %q", limits, server, script)
		}
	}
	v.act(chromedp.SetValue(chromedp.CSS("#limits-0-unit"), "calendar month"))
	for _, row := range []struct{ do, want string }{
		{`zone.value = "Europe/Berlin"`, "5 per calendar month (Europe/Berlin), fixed window"},
		{`algorithm.value = "log"`, ""},
		{`algorithm.value = "fixed-window"; count.value = "2"`, ""},
		{`count.value = ""`, "5 per calendar month (Europe/Berlin), fixed window"},
		{`denied.checked = true`, ""},
		{`algorithm.value = "log"; unit.value = "hour"; count.value = "3"`, ""},
		{`zone.value = ""`, "5 per 3 hours, denied calls count"},
		{`slots.value = "1,000"`, "5 per 3 hours, denied calls count, 1,000 slots"},
		{`slots.value = "x"`, ""},
	} {
		const fields = `{ const [unit, count, algorithm, zone, slots, denied] = ["unit", "window", "algorithm", "zone", "slots", "countDenied"]
			.map((name) => document.getElementById("limits-0-" + name));`
		const result = `; unit.dispatchEvent(new Event("input", { bubbles: true })); document.querySelector("output").textContent }`
		got := eval[string](v, fields+row.do+result)
		if got != row.want {
			t.Errorf("after %s: %q, want %q", row.do, got, row.want)
		}
	}
	v.noComplaints("")
}

// Behind a stage of the gateway the browser keeps the session, the files load and the
// refresh works.
func TestBrowserBasePath(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)), withBase("/prod"))
	v.enter()
	v.handTimers()
	v.open("/keys?live=2")
	v.wait(`waits() === "2000"`)
	v.keys.use("bolt", 7)
	v.fire()
	v.wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.act(chromedp.Click(chromedp.CSS(".who button")), chromedp.WaitVisible(chromedp.CSS("[name=password]")))
	if at := eval[string](v, "location.pathname"); at != "/prod/login" {
		t.Errorf("after the logout: %s", at)
	}
	v.noComplaints("")
}
