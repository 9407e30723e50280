package dashboard_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-h/templ"
	device "github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
	"tidegate/web/templates"
)

// gallery is a server in front of a dashboard. It replaces the page /denials by live
// charts such as the overview's, in the dashboard's own layout.
type gallery struct {
	dashboard http.Handler
	mu        sync.Mutex
	series    chart.TimeSeries
	selected  chan url.Values // queries of the addresses that a selection opened
}

func (g *gallery) set(s chart.TimeSeries) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.series = s
}

func (g *gallery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/denials" {
		g.dashboard.ServeHTTP(w, r)
		return
	}
	if q := r.URL.Query(); q.Has("from") {
		g.selected <- q
	}
	r.Header.Del("Accept-Encoding")
	inner := httptest.NewRecorder()
	g.dashboard.ServeHTTP(inner, r)
	maps.Copy(w.Header(), inner.Header())
	live := g.live(sitetest.NonceIn(inner.Header().Get("Content-Security-Policy")))
	if page.IsRefresh(r) {
		_, _ = w.Write([]byte(live))
		return
	}
	before, rest, _ := strings.Cut(inner.Body.String(), `tabindex="-1">`)
	_, after, _ := strings.Cut(rest, "</main>")
	_, _ = w.Write([]byte(before + `tabindex="-1"><h1>Charts</h1><p id="stale" role="status"></p>` + live +
		"</main>" + after))
}

// live returns the section that a refresh replaces.
func (g *gallery) live(nonce string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b,
		`<section id="live" data-live="2" hx-get="/denials" hx-trigger="refresh" hx-swap="outerMorph" hx-nonce="%s">`, nonce)
	for _, c := range []templ.Component{
		templates.TimeSeriesChart(g.series.View()),
		templates.SparklineChart(chart.Sparkline(g.series.Series)),
	} {
		if err := c.Render(context.Background(), &b); err != nil {
			return err.Error()
		}
	}
	return b.String() + "</section>"
}

func newGallery(t *testing.T) (*sitetest.Visit, *gallery) {
	t.Helper()
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)))
	g := &gallery{dashboard: v.Server.Config.Handler, series: sampleSeries(),
		selected: make(chan url.Values, 1)}
	g.series.SelectIn = "/denials?live=2"
	plain := httptest.NewServer(g)
	t.Cleanup(plain.Close)
	v.Base = plain.URL
	v.Enter()
	v.HandTimers()
	return v, g
}

// A refresh updates a chart in its canvas, and keeps an opened table open.
func TestBrowserTimeSeriesRefresh(t *testing.T) {
	v, g := newGallery(t)
	v.Open("/denials")
	v.Act(chromedp.WaitVisible(chromedp.CSS("#requests canvas")),
		chromedp.Click(chromedp.CSS("#requests summary")))
	v.Wait(`waits() === "2000"`)
	v.Act(chromedp.Evaluate[chromedp.Void](`window.canvas = document.querySelector("#requests canvas")`))
	v.Point("#requests .u-over")
	v.Wait(`document.querySelector("#requests .tip").textContent.startsWith("21 Nov 10:")`)
	before := sitetest.Eval[string](v, `canvas.toDataURL()`)
	later := g.series
	later.Points = slices.Clone(later.Points)
	later.Points[1].Allowed, later.Points[2].Allowed = 900, 1300
	g.set(later)
	v.Fire()
	v.Wait(`canvas.toDataURL() !== ` + fmt.Sprintf("%q", before))
	state := sitetest.Eval[string](v, `[canvas.isConnected, document.querySelector("#requests details").open,
		document.querySelector("#requests tbody").rows[1].cells[1].textContent, document.querySelectorAll("#requests canvas").length].join()`)
	if state != "true,true,900,1" {
		t.Errorf("after a refresh: %s, want true,true,900,1", state)
	}
	v.NoConsoleErrors("")
}

// Dragging over a chart opens the address of the selected range, in UTC. A click does
// not.
func TestBrowserTimeSeriesSelects(t *testing.T) {
	v, g := newGallery(t)
	v.Open("/denials")
	v.Act(chromedp.WaitVisible(chromedp.CSS("#requests canvas")))
	v.Act(
		chromedp.Evaluate[chromedp.Void](
			`document.querySelector("#requests .u-over").scrollIntoView({ block: "center" })`,
		),
	)
	at := sitetest.Eval[[]float64](v,
		`(({ x, y, width, height }) => [x + width / 4, x + width * 3 / 4, y + height / 2])(
		document.querySelector("#requests .u-over").getBoundingClientRect())`)
	press := func(kind device.DispatchMouseEventType, x float64) {
		v.Act(
			chromedp.MouseEvent(kind, x, at[2], chromedp.ButtonType(device.MouseButtonLeft),
				chromedp.ClickCount(1)),
		)
	}
	press(device.DispatchMouseEventTypeMousePressed, at[0])
	press(device.DispatchMouseEventTypeMouseReleased, at[0])
	press(device.DispatchMouseEventTypeMousePressed, at[0])
	press(device.DispatchMouseEventTypeMouseMoved, (at[0]+at[1])/2)
	press(device.DispatchMouseEventTypeMouseMoved, at[1])
	press(device.DispatchMouseEventTypeMouseReleased, at[1])
	var q url.Values
	select {
	case q = <-g.selected:
	case <-v.Ctx.Done():
		t.Fatal("the drag opened no address")
	}
	from, err := time.Parse(time.RFC3339, q.Get("from"))
	if err != nil {
		t.Fatal(err)
	}
	to, err := time.Parse(time.RFC3339, q.Get("to"))
	if err != nil {
		t.Fatal(err)
	}
	begin := sampleSeries().From
	if from.Before(begin) || !from.Before(to) || to.After(begin.Add(time.Hour)) ||
		to.Sub(from) < 15*time.Minute || q.Get("live") != "2" {
		t.Errorf("a drag over the middle half of an hour opened %v", q)
	}
	v.NoConsoleErrors("")
}

// Charts of calls have no finding of axe in the light and dark theme and no sideways
// scroll, and show the table and the marks as text.
func TestBrowserTimeSeriesLook(t *testing.T) {
	axe := sitetest.AxeScript(t)
	v, _ := newGallery(t)
	v.Scheme("light")
	v.Open("/denials")
	v.Act(chromedp.WaitVisible(chromedp.CSS("#requests canvas")),
		chromedp.Click(chromedp.CSS("#requests summary")))
	v.Fits(t, 390, 1024, 1440)
	v.Accessible(t, axe)
	const picture = `document.querySelector("#requests canvas").toDataURL()`
	light := sitetest.Eval[string](v, picture)
	v.Act(openDisplay, chromedp.Click(chromedp.CSS("#theme [value=dark]")))
	v.Wait(picture + ` !== ` + fmt.Sprintf("%q", light))
	v.Accessible(t, axe)
	text := sitetest.Eval[string](v, `document.querySelector("#requests").innerText`)
	for _, want := range []string{"1,340 allowed, 803 denied and 0 refused", "100 → 200 per minute",
		"21 Nov 10:30"} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart lacks %q: %q", want, text)
		}
	}
	v.NoConsoleErrors("")
}

// sampleSeries returns an hour in steps of 15 min, with a mark in the third step and a
// mark after the end.
func sampleSeries() chart.TimeSeries {
	begin := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	series := records.Series{
		Range: records.Range{From: begin, To: begin.Add(time.Hour), Step: 15 * time.Minute},
	}
	for i, c := range []records.Counts{{Allowed: 100}, {}, {Allowed: 1200, Denied: 800},
		{Allowed: 40, Denied: 3}} {
		series.Points = append(series.Points,
			records.Point{Start: begin.Add(time.Duration(i) * series.Step), Counts: c})
	}
	return chart.TimeSeries{
		ID: "requests", Title: "Requests", Admitted: true, Series: series,
		Marks: []chart.TimeMark{
			{At: begin.Add(35 * time.Minute), Text: "100 → 200 per minute"},
			{At: begin.Add(time.Hour), Text: "later"},
		},
		SelectIn: "/keys?live=2",
	}
}
