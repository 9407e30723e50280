package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/internal/policy"
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

// A link from another site to the bulk form changes nothing, whether the editor is logged
// in or logs in first. The form itself starts the job.
func TestBrowserLinkStartsNoJob(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	const job = "/keys/bulk?do=revoke&of=all&reason=x"
	checkForm := func(step string) {
		t.Helper()
		v.WaitAcross(`document.readyState === "complete" && location.pathname === "/keys/bulk" &&
			(!!document.querySelector("#form .danger") || document.body.textContent.includes("Finished."))`)
		if n := v.Keys.Written(); n != 0 ||
			sitetest.Eval[bool](v, `!!document.querySelector("[data-auto]")`) {
			t.Fatalf("%s: got %d changes or a job that continues by itself, want none", step, n)
		}
	}
	followLinkFromOtherSite(v, v.Base+"/login?next="+url.QueryEscape(job))
	v.WaitAcross(`document.readyState === "complete" && !!document.querySelector("[name=password]")`)
	runScript(v,
		fmt.Sprintf(
			`document.querySelector("[name=user]").value = %q; document.querySelector("[name=password]").value = %q;
		document.querySelector("main form button").click()`, sitetest.User, sitetest.Password))
	checkForm("after the login")
	followLinkFromOtherSite(v, v.Base+job)
	checkForm("already logged in")
	runScript(v, `document.querySelector("#confirm").value =
		document.querySelector("label[for=confirm]").textContent.match(/[0-9,]+/)[0];
		document.querySelector("#form .danger").click()`)
	v.WaitAcross(`document.body.textContent.includes("Finished.")`)
	if v.Keys.Key("acme").Status != policy.Revoked {
		t.Error("the form did not revoke acme")
	}
	v.NoConsoleErrors("")
}
