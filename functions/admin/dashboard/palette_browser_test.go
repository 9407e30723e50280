package dashboard_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tidegate/internal/testing/sitetest"
)

// The palette opens by keys and from the header, finds while one types, and opens the
// chosen result. Escape closes it and returns the focus. Names are shown as text.
func TestBrowserPalette(t *testing.T) {
	axe := sitetest.AxeScript(t)
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	const hostile = `<img src=x onerror=alert(1)> "acme" שלום`
	v.Keys.CreateKey(hostile, "free")
	v.Keys.CreateKey("acme-two", "free")
	v.Enter()
	v.Open("/keys/{bolt}?live=0")
	v.Act(chromedp.Focus(chromedp.CSS(".trail a")))
	chosen := func(text string) string {
		return `document.querySelector("#found [aria-selected]").textContent.startsWith("` + text + `") &&
			document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).matches("[aria-selected]")`
	}
	v.Press("/")
	v.Wait(chosen("Overview"))
	v.Press(kb.Escape)
	v.Wait(`!palette.open && document.activeElement.matches(".trail a")`)
	v.Press("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	v.Wait(`palette.open`)
	v.Act(chromedp.SendKeys(chromedp.CSS("#palette [role=combobox]"), "ac"))
	v.Wait(chosen("acme") + ` && document.querySelectorAll("#found a").length === 3`)
	if got := sitetest.Eval[string](v, `document.querySelectorAll("#found bdi")[2].textContent`); got != hostile {
		t.Errorf("the name is shown as %q, want %q", got, hostile)
	}
	v.Look(t, axe, "")
	v.Press(kb.ArrowDown)
	v.Wait(chosen("acme-two"))
	v.Press(kb.Enter)
	v.WaitAcross(v.Keys.Named(`location.pathname === "/keys/{acme-two}" && document.readyState === "complete"`))
	v.Act(chromedp.SendKeys(chromedp.CSS(".find [type=search]"), "d"))
	v.Wait(`palette.open`)
	v.Act(chromedp.SendKeys(chromedp.CSS("#palette [role=combobox]"), "i"))
	v.Press(kb.Enter)
	v.WaitAcross(v.Keys.Named(`location.pathname === "/keys/{dinghy}"`))
	v.NoConsoleErrors("")
}

// While Valkey is unavailable, the palette says so, and Enter asks again.
func TestBrowserPaletteUnavailable(t *testing.T) {
	v := sitetest.NewVisit(t)
	v.Enter()
	v.Keys.Fail("unavailable")
	v.Act(chromedp.Click(chromedp.CSS(".find [type=search]")))
	v.Act(chromedp.SendKeys(chromedp.CSS("#palette [role=combobox]"), "acm"))
	v.Wait(`palette.textContent.includes("Press Enter to try again")`)
	v.Keys.Fail("")
	v.Press(kb.Enter)
	v.WaitAcross(v.Keys.Named(`location.pathname === "/keys/{acme}"`))
	v.NoConsoleErrors("503")
}
