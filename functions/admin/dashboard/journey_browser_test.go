package dashboard_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/sitetest"
)

// An operator logs in, finds a key, previews and saves an override, sees it act on the
// key's page, undoes it and logs out. Tier 1 takes this journey.
func TestBrowserJourney(t *testing.T) {
	v := sitetest.NewJourney(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.Act(chromedp.SendKeys(chromedp.CSS("#q"), "bol"), chromedp.Click(chromedp.CSS(".filters button")),
		chromedp.WaitNotPresent(chromedp.CSS(v.Keys.Named("#key-{acme}"))))
	openSheet(v, "bolt")
	v.Retype("#limits", "25 per 10 seconds")
	v.Act(typeIn("reason", "a launch"), send("preview"),
		chromedp.WaitVisible(chromedp.CSS("#sheet #preview-title")), send("save"),
		chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	if o := v.Keys.Key("bolt").Override; o == nil || !o.Limits[0].Equal(sitetest.Per(25, 10*time.Second)) ||
		o.Reason != "a launch" {
		t.Fatalf("saved override %+v, want 25 per 10 seconds", o)
	}
	v.Keys.Use("bolt", 20)
	v.Press("r")
	v.Wait(`live.textContent.includes("20 of 25")`)
	v.Act(chromedp.Click(chromedp.CSS("#toasts form button, .notice.good button")))
	v.WaitAcross(`document.body.textContent.includes(" undone.")`)
	if o := v.Keys.Key("bolt").Override; o != nil {
		t.Errorf("after the undo there is an override: %+v", o)
	}
	v.Act(chromedp.Click(chromedp.CSS(".who button")), chromedp.WaitVisible(chromedp.CSS("[name=password]")))
	v.NoConsoleErrors("")
}
