package dashboard_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/sitetest"
)

// After Preview the result's sentence has the focus and is in sight together with Save, on
// a page and in a dialog, with and without scripts.
func TestBrowserPreviewInSight(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Act(chromedp.EmulateViewport(1024, 700))
	v.Enter()
	inSight := func(sentence string) {
		t.Helper()
		v.WaitAcross(`document.activeElement?.id === "result" &&
			result.textContent.includes("` + sentence + `")`)
		if !sitetest.Eval[bool](v, `[result, document.querySelector(".formbar [value=save]")].every((e) => {
			const { top, bottom } = e.getBoundingClientRect();
			return top >= 0 && bottom <= innerHeight;
		})`) {
			t.Error("the result or Save is out of sight")
		}
	}
	preview := chromedp.Click(chromedp.CSS(".formbar [value=preview]"))
	v.Open("/keys/{bolt}")
	v.Act(chromedp.Click(chromedp.CSS("a[data-sheet]")),
		chromedp.WaitVisible(chromedp.CSS("#sheet form")), preview)
	inSight("change")
	v.Open("/policies/plans/1/edit")
	v.Act(preview)
	inSight("change")
	v.NoConsoleErrors("")
	v.WithoutScript()
	v.Open("/policies/plans/1/edit")
	v.Act(preview, chromedp.WaitVisible(chromedp.CSS("#result:focus")))
}
