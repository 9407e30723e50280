package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	device "github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"tidegate/internal/policy"
)

// The chosen colours come at once and without a reload, so that nothing typed is lost;
// they are there on the next page and without a script.
func TestBrowserTheme(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.scheme("light")
	v.enter()
	v.act(chromedp.SendKeys(chromedp.CSS("#q"), "half a wo"))
	ground := func() string { return eval[string](v, `getComputedStyle(document.documentElement).backgroundColor`) }
	light := ground()
	v.act(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`), chromedp.Click(chromedp.CSS("#theme [value=dark]")))
	v.wait(`document.querySelector("#theme [value=dark]").getAttribute("aria-pressed") === "true"`)
	dark := ground()
	if dark == light || !eval[bool](v, `sameDocument && q.value === "half a wo"`) {
		t.Errorf("light is %s, dark is %s", light, dark)
	}
	v.waitForTheme("dark")
	v.open("/simulate")
	if ground() != dark {
		t.Error("the next page is not dark")
	}
	v.withoutScript()
	v.open("/simulate?seed=3")
	v.act(chromedp.Click(chromedp.CSS("#theme [value=light]")), chromedp.WaitReady(chromedp.CSS("html[data-theme=light]")))
	if at := eval[string](v, `location.pathname + location.search`); at != "/simulate?seed=3" || ground() != light {
		t.Errorf("after a choice without a script: %s, %s", at, ground())
	}
	v.noComplaints("")
}

// waitForTheme waits until the server has saved the choice, which a page asked for anew
// shows.
func (v *visit) waitForTheme(name string) {
	v.t.Helper()
	v.act(chromedp.Evaluate[chromedp.Void](`(async () => {
		while (!(await (await fetch("/login")).text()).includes('data-theme="` + name + `"'));
		window.saved = true;
	})()`))
	v.wait(`window.saved`)
}

func (v *visit) withoutScript() {
	v.t.Helper()
	if _, err := chromedp.Call(v.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		v.t.Fatal(err)
	}
}

// Single keys search and list the keys, from any page, but not while somebody types, and
// not once they are turned off.
func TestBrowserKeyboard(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	press := v.press
	focused := func() string { return eval[string](v, `document.activeElement.id`) }
	v.act(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	press("/")
	if focused() != "q" {
		t.Errorf("after /: the focus is on %q", focused())
	}
	press("/")
	press("?")
	if got := eval[string](v, `q.value`); got != "/?" || eval[bool](v, `keyboard.open`) {
		t.Errorf("typed %q", got)
	}
	v.act(chromedp.Focus(chromedp.CSS("#keyboard-open")))
	press("?")
	v.act(chromedp.WaitVisible(chromedp.CSS("#keyboard")))
	press("/")
	if !eval[bool](v, `keyboard.open && keyboard.contains(document.activeElement)`) {
		t.Error("a key acts behind the open list")
	}
	v.act(chromedp.KeyEvent("\x1b"))
	v.wait(`!keyboard.open`)
	if focused() != "keyboard-open" {
		t.Errorf("after the list: the focus is on %q", focused())
	}
	v.keys.use("bolt", 7)
	press("r")
	v.wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.open("/simulate")
	press("/")
	v.act(chromedp.WaitReady(chromedp.CSS("#q:focus")))
	for _, button := range []string{"#keyboard-open", "#keyboard-on", "#keyboard .primary"} {
		v.act(chromedp.Click(chromedp.CSS(button)))
	}
	v.open("/keys?live=30")
	v.act(chromedp.Focus(chromedp.CSS("#main")))
	press("/")
	press("?")
	if focused() != "main" || eval[bool](v, `keyboard.open`) {
		t.Errorf("keys that are turned off act: the focus is on %q", focused())
	}
	v.noComplaints("")
}

// press presses a key as a keyboard does: what the page prevents types nothing.
func (v *visit) press(key string) {
	v.t.Helper()
	for _, kind := range []device.DispatchKeyEventType{device.DispatchKeyEventTypeKeyDown, device.DispatchKeyEventTypeKeyUp} {
		stroke := device.DispatchKeyEventParams{Type: kind, Key: key}
		if kind == device.DispatchKeyEventTypeKeyDown {
			stroke.Text = key
		}
		if _, err := chromedp.Call(v.ctx, device.DispatchKeyEvent, stroke); err != nil {
			v.t.Fatal(err)
		}
	}
}

// The first thing that Tab reaches is the way past the navigation.
func TestBrowserSkipLink(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.open("/simulate")
	v.act(chromedp.KeyEvent("\t"))
	if got := eval[string](v, `document.activeElement.className`); got != "skip" {
		t.Fatalf("the first Tab reaches %q", got)
	}
	if top := eval[float64](v, `document.activeElement.getBoundingClientRect().top`); top < 0 {
		t.Errorf("the link is at %v", top)
	}
	v.act(chromedp.KeyEvent("\r"))
	v.wait(`document.activeElement.id === "main"`)
}

// While somebody points at a row, a refresh changes its figures but moves no row; once
// the pointer has left, the rows take their new order.
func TestBrowserRowsStayUnderThePointer(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.handTimers()
	v.open("/keys?live=2")
	v.wait(`waits() === "2000"`)
	order := func() string {
		return eval[string](v, `[...document.querySelectorAll("#keys tbody")].map((row) => row.querySelector("a").textContent[0].toUpperCase()).join("")`)
	}
	if got := order(); got != "ABCDEF" {
		t.Fatalf("the rows are %s", got)
	}
	v.point("#key-{bolt}")
	v.keys.update("acme", func(k *policy.Key) { k.Name = "zebra" })
	v.keys.create("aard", "free")
	v.keys.use("bolt", 7)
	v.fire()
	v.wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.wait(`waits() === "2000"`)
	if got := order(); got != "ZBCDEFA" {
		t.Errorf("under the pointer the rows are %s", got)
	}
	v.point("h1")
	v.fire()
	v.wait(`document.querySelector("#keys tbody").textContent.includes("aard")`)
	if got := order(); got != "ABCDEFZ" {
		t.Errorf("without the pointer the rows are %s", got)
	}
	v.noComplaints("")
}

// point moves the mouse over an element.
func (v *visit) point(selector string) {
	v.t.Helper()
	element := `document.querySelector("` + v.keys.named(selector) + `")`
	v.act(chromedp.Evaluate[chromedp.Void](element + `.scrollIntoView({ block: "center" })`))
	at := eval[[]float64](v, `(({ x, y, width, height }) => [x + width / 2, y + height / 2])(`+element+`.getBoundingClientRect())`)
	v.act(chromedp.MouseEvent(device.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
}

// A server that is gone, not only its store, keeps the last figures on screen and is
// asked for ever more seldom; its return ends that.
func TestBrowserServerAway(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	var away atomic.Bool
	there := v.server.Config.Handler
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler) // closes the connection without a word
		}
		there.ServeHTTP(w, r)
	}))
	t.Cleanup(plain.Close)
	v.base = plain.URL
	v.enter()
	v.handTimers()
	v.open("/keys?live=2")
	v.wait(`waits() === "2000"`)
	away.Store(true)
	for _, wait := range []string{"2000", "4000", "8000", "16000", "30000", "30000"} {
		v.fire()
		v.wait(`waits() === "` + wait + `" && stale.textContent.includes("last known figures")`)
	}
	away.Store(false)
	v.keys.use("bolt", 7)
	v.fire()
	v.wait(`stale.textContent === "" && waits() === "2000" && document.querySelector("#key-{bolt}").textContent.includes("7 of 10")`)
	for _, c := range v.complaints() {
		if !strings.Contains(c, "net::ERR_EMPTY_RESPONSE") && !strings.Contains(c, "console.error") {
			t.Errorf("the browser complains: %s", c)
		}
	}
}

// What changed is told to a screen reader outside of the section that comes anew, every
// ten seconds at most.
func TestBrowserSummary(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.handTimers()
	v.open("/keys?live=2")
	// the clock stands
	v.act(chromedp.Evaluate[chromedp.Void](`window.now = performance.now(); performance.now = () => now`))
	refresh := func() {
		v.wait(`waits() === "2000"`)
		v.fire()
	}
	refresh()
	v.wait(`document.querySelector("#live-summary").textContent === "6 keys shown, 1 blocked now"`)
	v.keys.use("bolt", 10)
	v.act(chromedp.Evaluate[chromedp.Void](`now += 9_999`))
	refresh()
	v.wait(`live.dataset.summary === "6 keys shown, 2 blocked now" && waits() === "2000"`)
	if got := eval[string](v, `document.querySelector("#live-summary").textContent`); got != "6 keys shown, 1 blocked now" {
		t.Errorf("told again within ten seconds: %q", got)
	}
	v.act(chromedp.Evaluate[chromedp.Void](`now += 1`))
	refresh()
	v.wait(`document.querySelector("#live-summary").textContent === "6 keys shown, 2 blocked now"`)
}

// A toast is read aloud, can be dismissed, and one of the page itself offers to take the
// change back.
func TestBrowserToasts(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	v.handTimers() // so that it stays until it is dismissed
	v.open("/keys")
	v.act(
		chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new CustomEvent("toast", { detail: { text: "<b>Copied</b>" } }))`),
		chromedp.WaitVisible(chromedp.CSS("#toasts[role=status] .toast")),
	)
	if got := eval[string](v, `document.querySelector(".toast p").textContent`); got != "<b>Copied</b>" {
		t.Errorf("the toast says %q", got)
	}
	v.act(chromedp.Click(chromedp.CSS(".toast .plain")), chromedp.WaitNotPresent(chromedp.CSS(".toast")))
	v.noComplaints("")
}

// The page's weight without anything in the browser's cache: HTML, stylesheet, scripts
// and icon, compressed.
func TestBrowserFirstLoad(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)))
	v.enter()
	const most = 60_000
	for _, path := range []string{"/keys", "/simulate", everyAlgorithm} {
		v.open(path)
		const sum = `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
			.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`
		if got := eval[int](v, sum); got == 0 || got >= most {
			t.Errorf("%s: %d bytes, want fewer than %d", path, got, most)
		} else {
			t.Logf("%.60s: %d bytes", path, got)
		}
	}
}

// The stylesheet of every page stays small.
func TestBrowserStylesheet(t *testing.T) {
	v := newVisit(t)
	s, err := v.service.Bundle.Files.Open(v.service.Bundle.Style)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := s.Stat()
	if err != nil || info.Size() >= 20_000 || !strings.HasSuffix(info.Name(), ".css") {
		t.Errorf("%s has %d bytes, want fewer than 20,000", info.Name(), info.Size())
	}
}
