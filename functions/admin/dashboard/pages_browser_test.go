package dashboard_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/sitetest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Run(m)) }

// Live figures change without a reload, and keep the focus and typed text. A hidden tab
// does not refresh.
func TestBrowserLiveRefresh(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers()
	v.Open("/keys?live=2")
	v.Wait(`waits() === "2000"`)
	v.Act(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`),
		chromedp.SendKeys(chromedp.CSS("#q"), "half a wo"),
		chromedp.Evaluate[chromedp.Void](`document.querySelector("#q").setSelectionRange(4, 6)`))
	v.Keys.Use("bolt", 7)
	v.Fire()
	v.Wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.Wait(`waits() === "2000"`)
	v.Wait(`age.textContent === "Live"`)
	state := sitetest.Eval[string](v,
		`[sameDocument, document.activeElement.id, q.value, q.selectionStart, q.selectionEnd].join()`)
	if state != "true,q,half a wo,4,6" {
		t.Errorf("after a refresh: %s, want the same document, focus, text and selection", state)
	}
	v.Act(chromedp.Evaluate[chromedp.Void](v.Keys.Named(`document.querySelector("#key-{bolt} a").focus()`)))
	v.Keys.Use("bolt", 10)
	v.Fire()
	v.Wait(`document.querySelector("#key-{bolt}").textContent.includes("denied now")`)
	if got := sitetest.Eval[string](v, `document.activeElement.textContent`); got != "bolt" {
		t.Errorf("after a refresh the focus is on %q, want the link to bolt", got)
	}
	v.Wait(`waits() === "2000"`)
	setHidden(v, true)
	v.Wait(`waits() === ""`)
	v.Keys.Use("bolt", 1)
	setHidden(v, false)
	v.Wait(`document.querySelector("#key-{bolt} .used").textContent.includes("1 of 10")`)
	v.Wait(`waits() === "2000"`)
	v.NoConsoleErrors("")
}

// setHidden makes the page believe that its tab was hidden or shown.
func setHidden(v *sitetest.Visit, hidden bool) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`Object.defineProperty(document, "hidden", { value: %v, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`, hidden)))
}

// While Valkey is unavailable, the page keeps the last figures, grays them out and
// refreshes at growing intervals, up to 30 s. A success restores the chosen interval.
func TestBrowserStoreUnavailable(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers()
	v.Open("/keys/{acme}?live=2")
	v.Wait(`waits() === "2000"`)
	v.Keys.Fail("unavailable")
	for _, wait := range []string{"2000", "4000", "8000", "16000", "30000", "30000"} {
		v.Fire()
		v.Wait(`waits() === "` + wait + `" && /^Valkey has not answered since \d\d:\d\d\. Until it is back, ` +
			`on free: calls are denied\. Showing the last known figures\.$/.test(stale.textContent)`)
		if !sitetest.Eval[bool](v, `live.textContent.includes("10 of 10") &&
			getComputedStyle(document.querySelector("#live table")).filter.includes("grayscale") &&
			getComputedStyle(document.querySelector(".next")).display === "none" && /^\d+ s old$/.test(age.textContent)`) {
			t.Fatalf("the page does not show its last figures as old: %s",
				sitetest.Eval[string](v, "document.body.innerText"))
		}
	}
	v.Keys.Fail("")
	v.Keys.Use("acme", 3)
	v.Fire()
	v.Wait(`stale.textContent === "" && live.textContent.includes("3 of 10") && waits() === "2000"`)
	v.NoConsoleErrors("503")
}

// While Valkey is unavailable, Overview names it, says what each plan does, and the
// navigation no longer says how fast it answers.
func TestBrowserOverviewOutage(t *testing.T) {
	v := sitetest.NewVisit(t)
	v.Keys.Save(func(s *policy.Set) {
		s.Plans = append(s.Plans, policy.Plan{Name: "pro", Limits: s.Plans[0].Limits, Degraded: policy.Open})
	})
	v.Enter()
	v.HandTimers()
	v.Open("/?live=2")
	v.Wait(`waits() === "2000" && document.querySelector(".health").checkVisibility()`)
	v.Keys.Fail("unavailable")
	v.Fire()
	v.Wait(`stale.textContent.includes("Until it is back, on free: calls are denied; on pro: calls pass uncounted.") &&
		!document.querySelector(".health").checkVisibility() &&
		document.querySelector(".foot").innerText.includes("Valkey does not answer")`)
	v.Keys.Fail("")
	v.Fire()
	v.Wait(`stale.textContent === "" && document.querySelector(".health").checkVisibility()`)
	v.NoConsoleErrors("503")
}

// If the session ends during live refresh, the page opens the login, which leads back to
// the same address.
func TestBrowserSessionExpires(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.HandTimers()
	v.Open("/keys?live=2&q=a")
	v.Wait(`waits() === "2000"`)
	forgetSessions(v)
	v.Fire()
	v.Act(chromedp.WaitVisible(chromedp.CSS("[name=password]")),
		chromedp.SendKeys(chromedp.CSS("[name=user]"), sitetest.User),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), sitetest.Password+"\n"),
		chromedp.WaitReady(chromedp.CSS("#live")))
	if at := sitetest.Eval[string](v, `location.pathname + location.search`); at != "/keys?live=2&q=a" {
		t.Errorf("after the login the page is %s, want /keys?live=2&q=a", at)
	}
	v.NoConsoleErrors("401")
}

// forgetSessions deletes all sessions, as their expiry does.
func forgetSessions(v *sitetest.Visit) {
	v.T.Helper()
	if len(v.Store.Keys()) == 0 {
		v.T.Fatal("the store has no session to delete")
	}
	v.Store.FlushAll()
}

// createToken fills in and sends the form of a machine token.
func createToken(v *sitetest.Visit) {
	v.Open("/settings/tokens/new")
	v.Act(
		chromedp.SendKeys(chromedp.CSS("#name"),
			"continuous integration of the warehouse in Rotterdam"),
		chromedp.SetValue(chromedp.CSS("#scope"), "write"),
		chromedp.Click(chromedp.CSS("#form .actions .primary")),
		chromedp.WaitVisible(chromedp.CSS("#secret")),
	)
}

// pageState is a page in one of its states.
type pageState struct {
	name, path string
	status     string                // of the error that the browser logs; empty for none
	prepare    func(*sitetest.Visit) // brings the page into the state; may be nil
}

// pageStates returns each template in its fullest states.
func pageStates() []pageState {
	allInvalid := func(v *sitetest.Visit) {
		v.Retype("#limits", "12 per calendar month (Mars/Olympus Mons)")
		v.Act(chromedp.Click(chromedp.CSS("#form .field summary")),
			chromedp.Click(chromedp.CSS("#form .actions .primary")),
			chromedp.WaitVisible(chromedp.CSS("#limits-lines .wrong")),
			chromedp.Click(chromedp.CSS("#form .field summary")))
	}
	return []pageState{
		{"keys", "/keys?live=2", "", nil},
		{"key with every field", "/keys/{ferry}", "", nil},
		{"long name", "/keys/{endless}", "", nil},
		{"every field invalid", "/keys/{acme}/limits", "422", allInvalid},
		{"keyboard", "/keys", "", func(v *sitetest.Visit) {
			v.Press("?")
			v.Act(chromedp.WaitVisible(chromedp.CSS("#keyboard")))
		}},
		{"created token", "/settings/tokens/new", "", createToken},
		{"tokens", "/settings", "", nil},
		{"token with errors", "/settings/tokens/new", "422", func(v *sitetest.Visit) {
			v.Act(chromedp.Click(chromedp.CSS("#form .actions .primary")),
				chromedp.WaitVisible(chromedp.CSS("#name-error")))
		}},
		{"not found", "/nothing", "404", nil},
		{"Valkey unavailable", "/keys?q=unavailable", "503", func(v *sitetest.Visit) {
			v.Keys.Fail("unavailable")
			v.Open("/keys")
		}},
	}
}

// Every page has no console error, no violation of the content security policy, no sideways
// scroll, and no finding of axe.
func TestBrowserPages(t *testing.T) {
	axe := sitetest.AxeScript(t)
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	t.Run("login", func(t *testing.T) { v.Open("/login"); v.Look(t, axe, "") })
	t.Run("login with an error", func(t *testing.T) {
		v.Act(chromedp.SendKeys(chromedp.CSS("[name=user]"), sitetest.User),
			chromedp.SendKeys(chromedp.CSS("[name=password]"), "n0t-it\n"),
			chromedp.WaitVisible(chromedp.CSS("#login-error")))
		v.Look(t, axe, "401")
	})
	v.Enter()
	for _, p := range pageStates() {
		t.Run(p.name, func(t *testing.T) {
			v.T = t
			v.Open(p.path)
			if p.prepare != nil {
				p.prepare(v)
			}
			v.Look(t, axe, p.status)
		})
	}
}

// Without JavaScript, login, search, limits, errors, saving, tokens and logout work.
func TestBrowserWithoutScript(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	if _, err := chromedp.Call(v.Ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	v.Enter()
	v.Act(chromedp.SendKeys(chromedp.CSS("#q"), "ac"), chromedp.Click(chromedp.CSS(".filters button")),
		chromedp.WaitNotPresent(chromedp.CSS(v.Keys.Named("#key-{bolt}"))),
		chromedp.Click(chromedp.CSS(v.Keys.Named("#key-{acme} a"))),
		chromedp.Click(chromedp.CSS(".head .main")),
		chromedp.SetValue(chromedp.CSS("#limits"), "2,000 per 10 seconds\nmany per second"),
		chromedp.SetValue(chromedp.CSS("#reason"), "asked for"),
		chromedp.Click(chromedp.CSS(".actions .primary")),
		chromedp.WaitVisible(chromedp.CSS("#limits-lines .wrong")))
	v.Act(chromedp.SetValue(chromedp.CSS("#limits"), "2,000 per 10 seconds\n\n"),
		chromedp.Click(chromedp.CSS(".actions .primary")), chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	if got := policydoc.LimitsText(v.Keys.Key("acme").Override.Limits); got != "2,000 per 10 seconds" {
		t.Errorf("saved %s, want 2,000 per 10 seconds", got)
	}
	v.Open("/settings")
	if sitetest.Eval[bool](v, `document.querySelector("[data-copy]") !== null`) {
		t.Error("the page has a copy button before a token was created")
	}
	createToken(v)
	v.Act(chromedp.WaitNotVisible(chromedp.CSS("[data-copy]")))
	v.Act(chromedp.Click(chromedp.CSS("td form button")), chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	if all, err := v.Tokens.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after the revocation: tokens %v, %v, want none", all, err)
	}
	v.Act(chromedp.Click(chromedp.CSS(".who button")), chromedp.WaitVisible(chromedp.CSS("[name=password]")))
	v.NoConsoleErrors("422")
}

// The copy button of a new token selects it in its field.
func TestBrowserCopy(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	v.Enter()
	v.Open("/settings")
	createToken(v)
	v.Act(chromedp.Click(chromedp.CSS("[data-copy]")))
	v.Wait(`document.querySelector("[data-copy]").textContent !== "Copy"`)
	if got := sitetest.Eval[string](
		v, `secret.value.slice(secret.selectionStart, secret.selectionEnd)`,
	); !sitetest.TokenInPage.MatchString(got) {
		t.Errorf("selected %q, want the token", got)
	}
	v.NoConsoleErrors("")
}

// Below a base path, such as an API Gateway stage, the session, the assets and the
// refresh work.
func TestBrowserBasePath(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)), sitetest.WithBase("/prod"))
	v.Enter()
	v.HandTimers()
	v.Open("/keys?live=2")
	v.Wait(`waits() === "2000"`)
	v.Keys.Use("bolt", 7)
	v.Fire()
	v.Wait(`document.querySelector("#key-{bolt} .used").textContent.includes("7 of 10")`)
	v.Act(chromedp.Click(chromedp.CSS(".who button")), chromedp.WaitVisible(chromedp.CSS("[name=password]")))
	if at := sitetest.Eval[string](v, "location.pathname"); at != "/prod/login" {
		t.Errorf("after the logout the page is %s, want /prod/login", at)
	}
	v.NoConsoleErrors("")
}
