package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// openDisplay opens the menu of the theme, the time zone and the shortcuts.
var openDisplay = chromedp.Click(chromedp.CSS("#display:not([open]) summary"))

// The chosen theme applies at once, without a reload that would lose typed text. The next
// page has it too, and it can be chosen without a script.
func TestBrowserTheme(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Scheme("light")
	v.Enter()
	v.Act(chromedp.SendKeys(chromedp.CSS("#q"), "half a wo"))
	background := func() string {
		return sitetest.Eval[string](v, `getComputedStyle(document.documentElement).backgroundColor`)
	}
	light := background()
	v.Act(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`), openDisplay,
		chromedp.Click(chromedp.CSS("#theme [value=dark]")))
	v.Wait(`document.querySelector("#theme [value=dark]").getAttribute("aria-pressed") === "true"`)
	dark := background()
	if dark == light || !sitetest.Eval[bool](v, `sameDocument && q.value === "half a wo"`) {
		t.Errorf("the background is %s in light and %s in dark, or the page was reloaded", light, dark)
	}
	waitForTheme(v, "dark")
	v.Open("/explain")
	if background() != dark {
		t.Error("the next page is not dark")
	}
	v.WithoutScript()
	v.Open("/explain?path=%2Forders")
	v.Act(openDisplay, chromedp.Click(chromedp.CSS("#theme [value=light]")),
		chromedp.WaitReady(chromedp.CSS("html[data-theme=light]")))
	if at := sitetest.Eval[string](v,
		`location.pathname + location.search`); at != "/explain?path=%2Forders" || background() != light {
		t.Errorf("after a choice without a script: %s with %s, want light", at, background())
	}
	v.NoConsoleErrors("")
}

// waitForTheme waits until the server has saved the theme, so that a new page has it.
func waitForTheme(v *sitetest.Visit, name string) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](`(async () => {
		while (!(await (await fetch("/login")).text()).includes('data-theme="` + name + `"'));
		window.saved = true;
	})()`))
	v.Wait(`window.saved`)
}

// Single-key shortcuts work on every page, but not in a text field, not after they are
// turned off, and not before the log-in.
func TestBrowserShortcuts(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Open("/login")
	v.Act(chromedp.Focus(chromedp.CSS("#main")))
	v.Press("?")
	if sitetest.Eval[bool](v, `document.querySelector("#keyboard, #keyboard-open") !== null`) {
		t.Error("the login page lists shortcuts")
	}
	v.Enter()
	press := v.Press
	focused := func() string { return sitetest.Eval[string](v, `document.activeElement.id`) }
	v.Act(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	v.Act(chromedp.Focus(chromedp.CSS("#q")))
	press("/")
	press("?")
	if got := sitetest.Eval[string](v, `q.value`); got != "/?" || sitetest.Eval[bool](v, `keyboard.open`) {
		t.Errorf("typed %q, want /? and no list of shortcuts", got)
	}
	v.Act(openDisplay, chromedp.Focus(chromedp.CSS("#keyboard-open")))
	press("?")
	v.Act(chromedp.WaitVisible(chromedp.CSS("#keyboard")))
	press("/")
	if !sitetest.Eval[bool](v, `keyboard.open && keyboard.contains(document.activeElement)`) {
		t.Error("a shortcut acts behind the open list")
	}
	v.Press(kb.Escape)
	v.Wait(`!keyboard.open`)
	if focused() != "keyboard-open" {
		t.Errorf("after the list: the focus is on %q, want keyboard-open", focused())
	}
	v.Keys.Use("bolt", 7)
	press("r")
	v.Wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	for _, button := range []string{"#keyboard-open", "#keyboard-on", "#keyboard .primary"} {
		v.Act(chromedp.Click(chromedp.CSS(button)))
	}
	v.Open("/keys?live=30")
	v.Act(chromedp.Focus(chromedp.CSS("#main")))
	press("/")
	press("?")
	if focused() != "main" || sitetest.Eval[bool](v, `keyboard.open`) {
		t.Errorf("a shortcut acts while turned off: the focus is on %q, want main", focused())
	}
	v.NoConsoleErrors("")
}

// The first Tab reaches the link that skips the navigation.
func TestBrowserSkipLink(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.Open("/explain")
	v.Press(kb.Tab)
	if got := sitetest.Eval[string](v, `document.activeElement.className`); got != "skip" {
		t.Fatalf("the first Tab reaches %q, want the link skip", got)
	}
	if top := sitetest.Eval[float64](v, `document.activeElement.getBoundingClientRect().top`); top < 0 {
		t.Errorf("the focused link is at %v px, above the page", top)
	}
	v.Press(kb.Enter)
	v.Wait(`document.activeElement.id === "main"`)
}

// While the pointer is over a row, a refresh updates figures but moves no row. After the
// pointer leaves, the rows take their new order.
func TestBrowserRowsStayUnderPointer(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers()
	v.Open("/keys?live=2")
	v.Wait(`waits() === "2000"`)
	order := func() string {
		return sitetest.Eval[string](v,
			`[...document.querySelectorAll("#keys tbody")].map((row) => row.querySelector("a").textContent[0].toUpperCase()).join("")`)
	}
	if got := order(); got != "ABCDEF" {
		t.Fatalf("the rows are %s, want ABCDEF", got)
	}
	v.Point("#key-{bolt}")
	v.Keys.UpdateKey("acme", func(k *policy.Key) { k.Name = "zebra" })
	v.Keys.CreateKey("aard", "free")
	v.Keys.Use("bolt", 7)
	v.Fire()
	v.Wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.Wait(`waits() === "2000"`)
	if got := order(); got != "ZBCDEFA" {
		t.Errorf("under the pointer the rows are %s, want ZBCDEFA", got)
	}
	v.Point("h1")
	v.Fire()
	v.Wait(`document.querySelector("#keys tbody").textContent.includes("aard")`)
	if got := order(); got != "ABCDEFZ" {
		t.Errorf("without the pointer the rows are %s, want ABCDEFZ", got)
	}
	v.NoConsoleErrors("")
}

// While the server itself is unavailable, the page keeps the last figures and refreshes
// at growing intervals, up to 30 s. A success restores the chosen interval.
func TestBrowserServerUnavailable(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	var unavailable atomic.Bool
	dashboard := v.Server.Config.Handler
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if unavailable.Load() {
			panic(http.ErrAbortHandler) // closes the connection without a response
		}
		dashboard.ServeHTTP(w, r)
	}))
	t.Cleanup(plain.Close)
	v.Base = plain.URL
	v.Enter()
	v.HandTimers()
	v.Open("/keys?live=2")
	v.Wait(`waits() === "2000"`)
	unavailable.Store(true)
	for _, wait := range []string{"2000", "4000", "8000", "16000", "30000", "30000"} {
		v.Fire()
		v.Wait(`waits() === "` + wait + `" && stale.textContent.includes("last known figures")`)
	}
	unavailable.Store(false)
	v.Keys.Use("bolt", 7)
	v.Fire()
	v.Wait(
		`stale.textContent === "" && waits() === "2000" && document.querySelector("#key-{bolt}").textContent.includes("7 of 10")`,
	)
	for _, c := range v.ConsoleErrors() {
		if !strings.Contains(c, "net::ERR_EMPTY_RESPONSE") && !strings.Contains(c, "console.error") {
			t.Errorf("unexpected message in the browser's console: %s", c)
		}
	}
}

// A summary of each refresh is announced to screen readers outside of the replaced
// section, at most every ten seconds.
func TestBrowserSummary(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers()
	v.Open("/keys?live=2")
	// performance.now returns a fixed time.
	v.Act(chromedp.Evaluate[chromedp.Void](`window.now = performance.now(); performance.now = () => now`))
	refresh := func() {
		v.Wait(`waits() === "2000"`)
		v.Fire()
	}
	refresh()
	v.Wait(`document.querySelector("#live-summary").textContent === "6 keys shown, 1 denied now"`)
	v.Keys.Use("bolt", 10)
	v.Act(chromedp.Evaluate[chromedp.Void](`now += 9_999`))
	refresh()
	v.Wait(`live.dataset.summary === "6 keys shown, 2 denied now" && waits() === "2000"`)
	if got := sitetest.Eval[string](v,
		`document.querySelector("#live-summary").textContent`); got != "6 keys shown, 1 denied now" {
		t.Errorf("announced %q within ten seconds, want the first summary", got)
	}
	v.Act(chromedp.Evaluate[chromedp.Void](`now += 1`))
	refresh()
	v.Wait(`document.querySelector("#live-summary").textContent === "6 keys shown, 2 denied now"`)
}

// A toast shows markup as text, has the role status, and can be dismissed.
func TestBrowserToasts(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers() // so that the toast stays until it is dismissed
	v.Open("/keys")
	v.Act(
		chromedp.Evaluate[chromedp.Void](
			`document.dispatchEvent(new CustomEvent("toast", { detail: { text: "<b>Copied</b>" } }))`),
		chromedp.WaitVisible(chromedp.CSS("#toasts[role=status] .toast")),
	)
	if got := sitetest.Eval[string](v,
		`document.querySelector(".toast p").textContent`); got != "<b>Copied</b>" {
		t.Errorf("the toast shows %q, want <b>Copied</b> as text", got)
	}
	v.Act(chromedp.Click(chromedp.CSS(".toast .plain")), chromedp.WaitNotPresent(chromedp.CSS(".toast")))
	v.NoConsoleErrors("")
}

// With an empty cache, a page loads less than 62,000 bytes: HTML, stylesheet, scripts and
// icon, compressed. The font, of 48,256 bytes, comes later.
func TestBrowserFirstLoad(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	const limit = 62_000
	for _, path := range []string{"/", "/keys", "/keys/{acme}", "/denials"} {
		v.Open(path)
		const sum = `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
			.filter(({ name }) => !name.endsWith(".woff2")).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`
		if got := sitetest.Eval[int](v, sum); got == 0 || got >= limit {
			t.Errorf("%s: %d bytes, want fewer than %d", path, got, limit)
		} else {
			t.Logf("%.60s: %d bytes", path, got)
		}
	}
}
