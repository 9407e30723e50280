package sitetest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/emulation"
	device "github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tidegate/internal/testing/browsertest"
)

// Visit is a browser tab on a dashboard.
type Visit struct {
	*Site
	Ctx     context.Context
	mu      sync.Mutex
	console []string // the browser's errors and warnings
	asked   int      // questions of the browser
	Stay    bool     // answers the question whether to leave a form
	dark    bool     // the scheme of the next Accessible
}

// NewVisit starts a site and a tab on it, for a test of tier 2.
func NewVisit(t *testing.T, options ...Option) *Visit {
	t.Helper()
	return visit(t, browsertest.Start, options)
}

// NewJourney is NewVisit for the journey that tier 1 takes.
func NewJourney(t *testing.T, options ...Option) *Visit {
	t.Helper()
	return visit(t, browsertest.StartInTierOne, options)
}

func visit(t *testing.T, start func(testing.TB) context.Context, options []Option) *Visit {
	t.Helper()
	ctx := start(t)
	// The loop-back address counts as secure, so plain HTTP serves the Secure cookie.
	plain := httptest.NewServer(nil)
	t.Cleanup(plain.Close)
	options = append([]Option{func(s *Site) { s.Address = plain.URL }}, options...)
	v := &Visit{Site: New(t, options...), Ctx: ctx}
	plain.Config.Handler = v.Server.Config.Handler
	v.Base = plain.URL + v.Config.BasePath
	v.listen()
	return v
}

// listen collects the browser's errors and warnings, and answers its questions.
func (v *Visit) listen() {
	note := func(format string, args ...any) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.console = append(v.console, fmt.Sprintf(format, args...))
	}
	err := chromedp.Listen(v.Ctx, func(ev any) {
		switch ev := ev.(type) {
		case *cdplog.EventEntryAdded:
			if ev.Entry.Level == cdplog.EntryLevelError || ev.Entry.Level == cdplog.EntryLevelWarning {
				note("%s: %s %s", ev.Entry.Level, ev.Entry.Text, ev.Entry.URL)
			}
		case *runtime.EventConsoleAPICalled:
			if ev.Type != runtime.ConsoleAPICalledTypeLog && ev.Type != runtime.ConsoleAPICalledTypeInfo {
				note("console.%s: %v", ev.Type, ev.Args)
			}
		case *runtime.EventExceptionThrown:
			note("exception: %s", ev.ExceptionDetails.Text)
		case *page.EventJavascriptDialogOpening:
			go v.answer() // Listen must return before the browser's next event.
		}
	})
	if err != nil {
		v.T.Fatal(err)
	}
}

func (v *Visit) answer() {
	v.mu.Lock()
	v.asked++
	params := page.HandleJavaScriptDialogParams{Accept: !v.Stay}
	v.mu.Unlock()
	if _, err := chromedp.Call(v.Ctx, page.HandleJavaScriptDialog, params); err != nil && v.Ctx.Err() == nil {
		v.T.Error(err)
	}
}

// Asked returns the number of the browser's questions so far.
func (v *Visit) Asked() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked
}

// ConsoleErrors returns the browser's errors and warnings.
func (v *Visit) ConsoleErrors() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.console...)
}

// Act runs actions in the browser, or fails the test.
func (v *Visit) Act(actions ...chromedp.Action[chromedp.Void]) {
	v.T.Helper()
	if err := chromedp.Do(v.Ctx, actions...); err != nil {
		v.T.Fatalf("%v\nconsole: %s", err, strings.Join(v.ConsoleErrors(), "\n"))
	}
}

// Open opens a page of the dashboard.
func (v *Visit) Open(path string) {
	v.T.Helper()
	v.Act(chromedp.Navigate(v.Base + v.Keys.Named(path)))
}

// Wait waits until a JavaScript expression is true. It may fail meanwhile, as when it
// reads an element that the page does not have yet.
func (v *Visit) Wait(expression string) {
	v.T.Helper()
	poll := chromedp.Poll[bool](
		"(() => { try { return ("+v.Keys.Named(expression)+") } catch { return false } })()",
		chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(0),
	)
	if _, err := chromedp.Run(v.Ctx, poll); err != nil {
		v.T.Fatalf("waiting for %s: %v\nconsole: %s", expression, err, strings.Join(v.ConsoleErrors(), "\n"))
	}
}

// Retype replaces the text of a field, as a person would.
func (v *Visit) Retype(selector, text string) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).select()", selector)),
		chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Eval returns a JavaScript expression's value.
func Eval[T any](v *Visit, expression string) T {
	v.T.Helper()
	value, err := chromedp.Run(v.Ctx, chromedp.Evaluate[T](v.Keys.Named(expression)))
	if err != nil {
		v.T.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Enter logs in as an editor.
func (v *Visit) Enter() {
	v.T.Helper()
	v.Open("/login?next=" + url.QueryEscape(v.Config.BasePath+"/keys"))
	v.Act(chromedp.SendKeys(chromedp.CSS("[name=user]"), User),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), Password),
		chromedp.Click(chromedp.CSS("main form button")), chromedp.WaitReady(chromedp.CSS("#live")))
}

// Scheme sets the browser's preference, light or dark.
func (v *Visit) Scheme(name string) {
	v.T.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	if _, err := chromedp.Call(v.Ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		v.T.Fatal(err)
	}
}

// browserPackages has the npm packages of tests in a browser, seen from a package of
// functions/admin.
var browserPackages = filepath.Join("..", "..", "..", "internal", "testing", "sitetest", "testdata")

// AxeScript returns the accessibility checker.
func AxeScript(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(browserPackages, "node_modules", "axe-core", "axe.min.js"))
	browsertest.Need(t, err,
		"install it: npm ci --ignore-scripts --prefix internal/testing/sitetest/testdata")
	return string(text)
}

// WaitAcross waits until an expression is true, even if the page is replaced meanwhile.
func (v *Visit) WaitAcross(expression string) {
	v.T.Helper()
	for {
		done, err := chromedp.Run(v.Ctx, chromedp.Evaluate[bool](expression))
		if v.Ctx.Err() != nil {
			v.T.Fatalf("waiting for %s: %v", expression, err)
		}
		if done && err == nil {
			return
		}
	}
}

// WithoutScript disables JavaScript.
func (v *Visit) WithoutScript() {
	v.T.Helper()
	if _, err := chromedp.Call(v.Ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		v.T.Fatal(err)
	}
}

// Press presses a key as a keyboard does: one event has the key and its text. With
// chromedp.KeyEvent the text goes to the element that has the focus when it arrives.
func (v *Visit) Press(key string, options ...chromedp.KeyOption) {
	v.T.Helper()
	r, _ := utf8.DecodeRuneInString(key)
	strokes := kb.Encode(r)
	down, up := strokes[0], strokes[len(strokes)-1]
	if len(strokes) == 3 {
		down.Text = strokes[1].Text
	}
	for _, stroke := range []*device.DispatchKeyEventParams{down, up} {
		for _, option := range options {
			option(stroke)
		}
		if _, err := chromedp.Call(v.Ctx, device.DispatchKeyEvent, *stroke); err != nil {
			v.T.Fatal(err)
		}
	}
}

// Point moves the mouse to an element.
func (v *Visit) Point(selector string) {
	v.T.Helper()
	element := `document.querySelector("` + v.Keys.Named(selector) + `")`
	v.Act(chromedp.Evaluate[chromedp.Void](element + `.scrollIntoView({ block: "center" })`))
	at := Eval[[]float64](
		v, `(({ x, y, width, height }) => [x + width / 2, y + height / 2])(`+element+
			`.getBoundingClientRect())`,
	)
	v.Act(chromedp.MouseEvent(device.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
}

// HandTimers makes later pages hold their refresh timers until Fire.
func (v *Visit) HandTimers() {
	v.T.Helper()
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: handTimers}
	if _, err := chromedp.Call(v.Ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		v.T.Fatal(err)
	}
}

// Fire runs the next timer that HandTimers holds.
func (v *Visit) Fire() { v.T.Helper(); v.Act(chromedp.Evaluate[chromedp.Void]("fire()")) }

// NoConsoleErrors checks that the browser has no errors except failed loads with this
// status, which the test caused.
func (v *Visit) NoConsoleErrors(status string) {
	v.T.Helper()
	for _, c := range v.ConsoleErrors() {
		if status == "" || !strings.Contains(c, "the server responded with a status of "+status) {
			v.T.Errorf("in the browser's console: %s", c)
		}
	}
}

// Look checks that the current page fits every width, is accessible, and has no errors
// except failed loads with this status, which the test caused.
func (v *Visit) Look(t *testing.T, axe, status string) {
	t.Helper()
	v.Fits(t, 390, 640, 1024, 1440)
	v.Accessible(t, axe)
	v.T = t
	v.NoConsoleErrors(status)
	v.mu.Lock()
	v.console = nil
	v.mu.Unlock()
}

// Fits checks that the page does not scroll sideways at these widths.
func (v *Visit) Fits(t *testing.T, widths ...int64) {
	t.Helper()
	for _, width := range widths {
		v.Act(chromedp.EmulateViewport(width, 900))
		if over := Eval[int](v, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("%d px wide: scrolls sideways by %d px", width, over)
		}
	}
}

// Accessible checks the page with axe. Pages take turns: 1440 px wide in light, 390 px in
// dark. Schemes differ only in colours, widths only in layout, and pages share both.
func (v *Visit) Accessible(t *testing.T, axe string) {
	t.Helper()
	scheme, width := "light", int64(1440)
	if v.dark {
		scheme, width = "dark", 390
	}
	v.dark = !v.dark
	v.Scheme(scheme)
	v.Act(chromedp.EmulateViewport(width, 900))
	for _, finding := range v.runAxe(axe) {
		t.Errorf("%s, %d px: %s", scheme, width, finding)
	}
}

// runAxe returns axe's findings. The page's Content-Security-Policy does not apply to
// scripts that the browser's protocol runs.
func (v *Visit) runAxe(script string) []string {
	v.T.Helper()
	if !Eval[bool](v, "typeof axe === 'object'") {
		v.Act(chromedp.Evaluate[chromedp.Void](script))
	}
	const run = `axe.run({ resultTypes: ["violations"], rules: { "target-size": { enabled: true } } })
		.then(({ violations }) => violations.map(({ id, help, nodes }) => id + ": " + help + " " +
			nodes.map(({ html, failureSummary }) => html + " " + failureSummary).join(" | ")))`
	findings, err := chromedp.Run(v.Ctx, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise))
	if err != nil {
		v.T.Fatal(err)
	}
	return findings
}

// handTimers makes a page's refresh timers wait until the test runs them. window.due has
// the waiting ones.
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
