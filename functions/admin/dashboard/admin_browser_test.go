package dashboard_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tidegate/functions/admin/dashboard"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	routing "tidegate/internal/route"
	"tidegate/internal/usage"
	"tidegate/internal/usage/routecount"
)

// busyKeys is a registry with policies of every kind, and keys in every state.
func busyKeys(t testing.TB) *sitetest.Registry {
	keys := sitetest.NewRegistry(t, "acme", "bolt")
	keys.Save(func(s *policy.Set) {
		s.Plans = append(s.Plans, policy.Plan{
			Name:      "pro",
			Limits:    []limiter.Limit{sitetest.Per(100, 10*time.Second), sitetest.Per(1000, 10*time.Minute)},
			Candidate: []limiter.Limit{sitetest.Per(50, 10*time.Second)},
			Mode:      policy.Shadow, Degraded: policy.Local, Share: 20,
		})
		s.Routes = []policy.Route{
			{Name: "search", Pattern: routing.Pattern{API: "abcdef1234", Stage: "prod", Method: "GET",
				Path: "/search"}, Cost: 5,
				PerKey: []limiter.Limit{sitetest.Per(20, time.Minute)}},
			{
				Name: "all orders", Pattern: routing.Pattern{Path: "/orders/{proxy+}"}, Cost: 1,
				Shared: []limiter.Limit{sitetest.Per(10_000, time.Minute)},
			},
			{Name: strings.Repeat("long-", 19),
				Pattern: routing.Pattern{Path: "/" + strings.Repeat("segment", 30)}, Cost: 2, Settle: true},
		}
		s.PerIP = policy.Scope{Limits: []limiter.Limit{sitetest.Per(600, time.Minute)}}
		s.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"),
			netip.MustParsePrefix("2001:db8:1234:5678::/64")}
		s.Bans = &policy.Bans{Denials: 100, Window: policy.Duration(time.Minute),
			Base: policy.Duration(5 * time.Minute),
			Cap:  policy.Duration(24 * time.Hour)}
	})
	keys.CountDenied("10000")
	keys.CountDenied("600")
	for i := range 5 {
		name := fmt.Sprintf("customer-%d", i)
		keys.CreateKey(name, "pro")
		keys.Called(name, time.Now().Add(-time.Duration(i)*time.Minute), 30+i, 3*i)
	}
	limits := []limiter.Limit{sitetest.Per(500, time.Minute)}
	keys.UpdateKey("customer-0", func(k *policy.Key) {
		k.Override = &policy.Override{Limits: limits, Until: time.Now().Add(3 * time.Hour),
			Reason: "launch day"}
	})
	keys.UpdateKey("customer-1", func(k *policy.Key) {
		k.Override = &policy.Override{Limits: limits, Until: time.Now().Add(-time.Hour),
			Reason: strings.Repeat("reason", 30)}
	})
	keys.UpdateKey("customer-2", func(k *policy.Key) {
		k.Banned, k.Tags = time.Now().Add(time.Hour), []string{"beta", strings.Repeat("tag", 16)}
	})
	keys.UpdateKey("customer-3", func(k *policy.Key) { k.Expires = time.Now().Add(50 * time.Hour) })
	keys.Use("acme", 10)
	return keys
}

// send sends the page's form.
func send(button string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS("#form .actions button[value=" + button + "]"))
}

func typeIn(field, text string) chromedp.Action[chromedp.Void] {
	return chromedp.SetValue(chromedp.CSS("#"+field), text)
}

// openMore shows the rarer fields of every limit.
func openMore(v *sitetest.Visit) {
	v.T.Helper()
	v.Act(chromedp.Evaluate[chromedp.Void](
		`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
}

// inGroup puts keys into a group, whose plans limit it, and lets the first be denied.
func inGroup(s *sitetest.Site, names ...string) {
	s.T.Helper()
	for _, name := range names {
		s.Keys.UpdateKey(name, func(k *policy.Key) { k.Group = "corp" })
	}
	s.Keys.Save(func(set *policy.Set) {
		for i := range set.Plans {
			set.Plans[i].PerGroup = []limiter.Limit{sitetest.Per(20, time.Hour)}
			set.Plans[i].Limits[0].Shadow = true
		}
	})
	d := sampleDenial("20 per hour")
	d.Group = "corp"
	denyAt(s, names[0], time.Now(), d)
}

func adminPages() []shown {
	return []shown{
		{"overview", "/?live=10", "", nil},
		{"overview of a week", "/?range=7d", "", nil},
		{"busy keys", "/keys", "", nil},
		{"key in shadow", "/keys/{customer-4}", "", nil},
		{"banned key", "/keys/{customer-2}", "", nil},
		{"new key", "/keys/new", "", nil},
		{"new key refused", "/keys/new", "422", func(v *sitetest.Visit) {
			v.Act(send("save"), chromedp.WaitVisible(chromedp.CSS("#name-error")))
		}},
		{"new key made", "/keys/new", "", func(v *sitetest.Visit) {
			v.Act(typeIn("name", "made in a browser"), send("save"),
				chromedp.WaitVisible(chromedp.CSS("#secret")))
		}},
		{"edit key", "/keys/{acme}/edit", "", func(v *sitetest.Visit) {
			v.Keys.Record(called(v.Keys.IDs["acme"], "GET", "/health", 12)...)
			v.Keys.Record(called(v.Keys.IDs["acme"], "POST", "/orders/{id}", 5)...)
			v.Act(typeIn("allow", "GET /orders/*"), send("preview"),
				chromedp.WaitVisible(chromedp.CSS("#preview-title")))
		}},
		{"ban", "/keys/{acme}/ban", "", nil},
		{"revoke", "/keys/{acme}/revoke", "", nil},
		{"rotated", "/keys/{acme}/rotate", "", func(v *sitetest.Visit) {
			v.Act(send("save"), chromedp.WaitVisible(chromedp.CSS("#secret")))
		}},
		{"preview", "/keys/{customer-4}/limits", "", func(v *sitetest.Visit) {
			v.Act(
				typeIn("limits-0-requests", "3"), typeIn("reason", "r"), send("preview"),
				chromedp.WaitVisible(chromedp.CSS("#preview-title")),
			)
		}},
		{"bulk", "/keys/bulk?do=override&of=all&plan=2", "", nil},
		{"job", "/keys/bulk?do=end&of=all&state=overridden", "", func(v *sitetest.Visit) {
			v.Act(typeIn("reason", "r"), send("save"))
			v.WaitAcross(`document.body.textContent.includes("Finished.")`)
		}},
		{"everything selected", "/keys?select=all", "", nil},
		{"bulk revocation", "/keys/bulk?do=revoke&of=all", "", nil},
		{"bulk preview", "/keys/bulk?do=plan&of=all", "", func(v *sitetest.Visit) {
			v.Act(send("preview"), chromedp.WaitVisible(chromedp.CSS("#effects-title")))
		}},
		{"undo of a job", "/audit?what=job.end", "", func(v *sitetest.Visit) {
			v.Act(chromedp.Click(chromedp.CSS("a[href$='/undo']")),
				chromedp.WaitVisible(chromedp.CSS("#effects-title")))
		}},
		{"limits in a dialog", "/keys", "", func(v *sitetest.Visit) { openSheet(v, "acme") }},
		{"invalid limits in a dialog", "/keys", "422", func(v *sitetest.Visit) {
			openSheet(v, "acme")
			v.Act(
				typeIn("limits-0-requests", "ten"), send("save"),
				chromedp.WaitVisible(chromedp.CSS("#sheet .wrong")),
			)
		}},
		{"no callers", "/callers", "", nil},
		{"callers", "/callers?live=30", "", func(v *sitetest.Visit) {
			v.Keys.UnregisteredCalls(v.Keys.TokenCaller("i", "s"), time.Now(), 20, 4)
			v.Open("/callers?live=30")
		}},
		{"caller", "/callers/aaaaaaaaaaaaaaaaaaaaaa", "", nil},
		{"adopt", "/callers/new", "", nil},
		{"adopt refused", "/callers/new", "422", func(v *sitetest.Visit) {
			v.Act(send("save"), chromedp.WaitVisible(chromedp.CSS("#issuer-error")))
		}},
		{"policies", "/policies", "", nil},
		{"new plan", "/policies/plans/new", "", nil},
		{"plan", "/policies/plans/2", "", nil},
		{"plan preview", "/policies/plans/2", "", func(v *sitetest.Visit) {
			v.Act(
				typeIn("limits-0-requests", "7"), typeIn("reason", "r"), send("preview"),
				chromedp.WaitVisible(chromedp.CSS("#preview-title")),
			)
		}},
		{"plan conflict", "/policies/plans/2", "409", func(v *sitetest.Visit) {
			v.Keys.Plan("meanwhile", sitetest.Per(1000, time.Hour))
			v.Act(
				typeIn("limits-0-requests", "7"), typeIn("reason", "r"), send("save"),
				chromedp.WaitVisible(chromedp.CSS(".conflict")),
			)
		}},
		{"promote", "/policies/plans/2/promote", "", nil},
		{"rule", "/policies/rules/edit?rule=search", "", nil},
		{"rule tie", "/policies/rules/new", "422", func(v *sitetest.Visit) {
			v.Act(typeIn("name", "tie"), typeIn("path", "/orders/{more+}"),
				typeIn("reason", "r"), send("save"),
				chromedp.WaitVisible(chromedp.CSS("#path-error")))
		}},
		{"rule whose settlements are bounded below its cost", "/policies/rules/edit?rule=all orders", "422",
			func(v *sitetest.Visit) {
				v.Act(typeIn("cost", "9"), typeIn("settleMax", "3"), typeIn("reason", "r"), send("save"),
					chromedp.WaitVisible(chromedp.CSS("#settleMax-error")))
			}},
		{"delete rule", "/policies/rules/delete?rule=search", "", nil},
		{"shared", "/policies/shared", "", nil},
		{"import", "/policies/import", "", nil},
		{"import preview", "/policies/import", "", func(v *sitetest.Visit) {
			v.Act(typeIn("yaml", "plans: []"), send("save"),
				chromedp.WaitVisible(chromedp.CSS("#preview-title")))
		}},
		{"overrides", "/overrides", "", nil},
		{"denials", "/denials", "", func(v *sitetest.Visit) {
			denyAt(v.Site, "acme", time.Now(), sampleDenial("10 per 10 s"))
			v.Open("/denials")
		}},
		{"denials of a key", "/denials?key={acme}&cause=limit", "", nil},
		{"no denials", "/denials?cause=ban", "", nil},
		{"denials refused", "/denials?cause=x", "422", nil},
		{"alerts", "/alerts", "", func(v *sitetest.Visit) {
			crossLimits(v.Site, "acme")
			v.Open("/alerts")
		}},
		{"no alerts", "/alerts?key=nobody", "", nil},
		{"alerts refused", "/alerts?key=%2e", "422", nil},
		{"group", "/keys", "", func(v *sitetest.Visit) {
			inGroup(v.Site, "acme", "customer-4")
			v.Open("/groups/corp")
		}},
		{"reset of a group", "/groups/corp/reset", "", nil},
		{"keys of a group", "/keys?q=corp", "", nil},
		{"plan with limits per group", "/policies/plans/2", "", openMore},
		{"limits of one in shadow mode", "/keys/{customer-4}/limits", "", openMore},
		{"audit", "/audit", "", nil},
		{"audit verified", "/audit/verify", "", nil},
		{"no audit", "/audit?by=nobody", "", nil},
		{"explain", "/explain?key={customer-4}&path=/orders/7&address=192.0.2.1", "", nil},
		{"explain HEAD", "/explain?key={customer-4}&method=HEAD&path=/search&api=abcdef1234&stage=prod", "",
			nil},
		{"explain refused", "/explain?key=nobody&path=x&address=y", "422", nil},
	}
}

// Every page of the keys and the policies: no console or policy error, no sideways
// scroll, no finding of axe in light and dark.
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

// An override is made, seen and ended with the keyboard alone.
func TestBrowserOverrideByKeyboard(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	v.Enter()
	v.Open("/keys/{bolt}")
	to := func(what string) {
		t.Helper()
		for range 80 {
			v.Act(chromedp.KeyEvent("\t"))
			if sitetest.Eval[bool](v, what) {
				return
			}
		}
		t.Fatalf("Tab never reaches %s", what)
	}
	focused := func(text string) string {
		return `document.activeElement.textContent.trim() === "` + text + `"`
	}
	named := func(id string) string { return `document.activeElement.id === "` + id + `"` }
	// The script moves the focus last, once the form is in the sheet.
	to(focused("Override limits"))
	v.Act(chromedp.KeyEvent("\r"), chromedp.WaitReady(chromedp.CSS("#limits-0-requests:focus")))
	to(named("limits-0-requests"))
	v.Act(chromedp.Evaluate[chromedp.Void](`document.activeElement.select()`), chromedp.KeyEvent("25"))
	to(named("reason"))
	v.Act(chromedp.KeyEvent("by keyboard\r"), chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	if o := v.Keys.Key("bolt").Override; o == nil || o.Limits[0] != sitetest.Per(25, 10*time.Second) ||
		o.Reason != "by keyboard" {
		t.Fatalf("saved %+v", o)
	}
	to(focused("End override"))
	v.Act(chromedp.KeyEvent("\r"), chromedp.WaitReady(chromedp.CSS("#form")))
	to(named("reason"))
	v.Act(chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	if o := v.Keys.Key("bolt").Override; o != nil {
		t.Errorf("after its end: %+v", o)
	}
	v.NoConsoleErrors("")
}

// Ticked keys are changed together, and what was saved is undone, without JavaScript.
func TestBrowserBulkWithoutScript(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	v.WithoutScript()
	v.Enter()
	v.Act(
		chromedp.Click(chromedp.CSS(v.Keys.Named("#key-{customer-3} input"))),
		chromedp.Click(chromedp.CSS(v.Keys.Named("#key-{customer-4} input"))),
		chromedp.Click(chromedp.CSS("#bulk button[value=plan]")),
		chromedp.WaitReady(chromedp.CSS("#to")),
		chromedp.SetValue(chromedp.CSS("#to"), "free"), typeIn("reason", "downgrade"), send("save"),
		chromedp.WaitVisible(chromedp.CSS("main .button.primary")),
	)
	for name, plan := range map[string]string{"customer-3": "free", "customer-4": "free",
		"customer-2": "pro"} {
		if got := v.Keys.Key(name).Plan; got != plan {
			t.Errorf("%s has the plan %s, want %s", name, got, plan)
		}
	}
	v.Open("/policies/plans/1")
	v.Act(
		typeIn("limits-0-requests", "11"), typeIn("reason", "more"), send("save"),
		chromedp.WaitVisible(chromedp.CSS("#toasts form button")),
	)
	v.Act(chromedp.Click(chromedp.CSS("#toasts form button")))
	v.WaitAcross(`document.body.textContent.includes("Reverted")`)
	if p, _ := v.Set().PlanByNumber(1); p.Limits[0] != sitetest.Per(10, 10*time.Second) {
		t.Errorf("after the undo: %+v", p)
	}
	v.NoConsoleErrors("")
}

// The box above the list selects the page, what is offered then all that match; the bar
// says what is selected, and a refresh of the list forgets none of it.
func TestBrowserSelection(t *testing.T) {
	keys := busyKeys(t)
	for i := range dashboard.KeysPerPage {
		keys.CreateKey(fmt.Sprintf("page-%02d", i), "free")
	}
	v := sitetest.NewVisit(t, sitetest.WithKeys(keys))
	v.Enter()
	total, all := fmt.Sprint(len(keys.IDs)), fmt.Sprint(dashboard.KeysPerPage)
	count := func(what, of string, ticked int) {
		t.Helper()
		v.Wait(fmt.Sprintf(`document.querySelector("[data-selected]").textContent.trim() === %q &&
			document.getElementById("bulk").of.value === %q &&
			document.querySelectorAll("#keys input[name=id]:checked").length === %d`, what, of, ticked))
	}
	click := func(selector string) { t.Helper(); v.Act(chromedp.Click(chromedp.CSS(selector))) }
	count("Select keys to change them together.", "selected", 0)
	click(v.Keys.Named("#key-{acme} input"))
	count("1 key is selected.", "selected", 1)
	runScript(v, `document.querySelector("[data-select-all]").click()`) // narrow pages have links alone
	count("All "+all+" on this page are selected.", "selected", dashboard.KeysPerPage)
	v.Act(chromedp.Evaluate[chromedp.Void](
		`document.getElementById("live").dispatchEvent(new CustomEvent("refresh"))`))
	v.Wait(`!document.querySelector("[data-select-all]").hidden`)
	count("All "+all+" on this page are selected.", "selected", dashboard.KeysPerPage)
	click("[data-select=all]")
	count("All "+total+" keys that match are selected.", "all", dashboard.KeysPerPage)
	click(v.Keys.Named("#key-{acme} input"))
	count(fmt.Sprint(dashboard.KeysPerPage-1)+" keys are selected.", "selected", dashboard.KeysPerPage-1)
	click("[data-select=page]")
	click("[data-select=all]")
	click("#bulk button[value=revoke]")
	v.WaitAcross(`document.querySelector("h1")?.textContent.trim() === "Revoke ` + total + ` keys"`)
	v.NoConsoleErrors("")
}

// openSheet opens the form of a key's limits over the list.
func openSheet(v *sitetest.Visit, name string) {
	v.T.Helper()
	v.Act(
		chromedp.Click(chromedp.CSS(v.Keys.Named("#key-{"+name+"} [data-sheet]"))),
		chromedp.WaitVisible(chromedp.CSS("#sheet[open] #form")),
	)
}

// Limits are edited in a dialog over the list: it says what is wrong, previews, and leads
// to the key once they are saved. Escape and Cancel leave the list as it was, with the
// focus where it was.
func TestBrowserLimitsDialog(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(busyKeys(t)))
	v.Enter()
	v.Act(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`))
	for _, leave := range []chromedp.Action[chromedp.Void]{chromedp.KeyEvent("\x1b"),
		chromedp.Click(chromedp.CSS("#sheet .actions .plain"))} {
		openSheet(v, "bolt")
		if got := sitetest.Eval[string](v, `document.activeElement.id`); got != "limits-0-requests" {
			t.Errorf("the focus is on %q", got)
		}
		v.Act(leave)
		v.Wait(`!document.getElementById("sheet").open && sameDocument`)
		if got := sitetest.Eval[string](
			v, `document.activeElement.getAttribute("aria-label")`,
		); got != "Limits of bolt" {
			t.Errorf("after the dialog the focus is on %q", got)
		}
	}
	openSheet(v, "bolt")
	v.Act(
		typeIn("limits-0-requests", "many"), send("save"),
		chromedp.WaitVisible(chromedp.CSS("#limits-0-requests-error")),
	)
	v.Retype("#limits-0-requests", "33")
	v.Wait(`document.querySelector("#sheet output").textContent === "33 per 10 seconds"`)
	v.Act(
		typeIn("reason", "in a dialog"), send("preview"),
		chromedp.WaitVisible(chromedp.CSS("#sheet #preview-title")),
	)
	if !sitetest.Eval[bool](v, `sameDocument`) || v.Keys.Key("bolt").Override != nil {
		t.Fatal("a preview left the list, or saved")
	}
	v.Act(send("save"), chromedp.WaitVisible(chromedp.CSS(".notice.good")))
	at, o := sitetest.Eval[string](v, `location.pathname`), v.Keys.Key("bolt").Override
	if at != "/keys/"+v.Keys.IDs["bolt"] || o == nil || o.Limits[0] != sitetest.Per(33, 10*time.Second) {
		t.Errorf("at %s: %+v", at, o)
	}
	v.NoConsoleErrors("422")
}

// called are calls of a key of the plan free on a route.
func called(id, method, path string, n int) []usage.Outcome {
	return slices.Repeat([]usage.Outcome{{Subject: id, Registered: true, Time: time.Now(),
		Route: routecount.Route{Plan: "free", API: "abc", Stage: "prod", Method: method, Path: path}}}, n)
}
