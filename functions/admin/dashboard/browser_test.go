package dashboard

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

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/browsertest"
	"tidegate/web/static"
)

// visit is a tab on a dashboard with the real bundle.
type visit struct {
	*site
	ctx     context.Context
	mu      sync.Mutex
	console []string // errors and warnings that the browser wrote
}

func newVisit(t *testing.T, options ...option) *visit {
	t.Helper()
	bundle, err := static.Load()
	browsertest.Need(t, err, "make it: npm ci --ignore-scripts --prefix web && go run ./web/bundle")
	ctx := browsertest.Start(t)
	// The loop-back address counts as secure, so plain HTTP serves the Secure cookie.
	plain := httptest.NewServer(nil)
	t.Cleanup(plain.Close)
	options = append([]option{func(s *site) { s.address = plain.URL }, withServices(func(s *Services) { s.Bundle = bundle })}, options...)
	v := &visit{site: newSite(t, options...), ctx: ctx}
	plain.Config.Handler = v.server.Config.Handler
	v.base = plain.URL + v.config.BasePath
	v.listen()
	return v
}

// listen collects what the browser complains about.
func (v *visit) listen() {
	note := func(format string, args ...any) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.console = append(v.console, fmt.Sprintf(format, args...))
	}
	err := chromedp.Listen(v.ctx, func(ev any) {
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
		}
	})
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *visit) complaints() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.console...)
}

func (v *visit) act(actions ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	if err := chromedp.Do(v.ctx, actions...); err != nil {
		v.t.Fatalf("%v\nconsole: %s", err, strings.Join(v.complaints(), "\n"))
	}
}

// open goes to a page of the dashboard.
func (v *visit) open(path string) {
	v.t.Helper()
	v.act(chromedp.Navigate(v.base + v.keys.named(path)))
}

// wait waits until a JavaScript expression is true.
func (v *visit) wait(expression string) {
	v.t.Helper()
	poll := chromedp.Poll[bool](v.keys.named(expression), chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(0))
	if _, err := chromedp.Run(v.ctx, poll); err != nil {
		v.t.Fatalf("waiting for %s: %v\nconsole: %s", expression, err, strings.Join(v.complaints(), "\n"))
	}
}

// retype replaces what is in a field, as a person would.
func (v *visit) retype(selector, text string) {
	v.t.Helper()
	v.act(
		chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).select()", selector)),
		chromedp.SendKeys(chromedp.CSS(selector), text),
	)
}

func eval[T any](v *visit, expression string) T {
	v.t.Helper()
	value, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](v.keys.named(expression)))
	if err != nil {
		v.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func (v *visit) enter() {
	v.t.Helper()
	v.open("/login?next=" + url.QueryEscape(v.config.BasePath+"/keys"))
	v.act(
		chromedp.SendKeys(chromedp.CSS("[name=user]"), testUser),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), testSecret),
		chromedp.Click(chromedp.CSS("main form button")),
		chromedp.WaitReady(chromedp.CSS("#live")),
	)
}

// scheme makes the browser prefer light or dark.
func (v *visit) scheme(name string) {
	v.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	if _, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		v.t.Fatal(err)
	}
}

// axeScript is the accessibility checker, from the repository's npm packages.
func axeScript(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "web", "node_modules", "axe-core", "axe.min.js"))
	browsertest.Need(t, err, "install it: npm ci --ignore-scripts --prefix web")
	return string(text)
}
