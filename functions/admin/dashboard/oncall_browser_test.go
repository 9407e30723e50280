package dashboard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/internal/records"
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

// choose chooses an option of a list, which takes two clicks: the value of an expression.
func (o *onCall) choose(selector, expression string) {
	o.T.Helper()
	o.clicks += 2
	o.Act(chromedp.SetValue(chromedp.CSS(selector), sitetest.Eval[string](o.Visit, expression)))
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
	o.choose("#lasts", `[...lasts.options].find(({ dataset }) => dataset.moment === "18 5").value`)
	o.click("#sheet [value=save]:not(.hidden)")
	o.Act(chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	o.took("ten times the limit until Friday", 4)
	if k := o.Keys.Key("bolt"); k.Override == nil || k.Override.Until.Weekday() != time.Friday ||
		!k.Override.Limits[0].Equal(sitetest.Per(100, 10*time.Second)) {
		t.Fatalf("saved override %+v, want 100 per 10 seconds until Friday", k.Override)
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

// Somebody who sets limits tries a stricter one in shadow, reads what it would have denied,
// and enforces it; creates a plan, a key for a new customer, and sees its first call; and
// takes back what somebody else did to a plan.
func TestBrowserLimitsOfPlan(t *testing.T) {
	o := &onCall{Visit: sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))}
	o.Enter()
	o.Open("/policies/plans/1")
	o.click(`a[aria-label^="Try in shadow"]`)
	o.Act(chromedp.WaitVisible(chromedp.CSS("#sheet[open] #limits")))
	o.Wait(`sheet.querySelector("#limits").value === "10 per 10 seconds\n5 per 10 seconds, shadow"`)
	o.Act(typeIn("reason", "is 5 enough?"))
	o.click("#sheet [value=save]:not(.hidden)")
	o.WaitAcross(`document.querySelector("a[aria-label^=Enforce]") !== null`)
	o.took("try a stricter limit", 2)
	denyAt(o.Site, "acme", time.Now(), records.Call{Plan: "free", Cost: 1, Shadow: "5 per 10 seconds"})
	o.click(`a[aria-label^=Enforce]`)
	o.Act(chromedp.WaitVisible(chromedp.CSS("#sheet[open] #reason")), typeIn("reason", "it is"))
	o.Wait(`sheet.textContent.includes("Limits in shadow:")`)
	o.click("#sheet [value=save]:not(.hidden)")
	o.WaitAcross(`document.querySelector(".notice.good") !== null && document.getElementById("shadow") === null`)
	o.took("enforce it", 2)
	if got := policydoc.Each(o.Set().Plans[0].Limits); len(got) != 2 || got[1] != "5 per 10 seconds" {
		t.Errorf("the plan has %q, want 5 per 10 seconds enforced", got)
	}

	o.Open("/policies")
	o.click(".head a.main")
	o.WaitAcross(`document.querySelector("#form #limits") !== null`)
	o.Act(typeIn("name", "gold"), typeIn("limits", "100 per minute"), typeIn("reason", "a new offer"))
	o.click("#form footer [value=save]")
	o.WaitAcross(`document.querySelector('a[aria-label="New key of gold"]') !== null`)
	o.click(`a[aria-label="New key of gold"]`)
	o.WaitAcross(`document.querySelector("#plan")?.value === "gold"`)
	o.Act(typeIn("name", "newcomer"))
	o.click("#form footer [value=save]")
	o.WaitAcross(`document.getElementById("secret") !== null`)
	o.took("a new plan and its first key", 4)
	o.click(".secret a.button")
	o.WaitAcross(`document.querySelector(".say")?.textContent.includes("Waiting for the first call.")`)
	o.Keys.IDs["newcomer"] = sitetest.Eval[string](o.Visit, `location.pathname.split("/").pop()`)
	o.Keys.Called("newcomer", time.Now(), 1, 0)
	o.Press("r")
	o.Wait(`document.querySelector(".say").textContent.includes("The first call passed.")`)
	o.took("its first call", 1)

	o.Keys.Save(func(set *policy.Set) { set.Plans[1].Limits[0].Requests = 7 })
	o.Keys.Save(func(set *policy.Set) { set.Plans[0].Limits[0].Requests = 8 })
	o.Open("/policies/plans/2")
	o.click(`a[href*="/audit?subject=plan"]`)
	o.WaitAcross(`document.querySelector("main tbody tr")?.textContent.includes("7 per calendar month")`)
	o.click(`main tbody tr:first-child a[aria-label^="Undo"]`)
	o.WaitAcross(`document.querySelector("#form #reason") !== null`)
	o.Act(typeIn("reason", "a mistake"))
	o.click("#form footer [value=save]")
	o.WaitAcross(`document.querySelector(".notice.good") !== null`)
	o.took("who changed a plan; take it back", 3)
	if set := o.Set(); set.Plans[1].Limits[0].Requests == 7 || set.Plans[0].Limits[0].Requests != 8 {
		t.Errorf("after the undo the plans are %+v, want that of plan 2 alone taken back", set.Plans)
	}
	o.NoConsoleErrors("")
}

// Somebody on call sees who is about to be denied, rotates a secret with a day of grace,
// revokes twelve keys, moves all keys of a filter to another plan, and reads what became of
// a request.
func TestBrowserManyKeys(t *testing.T) {
	keys := sitetest.SampleKeys(t)
	keys.Plan("gold", sitetest.Per(100, time.Minute))
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("old-%02d", i))
	}
	keys.CreateNamed("free", names...)
	keys.UpdateKeys(func(k *policy.Key) { k.Tags = []string{"old"} }, names...)
	names = nil
	for i := range keysPerPage + 5 {
		names = append(names, fmt.Sprintf("move-%03d", i))
	}
	keys.CreateNamed("free", names...)
	o := &onCall{Visit: sitetest.NewVisit(t, sitetest.WithKeys(keys))}
	o.Enter()
	o.Keys.Use("bolt", 9)
	o.Open("/?range=1h&live=0")
	o.Wait(`document.getElementById("closest").closest("section").textContent.includes("bolt")`)
	o.took("whose customers are about to hit a limit", 0)

	o.Open("/keys/{bolt}")
	o.click("#more summary")
	o.click(`#more a[href$="/rotate"]`)
	o.Act(chromedp.WaitVisible(chromedp.CSS("#sheet[open] #grace")))
	o.Wait(`grace.value === "24h"`)
	o.click("#sheet [value=save]:not(.hidden)")
	o.WaitAcross(`document.getElementById("secret") !== null`)
	o.took("rotate with a day of grace", 3)

	o.Open("/keys?tag=old")
	o.click("[data-select-all]")
	o.click("#bulk button[value=revoke]")
	o.WaitAcross(`document.body.textContent.includes("12 of 12 keys would change")`)
	o.Act(typeIn("reason", "leaked"))
	o.click("#form footer [value=save]")
	o.WaitAcross(`document.body.textContent.includes("12 changed")`)
	o.took("revoke twelve keys", 4)

	o.Open("/keys?q=move-")
	o.click(`[data-select="all"]`)
	o.click("#bulk button[value=plan]")
	o.WaitAcross(`document.querySelector("#form #plan") !== null`)
	o.choose("#plan", `"gold"`)
	o.Act(typeIn("reason", "an offer"))
	o.click("#form footer [value=preview]")
	o.WaitAcross(`document.getElementById("preview-title") !== null`)
	o.click("#form footer [value=save]")
	o.WaitAcross(fmt.Sprintf(`document.readyState === "complete" &&
		document.body.textContent.includes("%d changed")`, len(names)))
	o.took("move all keys of a filter", 6)
	for _, name := range []string{names[0], names[len(names)-1]} {
		if k := o.Keys.Key(name); k.Plan != "gold" {
			t.Errorf("%s has the plan %s, want gold", name, k.Plan)
		}
	}

	denyAt(o.Site, "acme", time.Now(), sampleDenial("10 per 10 seconds"))
	o.Press("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	o.Wait(`palette.open`)
	o.Act(chromedp.SendKeys(chromedp.CSS("#palette [role=combobox]"), sampleDenial("").Request))
	o.Wait(`document.querySelector("#found [aria-selected]").textContent.startsWith("acme: denied by 10 per 10 seconds")`)
	o.took("what a request id says", 0)
	o.NoConsoleErrors("")
}
