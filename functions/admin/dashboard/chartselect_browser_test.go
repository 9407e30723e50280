package dashboard_test

import (
	"net/url"
	"testing"
	"time"

	"tidegate/internal/testing/sitetest"
)

// The keyboard and a touch select a range of a chart, as a mouse does.
func TestBrowserTimeSeriesSelectsWithoutMouse(t *testing.T) {
	for name, c := range map[string]struct {
		act   string        // script that selects
		least time.Duration // shortest selected range
	}{
		"keyboard": {`(() => {
			const plot = document.querySelector("#requests .plot");
			plot.focus();
			if (document.activeElement !== plot) throw new Error("the chart takes no focus");
			const press = (key, shiftKey) =>
				plot.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey }));
			press("ArrowLeft", true);
			press("ArrowLeft", true);
			press("Enter", false);
			return true;
		})()`, 45 * time.Minute},
		"finger": {`(() => {
			const over = document.querySelector("#requests .u-over");
			const { x, y, width, height } = over.getBoundingClientRect();
			const touch = (type, part) => over.dispatchEvent(new PointerEvent(type,
				{ pointerType: "touch", clientX: x + width * part, clientY: y + height / 2 }));
			touch("pointerdown", 0.25);
			touch("pointermove", 0.5);
			touch("pointermove", 0.75);
			touch("pointerup", 0.75);
			return true;
		})()`, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			v, g := newGallery(t)
			v.Open("/denials")
			v.Wait(`document.querySelector("#requests .u-over")?.clientWidth > 200`) // until it has its size
			sitetest.Eval[bool](v, c.act)
			var q url.Values
			select {
			case q = <-g.selected:
			case <-v.Ctx.Done():
				t.Fatal("the selection opened no address")
			}
			from, fromErr := time.Parse(time.RFC3339, q.Get("from"))
			to, toErr := time.Parse(time.RFC3339, q.Get("to"))
			begin := sampleSeries().From
			if fromErr != nil || toErr != nil || from.Before(begin) || to.After(begin.Add(time.Hour)) ||
				to.Sub(from) < c.least {
				t.Errorf("the selection opened %v, want at least %s within the hour", q, c.least)
			}
			v.NoConsoleErrors("")
		})
	}
}
