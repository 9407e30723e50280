package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/internal/policy"
)

// elsewhere opens a page of another site that links to the address, and follows the link.
func (v *visit) elsewhere(address string) {
	v.t.Helper()
	page := `<!doctype html><title>Elsewhere</title><a id="a" href="` + strings.ReplaceAll(address, "&", "&amp;") + `">a chart</a>`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page)) // the browser tells when it fails
	}))
	v.t.Cleanup(server.Close)
	other := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // another site, not another port alone
	v.act(chromedp.Navigate(other))
	v.script(`document.getElementById("a").click()`)
}

// script acts on a page to which a script led, whose elements the driver may not know
// yet.
func (v *visit) script(text string) {
	v.t.Helper()
	v.act(chromedp.Evaluate[chromedp.Void](text))
}

// An editor who follows a link from elsewhere, logged in or not yet, changes nothing by
// that; the form there does what it says.
func TestBrowserLinkStartsNoJob(t *testing.T) {
	v := newVisit(t, withKeys(busyKeys(t)))
	const job = "/keys/job?do=revoke&of=all&reason=x"
	asked := func(how string) {
		t.Helper()
		v.waitAcross(`document.readyState === "complete" && location.pathname === "/keys/job" &&
			(!!document.querySelector("#form .danger") || document.body.textContent.includes("Finished."))`)
		if n := v.keys.written(); n != 0 || eval[bool](v, `!!document.querySelector("[data-auto]")`) {
			t.Fatalf("%s: %d changes", how, n)
		}
	}
	v.elsewhere(v.base + "/login?next=" + url.QueryEscape(job))
	v.waitAcross(`document.readyState === "complete" && !!document.querySelector("[name=password]")`)
	v.script(fmt.Sprintf(`document.querySelector("[name=user]").value = %q; document.querySelector("[name=password]").value = %q;
		document.querySelector("main form button").click()`, testUser, testSecret))
	asked("by the login")
	v.elsewhere(v.base + job)
	asked("logged in")
	v.script(`document.querySelector("#form .danger").click()`)
	v.waitAcross(`document.body.textContent.includes("Finished.")`)
	if v.keys.key("acme").Status != policy.Revoked {
		t.Error("what was asked for was not done")
	}
	v.noComplaints("")
}
