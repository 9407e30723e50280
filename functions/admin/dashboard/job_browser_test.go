package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/policy"
)

// elsewhere opens a page of another site that links to the address, and follows the link.
func elsewhere(v *sitetest.Visit, address string) {
	v.T.Helper()
	page := `<!doctype html><title>Elsewhere</title><a id="a" href="` + strings.ReplaceAll(address, "&",
		"&amp;") + `">a chart</a>`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page)) // a failure shows in the browser
	}))
	v.T.Cleanup(server.Close)
	other := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // another site, not another port alone
	v.Act(chromedp.Navigate(other))
	runScript(v, `document.getElementById("a").click()`)
}

// script acts on a page to which a script led, whose elements the driver may not know
// yet.
func runScript(v *sitetest.Visit, text string) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](text))
}

// An editor who follows a link from elsewhere, logged in or not yet, changes nothing by
// that; the form there does what it says.
func TestBrowserLinkStartsNoJob(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	const job = "/keys/bulk?do=revoke&of=all&reason=x"
	asked := func(how string) {
		t.Helper()
		v.WaitAcross(`document.readyState === "complete" && location.pathname === "/keys/bulk" &&
			(!!document.querySelector("#form .danger") || document.body.textContent.includes("Finished."))`)
		if n := v.Keys.Written(); n != 0 ||
			sitetest.Eval[bool](v, `!!document.querySelector("[data-auto]")`) {
			t.Fatalf("%s: %d changes", how, n)
		}
	}
	elsewhere(v, v.Base+"/login?next="+url.QueryEscape(job))
	v.WaitAcross(`document.readyState === "complete" && !!document.querySelector("[name=password]")`)
	runScript(v,
		fmt.Sprintf(
			`document.querySelector("[name=user]").value = %q; document.querySelector("[name=password]").value = %q;
		document.querySelector("main form button").click()`, sitetest.User, sitetest.Password))
	asked("by the login")
	elsewhere(v, v.Base+job)
	asked("logged in")
	runScript(v, `document.querySelector("#confirm").value =
		document.querySelector("label[for=confirm]").textContent.match(/[0-9,]+/)[0];
		document.querySelector("#form .danger").click()`)
	v.WaitAcross(`document.body.textContent.includes("Finished.")`)
	if v.Keys.Key("acme").Status != policy.Revoked {
		t.Error("what was asked for was not done")
	}
	v.NoConsoleErrors("")
}
