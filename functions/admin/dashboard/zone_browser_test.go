package dashboard_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/sitetest"
)

// A click shows times, the axis of a chart and time fields in the browser's zone. The
// choice stays on the next page and after a live refresh.
func TestBrowserLocalTime(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	if _, err := chromedp.Call(v.Ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
		t.Fatal(err)
	}
	v.Enter()
	v.Open("/keys/{acme}?live=0")
	v.Act(chromedp.WaitVisible(chromedp.CSS("#calls canvas")))
	const text = `document.querySelector(".asof time").textContent`
	if at := sitetest.Eval[string](v, text); at != "2026-11-21 10:30:00 UTC" {
		t.Errorf("the page is as of %s, want UTC", at)
	}
	const axis = `document.querySelector("#calls canvas").toDataURL()`
	before := sitetest.Eval[string](v, axis)
	v.Act(chromedp.Click(chromedp.CSS("#zone")))
	const local = text + ` === "2026-11-21 16:00:00 GMT+5:30"`
	v.Wait(local)
	if sitetest.Eval[string](v, axis) == before {
		t.Error("the chart's axis did not change")
	}
	v.Open("/keys/{acme}?live=2")
	v.Wait(local)
	v.Open("/audit?from=2026-11-20T10:00")
	const from = `document.getElementById("from")`
	v.Wait(from + `.value === "2026-11-20T15:30" && ` + from + `.labels[0].textContent === "From, local time"`)
	v.Act(chromedp.Click(chromedp.CSS("form.filters button")))
	v.WaitAcross(`location.search.includes("from=2026-11-20T10%3A00") && ` + from + `.value === "2026-11-20T15:30"`)
	v.Act(chromedp.Click(chromedp.CSS("#zone")))
	v.Wait(from + `.value === "2026-11-20T10:00" && ` + from + `.labels[0].textContent === "From, UTC"`)
	v.Open("/keys/{acme}?live=2")
	v.Wait(text + `.endsWith(" UTC")`)
	v.NoConsoleErrors("")
}
