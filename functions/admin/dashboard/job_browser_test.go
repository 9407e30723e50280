package dashboard_test

import (
	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/sitetest"
)

// runScript runs a script on a page that a script opened. The driver may not know the
// page's elements yet.
func runScript(v *sitetest.Visit, text string) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](text))
}
