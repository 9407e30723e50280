//go:build unix

package main

import (
	"context"
	"net/http"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/internal/apikey"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/built"
)

// withDashboard returns flags for the built admin function in place of the test function,
// and for a Valkey that takes an edit in time on a busy machine too.
func withDashboard(t *testing.T) []string {
	t.Helper()
	return []string{"-valkey", "auto", "-bin", built.Folder(t, map[string]string{
		"check/bootstrap": "tidegate/functions/check", "admin/bootstrap": "tidegate/functions/admin",
	})}
}

// editor is a browser tab of the dashboard with a logged-in user.
type editor struct {
	t   *testing.T
	tab context.Context
	url string // of the key's form
}

func (e editor) act(actions ...chromedp.Action[chromedp.Void]) {
	e.t.Helper()
	if err := chromedp.Do(e.tab, actions...); err != nil {
		e.t.Fatal(err)
	}
}

// save sets the key's only limit to requests per hour.
func (e editor) save(requests string) {
	e.t.Helper()
	e.act(chromedp.Navigate(e.url), chromedp.SetValue(chromedp.CSS("#limits"), requests+" per hour"),
		chromedp.SetValue(chromedp.CSS("#reason"), "a test"),
		chromedp.Click(chromedp.CSS("#form .actions .primary")),
		chromedp.WaitVisible(chromedp.CSS(".notice.good")))
}

// A limit edited in the browser applies to the next call, and earlier calls still count.
func TestEditInTheBrowserActsOnTheNextCall(t *testing.T) {
	p, c := start(t, withDashboard(t)...), newCaller(t, 1)
	tab := browsertest.StartInTierOne(t) // last, since its time limit starts here
	secret, err := apikey.Parse(p.key("free"))
	if err != nil {
		t.Fatal(err)
	}
	e := editor{t, tab, p.url("admin") + "/keys/" + secret.ID() + "/limits"}
	e.act(
		chromedp.Navigate(e.url),
		// SetValue replaces key presses, between which the page's autofocus may move the
		// focus.
		chromedp.SetValue(chromedp.CSS("[name=user]"), p.url("admin_user")),
		chromedp.SetValue(chromedp.CSS("[name=password]"), p.url("admin_password")),
		chromedp.Click(chromedp.CSS("form .primary")),
		chromedp.WaitVisible(chromedp.CSS("#limits")),
	)
	var last answer
	for _, edit := range []struct {
		requests string
		statuses []int
	}{
		{"2", []int{200, 200, 429}},
		{"4", []int{200, 200, 429}},
		{"3", []int{429}},
		{"1,000", []int{200}},
	} {
		e.save(edit.requests)
		for i, want := range edit.statuses {
			if last = c.get(p.url("rest")+"/orders", p.key("free")); last.status != want {
				t.Errorf("call %d after the edit to %s per hour: %d, want %d: %s", i+1, edit.requests,
					last.status, want, last.body)
			}
		}
		if last.status == http.StatusTooManyRequests {
			e.compareAnswer(p.url("admin")+"/keys/"+secret.ID(), last)
		}
	}
}

// varying matches the parts of an answer that differ between two identical calls: times
// and ids.
var varying = regexp.MustCompile(
	`t=\d+|Retry-After: \d+|Retry after \d+ seconds|"retry-after":"\d+"|urn:uuid:[^"]*`)

// reference matches what only the client's answer has, since the page makes no call.
var reference = regexp.MustCompile(`,"reference":"[^"]*"`)

// compareAnswer checks that the key's page shows exactly the client's answer.
func (e editor) compareAnswer(page string, got answer) {
	e.t.Helper()
	e.act(chromedp.Navigate(page))
	shown, err := chromedp.Run(e.tab,
		chromedp.Evaluate[string](`document.querySelector("pre").textContent`))
	if err != nil {
		e.t.Fatal(err)
	}
	text := "HTTP/1.1 429 Too Many Requests\n"
	for _, name := range []string{"Cache-Control", "Content-Type", "RateLimit", "RateLimit-Policy",
		"Retry-After"} {
		text += name + ": " + got.header.Get(name) + "\n"
	}
	if want := text + "\n" + reference.ReplaceAllString(got.body, ""); varying.ReplaceAllString(shown,
		"…") != varying.ReplaceAllString(want, "…") {
		e.t.Errorf("the page shows\n%s\nthe client got\n%s", shown, want)
	}
}
