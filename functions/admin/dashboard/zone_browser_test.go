package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// Times, also those in sentences, the axis of a chart and time fields are in the browser's
// zone; a click shows them in UTC. The choice stays on the next page and after a live
// refresh. On hover a time has its date and its zone.
func TestBrowserLocalTime(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	if _, err := chromedp.Call(v.Ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
		t.Fatal(err)
	}
	v.Enter()
	v.Open("/keys/{acme}?live=0")
	v.Act(chromedp.WaitVisible(chromedp.CSS("#calls canvas")))
	const text, full = `document.querySelector(".asof time").textContent`, `document.querySelector(".asof time").title`
	at, err := time.Parse(time.RFC3339, sitetest.Eval[string](v, `document.querySelector(".asof time").dateTime`))
	if err != nil {
		t.Fatal(err)
	}
	india := at.Add(5*time.Hour + 30*time.Minute)
	if got := sitetest.Eval[string](v, text+`+" "+`+full); got != india.Format("15:04:05 2006-01-02 15:04:05")+" GMT+5:30" {
		t.Errorf("the page is as of %s, want %s in Kolkata", got, india)
	}
	if got := sitetest.Eval[string](v, `document.querySelector(".facts").textContent`); strings.Contains(got, "UTC") {
		t.Errorf("a text is in UTC: %s", got)
	}
	const axis = `document.querySelector("#calls canvas").toDataURL()`
	before := sitetest.Eval[string](v, axis)
	v.Act(openDisplay, chromedp.Click(chromedp.CSS("#zone")))
	v.Wait(text + ` === "` + at.Format("15:04:05") + `" && ` + full + `.endsWith(" UTC")`)
	if sitetest.Eval[string](v, axis) == before {
		t.Error("the chart's axis did not change")
	}
	v.Open("/keys/{acme}?live=2")
	v.Wait(full + `.endsWith(" UTC")`)
	v.Act(openDisplay, chromedp.Click(chromedp.CSS("#zone")))
	v.Open("/audit?from=2026-11-20T10:00&to=2026-11-21T10:00")
	const from = `document.querySelector("#range [name=from]")`
	shows := func(value, zone string) string {
		return from + `.value.startsWith("` + value + `") && ` + from +
			`.labels[0].textContent.startsWith("From (` + zone + `)")`
	}
	v.Wait(shows("2026-11-20T15:30", "local time"))
	v.Act(chromedp.Click(chromedp.CSS("#range summary")), chromedp.Click(chromedp.CSS("#range form button")))
	v.WaitAcross(`location.search.includes("from=2026-11-20T10%3A00") && ` + shows("2026-11-20T15:30", "local time"))
	v.Act(openDisplay, chromedp.Click(chromedp.CSS("#zone")))
	v.Wait(shows("2026-11-20T10:00", "UTC"))
	v.Open("/keys/{acme}?live=2")
	v.Wait(full + `.endsWith(" UTC")`)
	v.NoConsoleErrors("")
}

// What is typed is read in the zone shown, also where the clock skips or repeats an hour,
// and an instant that nobody changes stays. Moments follow the zone.
func TestBrowserExpiryInLocalTime(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	if _, err := chromedp.Call(v.Ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"}); err != nil {
		t.Fatal(err)
	}
	v.Enter()
	const form = `const form = document.getElementById("form"), { until, lasts } = form.elements; `
	typed := func(text string) string {
		return sitetest.Eval[string](v, `(() => {`+form+`until.value = "`+text+`";
			until.dispatchEvent(new Event("input", { bubbles: true }));
			const hint = document.getElementById("until-hint").textContent;
			until.dispatchEvent(new Event("focusout", { bubbles: true }));
			return [new FormData(form).get("until"), until.value, hint, lasts.value, until.labels[0].innerText].join(" | ") })()`)
	}
	const summer, repeated = "2041-07-05T12:30", "2041-10-27T01:30" // the second 02:30 of that day
	for _, shown := range []string{summer, repeated} {
		until, err := time.Parse("2006-01-02T15:04", shown)
		if err != nil {
			t.Fatal(err)
		}
		v.Keys.UpdateKey("acme", func(k *policy.Key) { k.Expires = until })
		v.Open("/keys/{acme}/edit")
		const sent = `new FormData(document.getElementById("form")).get("until")`
		if got := sitetest.Eval[string](v, sent); got != shown {
			t.Errorf("the unchanged expiry %s is sent as %s", shown, got)
		}
	}
	for text, want := range map[string]string{
		"2041-07-05T14:30": summer + " | 2041-07-05T14:30 | 2041-07-05 12:30:00 UTC",
		"2041-03-31T02:30": "2041-03-31T01:30 | 2041-03-31T03:30 | 2041-03-31 01:30:00 UTC",
		"2041-10-27T02:31": "2041-10-27T00:31 | 2041-10-27T02:31 | 2041-10-27 00:31:00 UTC",
	} {
		if got := typed(text); got != want+" | at | Custom date (local time)" {
			t.Errorf("%s is sent, shown and explained as %q, want %q", text, got, want)
		}
	}
	const friday = `[...document.getElementById("lasts").options].find((o) => o.text.startsWith("until Friday"))`
	hours := sitetest.Eval[string](v, `(() => { const at = new Date(`+friday+`.value);
		return [at.getDay(), at.getHours(), at > new Date(), at - new Date() < 8 * 86400e3, `+friday+`.text.includes(" 18:00 CE")].join() })()`)
	if hours != "5,18,true,true,true" {
		t.Errorf("Friday 18:00 is %s, want the weekday 5 and the hour 18 in Berlin, shown", hours)
	}
	v.Act(chromedp.Evaluate[chromedp.Void](friday+`.selected = true`), openDisplay, chromedp.Click(chromedp.CSS("#zone")))
	kept := sitetest.Eval[string](v, `(() => { const { value, selectedOptions } = document.getElementById("lasts");
		return [new Date(value).getHours(), selectedOptions[0].text.startsWith("until: ")].join() })()`)
	if kept != "18,true" {
		t.Errorf("in UTC the chosen Friday is %s, want the same instant by its time", kept)
	}
	v.NoConsoleErrors("")
}
