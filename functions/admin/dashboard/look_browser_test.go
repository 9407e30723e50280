package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/policy"
)

// The chosen colours come at once and without a reload, so that nothing typed is lost;
// they are there on the next page and without a script.
func TestBrowserTheme(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Scheme("light")
	v.Enter()
	v.Act(chromedp.SendKeys(chromedp.CSS("#q"), "half a wo"))
	ground := func() string {
		return sitetest.Eval[string](v, `getComputedStyle(document.documentElement).backgroundColor`)
	}
	light := ground()
	v.Act(
		chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`),
		chromedp.Click(chromedp.CSS("#theme [value=dark]")),
	)
	v.Wait(`document.querySelector("#theme [value=dark]").getAttribute("aria-pressed") === "true"`)
	dark := ground()
	if dark == light || !sitetest.Eval[bool](v, `sameDocument && q.value === "half a wo"`) {
		t.Errorf("light is %s, dark is %s", light, dark)
	}
	waitForTheme(v, "dark")
	v.Open("/simulate")
	if ground() != dark {
		t.Error("the next page is not dark")
	}
	v.WithoutScript()
	v.Open("/simulate?seed=3")
	v.Act(
		chromedp.Click(chromedp.CSS("#theme [value=light]")),
		chromedp.WaitReady(chromedp.CSS("html[data-theme=light]")),
	)
	if at := sitetest.Eval[string](
		v, `location.pathname + location.search`,
	); at != "/simulate?seed=3" || ground() != light {
		t.Errorf("after a choice without a script: %s, %s", at, ground())
	}
	v.NoConsoleErrors("")
}

// waitForTheme waits until the server has saved the choice, which a page asked for anew
// shows.
func waitForTheme(v *sitetest.Visit, name string) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](`(async () => {
		while (!(await (await fetch("/login")).text()).includes('data-theme="` + name + `"'));
		window.saved = true;
	})()`))
	v.Wait(`window.saved`)
}

// Single keys search and list the keys, from any page, but not while somebody types, and
// not once they are turned off. Before the log-in there are none.
func TestBrowserKeyboard(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Open("/login")
	v.Act(chromedp.Focus(chromedp.CSS("#main")))
	v.Press("?")
	if sitetest.Eval[bool](v, `document.querySelector("#keyboard, #keyboard-open") !== null`) {
		t.Error("keys are listed before the log-in")
	}
	v.Enter()
	press := v.Press
	focused := func() string { return sitetest.Eval[string](v, `document.activeElement.id`) }
	v.Act(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	press("/")
	if focused() != "q" {
		t.Errorf("after /: the focus is on %q", focused())
	}
	press("/")
	press("?")
	if got := sitetest.Eval[string](v, `q.value`); got != "/?" || sitetest.Eval[bool](v, `keyboard.open`) {
		t.Errorf("typed %q", got)
	}
	v.Act(chromedp.Focus(chromedp.CSS("#keyboard-open")))
	press("?")
	v.Act(chromedp.WaitVisible(chromedp.CSS("#keyboard")))
	press("/")
	if !sitetest.Eval[bool](v, `keyboard.open && keyboard.contains(document.activeElement)`) {
		t.Error("a key acts behind the open list")
	}
	v.Act(chromedp.KeyEvent("\x1b"))
	v.Wait(`!keyboard.open`)
	if focused() != "keyboard-open" {
		t.Errorf("after the list: the focus is on %q", focused())
	}
	v.Keys.Use("bolt", 7)
	press("r")
	v.Wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.Open("/simulate")
	press("/")
	v.Act(chromedp.WaitReady(chromedp.CSS("#q:focus")))
	for _, button := range []string{"#keyboard-open", "#keyboard-on", "#keyboard .primary"} {
		v.Act(chromedp.Click(chromedp.CSS(button)))
	}
	v.Open("/keys?live=30")
	v.Act(chromedp.Focus(chromedp.CSS("#main")))
	press("/")
	press("?")
	if focused() != "main" || sitetest.Eval[bool](v, `keyboard.open`) {
		t.Errorf("keys that are turned off act: the focus is on %q", focused())
	}
	v.NoConsoleErrors("")
}

// The first thing that Tab reaches is the way past the navigation.
func TestBrowserSkipLink(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.Open("/simulate")
	v.Act(chromedp.KeyEvent("\t"))
	if got := sitetest.Eval[string](v, `document.activeElement.className`); got != "skip" {
		t.Fatalf("the first Tab reaches %q", got)
	}
	if top := sitetest.Eval[float64](v, `document.activeElement.getBoundingClientRect().top`); top < 0 {
		t.Errorf("the link is at %v", top)
	}
	v.Act(chromedp.KeyEvent("\r"))
	v.Wait(`document.activeElement.id === "main"`)
}

// While somebody points at a row, a refresh changes its figures but moves no row; once
// the pointer has left, the rows take their new order.
func TestBrowserRowsStayUnderThePointer(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers()
	v.Open("/keys?live=2")
	v.Wait(`waits() === "2000"`)
	order := func() string {
		return sitetest.Eval[string](
			v,
			`[...document.querySelectorAll("#keys tbody")].map((row) => row.querySelector("a").textContent[0].toUpperCase()).join("")`,
		)
	}
	if got := order(); got != "ABCDEF" {
		t.Fatalf("the rows are %s", got)
	}
	v.Point("#key-{bolt}")
	v.Keys.UpdateKey("acme", func(k *policy.Key) { k.Name = "zebra" })
	v.Keys.CreateKey("aard", "free")
	v.Keys.Use("bolt", 7)
	v.Fire()
	v.Wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.Wait(`waits() === "2000"`)
	if got := order(); got != "ZBCDEFA" {
		t.Errorf("under the pointer the rows are %s", got)
	}
	v.Point("h1")
	v.Fire()
	v.Wait(`document.querySelector("#keys tbody").textContent.includes("aard")`)
	if got := order(); got != "ABCDEFZ" {
		t.Errorf("without the pointer the rows are %s", got)
	}
	v.NoConsoleErrors("")
}

// A server that is gone, not only its store, keeps the last figures on screen and is
// asked for ever more seldom; its return ends that.
func TestBrowserServerUnavailable(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	var unavailable atomic.Bool
	there := v.Server.Config.Handler
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if unavailable.Load() {
			panic(http.ErrAbortHandler) // closes the connection without a word
		}
		there.ServeHTTP(w, r)
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
			t.Errorf("in the browser's console: %s", c)
		}
	}
}

// What changed is announced to a screen reader outside of the section that comes anew,
// every ten seconds at most.
func TestBrowserSummary(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers()
	v.Open("/keys?live=2")
	// the clock stands
	v.Act(chromedp.Evaluate[chromedp.Void](`window.now = performance.now(); performance.now = () => now`))
	refresh := func() {
		v.Wait(`waits() === "2000"`)
		v.Fire()
	}
	refresh()
	v.Wait(`document.querySelector("#live-summary").textContent === "6 keys shown, 1 blocked now"`)
	v.Keys.Use("bolt", 10)
	v.Act(chromedp.Evaluate[chromedp.Void](`now += 9_999`))
	refresh()
	v.Wait(`live.dataset.summary === "6 keys shown, 2 blocked now" && waits() === "2000"`)
	if got := sitetest.Eval[string](
		v, `document.querySelector("#live-summary").textContent`,
	); got != "6 keys shown, 1 blocked now" {
		t.Errorf("told again within ten seconds: %q", got)
	}
	v.Act(chromedp.Evaluate[chromedp.Void](`now += 1`))
	refresh()
	v.Wait(`document.querySelector("#live-summary").textContent === "6 keys shown, 2 blocked now"`)
}

// A toast is read aloud, can be dismissed, and one of the page itself offers to take the
// change back.
func TestBrowserToasts(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers() // so that it stays until it is dismissed
	v.Open("/keys")
	v.Act(
		chromedp.Evaluate[chromedp.Void](
			`document.dispatchEvent(new CustomEvent("toast", { detail: { text: "<b>Copied</b>" } }))`),
		chromedp.WaitVisible(chromedp.CSS("#toasts[role=status] .toast")),
	)
	if got := sitetest.Eval[string](
		v, `document.querySelector(".toast p").textContent`,
	); got != "<b>Copied</b>" {
		t.Errorf("the toast says %q", got)
	}
	v.Act(chromedp.Click(chromedp.CSS(".toast .plain")), chromedp.WaitNotPresent(chromedp.CSS(".toast")))
	v.NoConsoleErrors("")
}

// The page's weight without anything in the browser's cache: HTML, stylesheet, scripts
// and icon, compressed.
func TestBrowserFirstLoad(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	const most = 60_000
	for _, path := range []string{"/keys", "/simulate", everyAlgorithm()} {
		v.Open(path)
		const sum = `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
			.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`
		if got := sitetest.Eval[int](v, sum); got == 0 || got >= most {
			t.Errorf("%s: %d bytes, want fewer than %d", path, got, most)
		} else {
			t.Logf("%.60s: %d bytes", path, got)
		}
	}
}

// The stylesheet of every page stays small.
func TestBrowserStylesheet(t *testing.T) {
	v := sitetest.NewVisit(t)
	s, err := v.Services.Bundle.Files.Open(v.Services.Bundle.Style)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := s.Stat()
	if err != nil || info.Size() >= 21_000 || !strings.HasSuffix(info.Name(), ".css") {
		t.Errorf("%s has %d bytes, want fewer than 21,000", info.Name(), info.Size())
	}
}
