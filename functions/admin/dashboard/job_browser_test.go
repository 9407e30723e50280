package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/sitetest"
)

// followLinkFromOtherSite opens a page of another site that links to the address, and
// follows the link.
func followLinkFromOtherSite(v *sitetest.Visit, address string) {
	v.T.Helper()
	page := `<!doctype html><title>Elsewhere</title><a id="a" href="` + strings.ReplaceAll(address, "&",
		"&amp;") + `">a chart</a>`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page)) // the browser reports a failure
	}))
	v.T.Cleanup(server.Close)
	other := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // another site, not only another port
	v.Act(chromedp.Navigate(other))
	runScript(v, `document.getElementById("a").click()`)
}

// runScript runs a script on a page that a script opened. The driver may not know the
// page's elements yet.
func runScript(v *sitetest.Visit, text string) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](text))
}
