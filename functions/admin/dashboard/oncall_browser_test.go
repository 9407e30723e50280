package dashboard_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tidegate/internal/testing/sitetest"
)

// onCall is a visit that counts clicks.
type onCall struct {
	*sitetest.Visit
	clicks int
}

func (o *onCall) click(selector string) {
	o.T.Helper()
	o.clicks++
	o.Act(chromedp.Click(chromedp.CSS(o.Keys.Named(selector))))
}

// took checks the number of clicks of a task, and begins the next one.
func (o *onCall) took(task string, most int) {
	o.T.Helper()
	if o.clicks > most {
		o.T.Errorf("%s: took %d clicks, want at most %d", task, o.clicks, most)
	}
	o.clicks = 0
}

// Somebody on call finds out why a customer is denied, raises its limit until it is
// undone, and bans another caller, each with few clicks.
func TestBrowserOnCall(t *testing.T) {
	o := &onCall{Visit: sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))}
	o.Enter()
	o.Keys.Use("bolt", 10)
	denied(o.Site, "bolt", "10 per 10 seconds", "", time.Now().Add(-10*time.Second), 5)

	o.Press("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	o.Wait(`palette.open`)
	o.Act(chromedp.SendKeys(chromedp.CSS("#palette [role=combobox]"), "bolt"))
	o.Wait(`document.querySelector("#found [aria-selected]").textContent.startsWith("bolt")`)
	o.Press(kb.Enter)
	o.WaitAcross(o.Keys.Named(`location.pathname === "/keys/{bolt}"`))
	o.Wait(`/5 calls denied since \d\d:\d\d, all by 10 per 10 seconds/.test(live.innerText)`)
	o.took("why, since when and until when", 0)

	o.Open("/?range=1h&live=0")
	o.Wait(`document.querySelector(".lead").innerText.includes("are of bolt, over 10 per 10 seconds")`)
	o.click(".lead a")
	o.WaitAcross(o.Keys.Named(`location.pathname === "/keys/{bolt}"`))
	o.took("who is denied most", 1)

	o.click("a.main[data-sheet]")
	o.Act(chromedp.WaitVisible(chromedp.CSS("#sheet[open] #limits")))
	o.Retype("#limits", "100 per 10 seconds")
	o.Act(typeIn("reason", "a launch"))
	o.click("#sheet [value=save]:not(.hidden)")
	o.Act(chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	o.took("ten times the limit", 2)
	if k := o.Keys.Key("bolt"); k.Override == nil ||
		!k.Override.Limits[0].Equal(sitetest.Per(100, 10*time.Second)) {
		t.Fatalf("saved override %+v, want 100 per 10 seconds", k.Override)
	}
	o.click("#toasts form button")
	o.WaitAcross(`document.body.textContent.includes(" undone.")`)
	o.took("undo", 1)

	o.Open("/?range=1h&live=0")
	o.click(`a[href="/keys/{bolt}/ban"]`)
	o.Act(chromedp.WaitVisible(chromedp.CSS("#sheet[open] #lasts")),
		chromedp.SetValue(chromedp.CSS("#lasts"), "1d"), typeIn("reason", "ignores 429s"))
	o.click("#sheet [value=save]:not(.hidden)")
	o.WaitAcross(`document.querySelector(".badge.full")?.textContent === "banned"`)
	o.took("who hammers us; ban for a day", 2)
	if left := time.Until(o.Keys.Key("bolt").Banned); left < 23*time.Hour {
		t.Errorf("the ban ends in %s, want a day", left)
	}

	o.click("a[href^='/explain'][data-sheet]")
	o.Act(chromedp.WaitVisible(chromedp.CSS("#sheet[open] [name=path]")))
	o.Wait(`sheet.textContent.includes("Banned until")`)
	o.took("what would a call get", 1)
	o.NoConsoleErrors("")
}
