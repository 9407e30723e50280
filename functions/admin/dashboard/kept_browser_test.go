package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tidegate/internal/testing/sitetest"
)

// save fills in a name and saves the form.
func save(v *sitetest.Visit, name string) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](`document.querySelector("#name").value = "` + name + `";
		document.querySelector("#form .actions .primary").click()`))
}

// Typed text survives a log-in in the middle of an edit, and an unavailable Valkey.
func TestBrowserKeepsTypedText(t *testing.T) {
	axe := sitetest.AxeScript(t)
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.Open("/keys/{acme}/edit")
	v.Store.FastForward(sitetest.Idle + time.Second)
	save(v, "typed")
	v.WaitAcross(`!!document.querySelector("[name=password]")`)
	v.Look(t, axe, "401")
	v.Act(chromedp.SendKeys(chromedp.CSS("[name=user]"), sitetest.User),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), sitetest.Password),
		chromedp.Click(chromedp.CSS("main form button")))
	v.WaitAcross(`document.querySelector("#name")?.value === "typed"`)
	v.Keys.Fail("ERR unavailable")
	save(v, "typed again")
	v.WaitAcross(`!!document.querySelector('main a[href="/resume"]')`)
	v.Look(t, axe, "503")
	v.Keys.Fail("")
	v.Act(chromedp.Click(chromedp.CSS("main .primary")))
	v.WaitAcross(`document.querySelector("#name")?.value === "typed again"`)
	if v.Keys.Written() != 0 {
		t.Error("the edit was saved")
	}
}

// What a user typed is not shown to another user, after a log-out or without a form, and
// secrets are not kept.
func TestBrowserKeepsTypedTextToItself(t *testing.T) {
	axe := sitetest.AxeScript(t)
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	const unkept, kept = `!document.querySelector("#unkept").hidden`, `sessionStorage.getItem("tidegate-typed")`
	v.Open("/resume")
	v.Wait(unkept)
	v.Look(t, axe, "none")
	v.Open("/keys/new")
	v.Keys.Fail("ERR unavailable")
	v.Act(chromedp.Evaluate[chromedp.Void](`document.getElementById("form").append(
		Object.assign(document.createElement("input"), { name: "value", value: "secret-canary" }))`)) // as the field for an existing key value
	save(v, "typed")
	v.WaitAcross(`!!document.querySelector('main a[href="/resume"]')`)
	v.Keys.Fail("")
	if got := sitetest.Eval[string](v, kept); !strings.Contains(got, "typed") ||
		strings.Contains(got, "canary") {
		t.Errorf("kept %s, want the name without the secret", got)
	}
	v.Act(chromedp.Evaluate[chromedp.Void](`sessionStorage.setItem("tidegate-typed",
		sessionStorage.getItem("tidegate-typed").replace('"user":"` + sitetest.User + `"', '"user":"eve"'))`))
	v.Open("/resume")
	v.Wait(unkept)
	v.Act(chromedp.Click(chromedp.CSS(".who button")))
	v.WaitAcross(`!!document.querySelector("[name=password]")`)
	if got := sitetest.Eval[bool](v, kept+` === null`); !got {
		t.Error("typed text outlives the log-out")
	}
}

// A form in a dialog asks before it drops what was typed, and not otherwise. After the
// deletion of its key the list is open.
func TestBrowserSheetAsks(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.Open("/keys/{acme}?live=0")
	v.Act(chromedp.Evaluate[chromedp.Void](
		`window.asked = 0; window.confirm = () => { asked++; return answer }`))
	open := func() {
		v.Act(chromedp.Click(chromedp.CSS("a[data-sheet]")),
			chromedp.WaitVisible(chromedp.CSS("#sheet #limits")))
	}
	open()
	v.Press(kb.Escape)
	v.Wait(`!sheet.open && asked === 0`)
	open()
	v.Retype("#sheet #limits", "7 per minute")
	v.Act(chromedp.Evaluate[chromedp.Void](`window.answer = false`),
		chromedp.Click(chromedp.CSS("#sheet .actions a.plain")))
	v.Wait(`asked === 1 && sheet.open && document.getElementById("limits").value === "7 per minute"`)
	v.Act(chromedp.Evaluate[chromedp.Void](`window.answer = true`))
	v.Press(kb.Escape)
	v.Wait(`asked === 2 && !sheet.open`)
	open()
	v.Press(kb.Escape)
	v.Wait(`asked === 2 && !sheet.open`)
	v.Act(chromedp.Click(chromedp.CSS("#more summary")),
		chromedp.Click(chromedp.CSS("#more .danger:last-child")),
		chromedp.WaitVisible(chromedp.CSS("#sheet #reason")), typeIn("reason", "gone"), send("save"))
	v.WaitAcross(`location.pathname === "/keys" && document.body.textContent.includes("Deleted “acme”.")`)
	v.NoConsoleErrors("")
}

// A page's form asks before it drops what was typed: not unchanged, and not after a save.
func TestBrowserPageFormAsks(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	leave := func(asked int) {
		t.Helper()
		v.Act(chromedp.Evaluate[chromedp.Void](`location.assign("` + v.Base + `/login/no-such-page")`))
		v.WaitAcross(`location.pathname.endsWith("/no-such-page")`)
		if got := v.Asked(); got != asked {
			t.Errorf("the browser asked %d times, want %d", got, asked)
		}
	}
	for i, path := range []string{
		"/policies/plans/new", "/policies/routes/new", "/policies/all", "/keys/new", "/callers/new",
	} {
		v.Open(path)
		leave(i)
		v.Open(path)
		v.Act(chromedp.SendKeys(chromedp.CSS("#form .field :is(input, textarea)"), "1"),
			chromedp.Click(chromedp.CSS("#form .actions .primary")))
		v.WaitAcross(`!!document.querySelector("[aria-invalid], main [role=alert], #secret")`)
		leave(i)
		v.Open(path)
		v.Act(chromedp.SendKeys(chromedp.CSS("#form .field :is(input, textarea)"), "1"))
		leave(i + 1)
	}
	v.Stay = true
	v.Open("/keys/new")
	v.Act(chromedp.SendKeys(chromedp.CSS("#name"), "kept"),
		chromedp.Click(chromedp.CSS("#form .actions a.plain")))
	for v.Asked() == 5 {
		v.WaitAcross(`document.querySelector("#name").value === "kept"`)
	}
}
