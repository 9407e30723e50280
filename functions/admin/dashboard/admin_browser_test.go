package dashboard_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// busyKeys returns a registry with policies of every kind and keys in every state.
func busyKeys(t testing.TB) *sitetest.Registry {
	keys := sitetest.NewRegistry(t, "acme", "bolt")
	keys.Save(func(s *policy.Set) {
		s.Plans = append(s.Plans, policy.Plan{
			Name: "pro",
			Limits: []limits.Limit{sitetest.Limit("100 per 10 seconds, shadow"),
				sitetest.Limit("1,000 per 10 minutes, notify at 80 %, shadow")},
			Degraded: policy.Local, Share: 20,
		})
		s.Routes = []limits.Route{
			sitetest.Route("search", "5", "abcdef1234/prod GET /search"),
			sitetest.Route("orders", "", "/orders/{proxy+}"),
			sitetest.Route("chat", `{"input":500,"output":800}`, "POST /rooms/{room}"),
			sitetest.Route(strings.Repeat("long-", 19), "2", "/"+strings.Repeat("segment", 30)),
		}
		s.Routes[3].Settle = true
		for _, text := range []string{"20 per minute, on search, each caller",
			"10,000 per minute, on orders, together", "600 per minute, each address",
			"5 per second, on chat, each caller and {room}", "8,000 output per minute, each caller"} {
			s.Limits = append(s.Limits, sitetest.Limit(text))
		}
		s.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"),
			netip.MustParsePrefix("2001:db8:1234:5678::/64")}
	})
	for i := range 5 {
		name := fmt.Sprintf("customer-%d", i)
		keys.CreateKey(name, "pro")
		keys.Called(name, time.Now().Add(-time.Duration(i)*time.Minute), 30+i, 3*i)
	}
	list := []limits.Limit{sitetest.Per(500, time.Minute)}
	keys.UpdateKey("customer-0", func(k *policy.Key) {
		k.Override = &policy.Override{Limits: list, Until: time.Now().Add(3 * time.Hour),
			Reason: "launch day"}
	})
	keys.UpdateKey("customer-1", func(k *policy.Key) {
		k.Override = &policy.Override{Limits: list, Until: time.Now().Add(-time.Hour),
			Reason: strings.Repeat("reason", 30)}
	})
	keys.UpdateKey("customer-2", func(k *policy.Key) {
		k.Banned, k.Tags = time.Now().Add(time.Hour), []string{"beta", strings.Repeat("tag", 16)}
	})
	keys.UpdateKey("customer-3", func(k *policy.Key) { k.Expires = time.Now().Add(50 * time.Hour) })
	keys.Use("acme", 10)
	return keys
}

// send clicks a button of the page's form.
func send(button string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS("#form .actions button[value=" + button + "]"))
}

func typeIn(field, text string) chromedp.Action[chromedp.Void] {
	return chromedp.SetValue(chromedp.CSS("#"+field), text)
}

// makeGroup puts keys into the group corp, gives every plan a limit of each group, and
// records a denial of the first key.
func makeGroup(s *sitetest.Site, names ...string) {
	s.T.Helper()
	for _, name := range names {
		s.Keys.UpdateKey(name, func(k *policy.Key) { k.Group = "corp" })
	}
	s.Keys.Save(func(set *policy.Set) {
		for i := range set.Plans {
			set.Plans[i].Limits[0].Shadow = true
			set.Plans[i].Limits = append(set.Plans[i].Limits, sitetest.Limit("20 per hour, each group"))
		}
	})
	d := sampleDenial("20 per hour each group")
	d.Group = "corp"
	denyAt(s, names[0], time.Now(), d)
}

// adminPages returns each template in its fullest states.
func adminPages() []pageState {
	return []pageState{
		{"overview", "/?live=10", "", nil},
		{"busy keys", "/keys", "", nil},
		{"banned key", "/keys/{customer-2}", "", nil},
		{"created key", "/keys/new", "", func(v *sitetest.Visit) {
			v.Act(typeIn("name", "created in a browser"), send("save"),
				chromedp.WaitVisible(chromedp.CSS("#secret")))
		}},
		{"edit key", "/keys/{acme}/edit", "", nil},
		{"revoke", "/keys/{acme}/revoke", "", nil},
		{"bulk preview", "/keys/bulk?do=plan&of=all", "", func(v *sitetest.Visit) {
			v.Act(send("preview"), chromedp.WaitVisible(chromedp.CSS("#preview-title")))
		}},
		{"undo of a change", "/audit?subject={customer-1}", "", func(v *sitetest.Visit) {
			v.Act(chromedp.Click(chromedp.CSS("a[href$='/undo']")),
				chromedp.WaitVisible(chromedp.CSS("#reason")))
		}},
		{"limits in a dialog", "/keys", "", func(v *sitetest.Visit) { openSheet(v, "acme") }},
		{"callers", "/callers?live=30", "", func(v *sitetest.Visit) {
			v.Keys.UnregisteredCalls(v.Keys.TokenCaller("i", "s"), time.Now(), 20, 4)
			v.Open("/callers?live=30")
		}},
		{"caller", "/callers/aaaaaaaaaaaaaaaaaaaaaa", "", nil},
		{"adopt with errors", "/callers/new", "422", func(v *sitetest.Visit) {
			v.Act(send("save"), chromedp.WaitVisible(chromedp.CSS("#name-error")))
		}},
		{"policies", "/policies", "", nil},
		{"plan", "/policies/plans/2", "", nil},
		{"plan preview", "/policies/plans/2/edit", "", func(v *sitetest.Visit) {
			v.Act(
				typeIn("limits", "7 per minute"), typeIn("reason", "r"), send("preview"),
				chromedp.WaitVisible(chromedp.CSS("#preview-title")),
				// at the end of the form its bar covers no part of a target
				chromedp.Evaluate[chromedp.Void]("scrollTo(0, document.body.scrollHeight)"),
			)
		}},
		{"plan conflict", "/policies/plans/2/edit", "409", func(v *sitetest.Visit) {
			v.Keys.Save(func(set *policy.Set) {
				for i := range set.Plans {
					set.Plans[i].Limits = []limits.Limit{sitetest.Per(1000, time.Hour)}
				}
			})
			v.Act(typeIn("limits", "7 per minute"), typeIn("reason", "r"), send("save"),
				chromedp.WaitVisible(chromedp.CSS(".conflict")))
		}},
		{"route tie", "/policies/routes/new", "422", func(v *sitetest.Visit) {
			v.Act(typeIn("name", "tie"), typeIn("match", "POST /rooms/{other}"),
				typeIn("cost", "3 input"), typeIn("reason", "r"), send("save"),
				chromedp.WaitVisible(chromedp.CSS("#cost-error")))
		}},
		{"delete route", "/policies/routes/delete?route=search", "", nil},
		{"route", "/policies/routes/edit?route=chat", "", nil},
		{"all callers with an error", "/policies/all", "422", func(v *sitetest.Visit) {
			v.Act(typeIn("limits", "600 per minute, each address\n5 per second, each ip"),
				typeIn("reason", "r"), send("save"),
				chromedp.WaitVisible(chromedp.CSS("#limits-lines .wrong")))
		}},
		{"import with an error", "/policies/import", "422", func(v *sitetest.Visit) {
			v.Act(typeIn("yaml", "plans: []"), send("preview"),
				chromedp.WaitVisible(chromedp.CSS(".notice.bad")))
		}},
		{"import preview", "/policies/import", "", func(v *sitetest.Visit) {
			v.Act(typeIn("yaml", "plans: [{name: free, limits: [5 per second]}, {name: pro}]"),
				send("preview"), chromedp.WaitVisible(chromedp.CSS("#preview-title")))
		}},
		{"overridden keys", "/keys?state=overridden", "", nil},
		{"denials", "/denials", "", func(v *sitetest.Visit) {
			denyAt(v.Site, "acme", time.Now(), sampleDenial("10 per 10 s"))
			v.Open("/denials")
		}},
		{"alerts", "/alerts", "", func(v *sitetest.Visit) {
			crossLimits(v.Site, "acme")
			v.Open("/alerts")
		}},
		{"group", "/keys", "", func(v *sitetest.Visit) {
			makeGroup(v.Site, "acme", "customer-4")
			v.Open("/groups/corp")
		}},
		{"reset of a group", "/groups/corp/reset", "", nil},
		{"audit", "/audit", "", nil},
		{"explain", "/explain?key={customer-4}&path=/orders/7&address=192.0.2.1", "", nil},
		{"explain with errors", "/explain?key=nobody&path=x&address=y", "422", nil},
	}
}

// The pages of keys and policies have no console error, no violation of the content
// security policy, no sideways scroll, and no finding of axe.
func TestBrowserAdminPages(t *testing.T) {
	axe := sitetest.AxeScript(t)
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	v.Enter()
	for _, p := range adminPages() {
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

// An override can be created and ended with the keyboard alone.
func TestBrowserOverrideByKeyboard(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	v.Enter()
	v.Open("/keys/{bolt}")
	tabUntil := func(condition string) {
		t.Helper()
		for range 80 {
			v.Press(kb.Tab)
			if sitetest.Eval[bool](v, condition) {
				return
			}
		}
		t.Fatalf("80 presses of Tab do not reach %s", condition)
	}
	hasText := func(text string) string {
		return `document.activeElement.textContent.trim() === "` + text + `"`
	}
	hasID := func(id string) string { return `document.activeElement.id === "` + id + `"` }
	tabUntil(hasText("Override limits"))
	// The script moves the focus to the field after the form is in the sheet.
	v.Press(kb.Enter)
	v.Act(chromedp.WaitReady(chromedp.CSS("#limits:focus")))
	held := func(stroke *input.DispatchKeyEventParams) { stroke.AutoRepeat = new(true) }
	v.Press(kb.Enter, held) // must not submit the form
	tabUntil(hasID("limits"))
	v.Act(chromedp.Evaluate[chromedp.Void](`document.activeElement.select()`),
		chromedp.KeyEvent("25 per 10 seconds"))
	tabUntil(hasID("reason"))
	v.Act(chromedp.KeyEvent("by keyboard"))
	v.Press(kb.Enter)
	v.Act(chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	if o := v.Keys.Key("bolt").Override; o == nil || !o.Limits[0].Equal(sitetest.Per(25, 10*time.Second)) ||
		o.Reason != "by keyboard" {
		t.Fatalf("saved override %+v, want 25 per 10 seconds", o)
	}
	tabUntil(hasText("End override"))
	v.Press(kb.Enter)
	v.Act(chromedp.WaitReady(chromedp.CSS("#form")))
	tabUntil(hasID("reason"))
	v.Press(kb.Enter)
	v.WaitAcross(
		`!document.getElementById("sheet").open && !document.body.innerText.includes("End override")`,
	)
	if o := v.Keys.Key("bolt").Override; o != nil {
		t.Errorf("after its end there is an override: %+v", o)
	}
	v.NoConsoleErrors("")
}

// Without JavaScript, ticked keys can be changed together, and a saved change be undone.
func TestBrowserBulkWithoutScript(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	v.WithoutScript()
	v.Enter()
	v.Act(chromedp.Click(chromedp.CSS(v.Keys.Named("#key-{customer-3} input"))),
		chromedp.Click(chromedp.CSS(v.Keys.Named("#key-{customer-4} input"))),
		chromedp.Click(chromedp.CSS("#bulk button[value=plan]")),
		chromedp.WaitReady(chromedp.CSS("#form #plan")),
		chromedp.SetValue(chromedp.CSS("#form #plan"), "free"), typeIn("reason", "downgrade"),
		send("preview"), chromedp.WaitVisible(chromedp.CSS("#preview-title")), send("save"))
	v.WaitAcross(`document.body.textContent.includes(": 2 changed")`)
	for name, plan := range map[string]string{"customer-3": "free", "customer-4": "free",
		"customer-2": "pro"} {
		if got := v.Keys.Key(name).Plan; got != plan {
			t.Errorf("%s has the plan %s, want %s", name, got, plan)
		}
	}
	v.Open("/policies/plans/1/edit")
	v.Act(typeIn("limits", "11 per minute"), typeIn("reason", "more"), send("save"),
		chromedp.WaitVisible(chromedp.CSS("#toasts form button")))
	v.Act(chromedp.Click(chromedp.CSS("#toasts form button")))
	v.WaitAcross(`document.body.textContent.includes(" undone.")`)
	if p, _ := v.Set().PlanByNumber(1); !p.Limits[0].Equal(sitetest.Per(10, 10*time.Second)) {
		t.Errorf("after the undo: %+v, want 10 per 10 seconds", p)
	}
	v.NoConsoleErrors("")
}

// The box above the list selects the keys of the page, and a link then all that match.
// The bar states what is selected, and a refresh of the list keeps the selection.
func TestBrowserSelection(t *testing.T) {
	keys := busyKeys(t)
	names := make([]string, keysPerPage)
	for i := range names {
		names[i] = fmt.Sprintf("page-%02d", i)
	}
	keys.CreateNamed("free", names...)
	v := sitetest.NewVisit(t, sitetest.WithKeys(keys))
	v.Enter()
	total := fmt.Sprint(len(keys.IDs))
	onPage := fmt.Sprint(keysPerPage)
	checkSelection := func(text, of string, ticked int) {
		t.Helper()
		v.Wait(fmt.Sprintf(`document.querySelector("[data-selected]").textContent.trim() === %q &&
			document.getElementById("bulk").of.value === %q &&
			document.querySelectorAll("#keys input[name=id]:checked").length === %d`, text, of, ticked))
	}
	click := func(selector string) { t.Helper(); v.Act(chromedp.Click(chromedp.CSS(selector))) }
	checkSelection("Select keys to change them together.", "selected", 0)
	click(v.Keys.Named("#key-{acme} input"))
	checkSelection("1 key is selected.", "selected", 1)
	v.Act(chromedp.Evaluate[chromedp.Void](
		`document.querySelector("[data-select-all]").click()`)) // narrow pages hide the box
	checkSelection("All "+onPage+" on this page are selected.", "selected", keysPerPage)
	v.Act(chromedp.Evaluate[chromedp.Void](
		`document.getElementById("live").dispatchEvent(new CustomEvent("refresh"))`))
	v.Wait(`!document.querySelector("[data-select-all]").hidden`)
	checkSelection("All "+onPage+" on this page are selected.", "selected", keysPerPage)
	click("[data-select=all]")
	checkSelection("All "+total+" matching keys are selected.", "all", keysPerPage)
	click(v.Keys.Named("#key-{acme} input"))
	checkSelection(fmt.Sprint(keysPerPage-1)+" keys are selected.", "selected",
		keysPerPage-1)
	click("[data-select=page]")
	click("[data-select=all]")
	click("#bulk button[value=revoke]")
	v.WaitAcross(`document.querySelector("h1")?.textContent.trim() === "Revoke ` + total + ` keys"`)
	v.NoConsoleErrors("")
}

// openSheet opens the form of a key's limits over the list.
func openSheet(v *sitetest.Visit, name string) {
	v.T.Helper()
	v.Act(chromedp.Click(chromedp.CSS(v.Keys.Named("#key-{"+name+"} [data-sheet]"))),
		chromedp.WaitVisible(chromedp.CSS("#sheet[open] #form")))
}

// Limits are edited in a dialog over the list. It shows errors and previews, and a save
// opens the key's page. Escape and Cancel close it and return the focus.
func TestBrowserLimitsDialog(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	v.Enter()
	v.Act(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`))
	for _, closeDialog := range []func(){
		func() { v.Press(kb.Escape) },
		func() { v.Act(chromedp.Click(chromedp.CSS("#sheet .actions .plain"))) },
	} {
		openSheet(v, "bolt")
		if got := sitetest.Eval[string](v, `document.activeElement.id`); got != "limits" {
			t.Errorf("in the dialog the focus is on %q, want limits", got)
		}
		closeDialog()
		v.Wait(`!document.getElementById("sheet").open && sameDocument`)
		if got := sitetest.Eval[string](v,
			`document.activeElement.getAttribute("aria-label")`); got != "10 per 10 seconds, limits of bolt" {
			t.Errorf("after the dialog the focus is on %q, want the link to the limits of bolt", got)
		}
	}
	openSheet(v, "bolt")
	v.Act(typeIn("limits", "many"), send("save"), chromedp.WaitVisible(chromedp.CSS("#limits-lines .wrong")))
	v.Retype("#limits", "33 per 10 seconds")
	v.Act(typeIn("reason", "in a dialog"), send("preview"),
		chromedp.WaitVisible(chromedp.CSS("#sheet #preview-title")))
	if !sitetest.Eval[bool](v, `sameDocument`) || v.Keys.Key("bolt").Override != nil {
		t.Fatal("the preview left the list or saved the override")
	}
	v.Act(send("save"), chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	at, o := sitetest.Eval[string](v, `location.pathname`), v.Keys.Key("bolt").Override
	if at != "/keys/"+v.Keys.IDs["bolt"] || o == nil || !o.Limits[0].Equal(sitetest.Per(33, 10*time.Second)) {
		t.Errorf("the save opened %s with the override %+v, want the key with 33 per 10 seconds", at, o)
	}
	v.NoConsoleErrors("422")
}
