package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tidegate/local/bench/load/report"
)

func seconds(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) + " s" }

func page() report.Page {
	points := []report.Point{{X: 0, Y: 0}, {X: 5, Y: 80}, {X: 10, Y: 100}}
	return report.Page{
		Title: "Load: <steady>", Summary: "120 calls & more",
		Verdict: "No window was above its limit.", Good: true,
		Facts: []report.Fact{{Name: "Machine", Value: "2 cores"}},
		Latencies: []report.Latency{{Name: "from when calls were due", P50: "1 ms", P90: "2 ms", P99: "3 ms",
			P999: "4 ms", Max: "5 ms"}},
		Windows: []report.Window{{Limit: "10 per 10 seconds", Callers: "3", Fullest: "10", Possible: "11",
			Most: "10", Above: "0"}},
		Plots: []report.Plot{{
			ID: "calls", Title: "Calls a second", Caption: "By answer.", X: report.Until(12, seconds),
			Y: report.Linear(100, seconds),
			Lines: []report.Line{{Class: "admitted", Title: "admitted", Points: points},
				{Class: "denied", Title: "denied", Points: points[:1]}},
		}},
	}
}

func written(t *testing.T, p report.Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The page shows its values, loads no files, has no scripts, and has both colour schemes.
func TestPage(t *testing.T) {
	text := written(t, page())
	for _, want := range []string{
		"Load: &lt;steady&gt;", "120 calls &amp; more", `class="verdict good"`, "4 ms", "10 per 10 seconds",
		"2 cores", "Calls a second", "light-dark(",
		`name="viewport"`, `<path class="line admitted" d="M0.0 300.0L416.7 60.0L833.3 0.0"`,
		`<path class="line denied" d="M0.0 300.0H1000"`,
		"left:83.33%",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %s in the page", want)
		}
	}
	if found := regexp.MustCompile(`(?i)<script|https?:|url\(|@import|<link|<img| on\w+=`).FindString(
		text); found != "" {
		t.Errorf("got %q in the page, want no scripts and no addresses", found)
	}
	p := page()
	p.Good, p.Windows[0].Broken = false, true
	if text := written(t, p); !strings.Contains(text, `class="verdict bad"`) ||
		!strings.Contains(text, `<tr class="broken"`) {
		t.Error("a broken limit: want a bad verdict and a marked row")
	}
}

// Tags are balanced.
func TestPageIsWellFormed(t *testing.T) {
	d := xml.NewDecoder(strings.NewReader(written(t, page())))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var open []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			open = append(open, e.Name.Local)
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != e.Name.Local {
				t.Fatalf("%v is closed by %s", open, e.Name.Local)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%v stay open", open)
	}
}

// Axes have round marks, and include every value.
func TestAxes(t *testing.T) {
	texts := func(a report.Axis) string {
		var all []string
		for _, m := range a.Marks {
			all = append(all, m.Text)
		}
		return strings.Join(all, ", ")
	}
	for _, c := range []struct {
		axis  report.Axis
		marks string
		most  float64
	}{
		{report.Linear(100, seconds), "0 s, 50 s, 100 s", 100},
		{report.Linear(0, seconds), "0 s, 5e-10 s, 1e-09 s", 1e-9},
		{report.Linear(37, seconds), "0 s, 10 s, 20 s, 30 s, 40 s", 40},
		{report.Until(37, seconds), "0 s, 10 s, 20 s, 30 s", 37},
		{report.Decades(.2, 120, seconds), "0.1 s, 1 s, 10 s, 100 s, 1000 s", 1000},
		{report.Decades(1, 1, seconds), "1 s, 10 s", 10},
	} {
		if got := texts(c.axis); got != c.marks || math.Abs(c.axis.Most-c.most) > 1e-9*c.most {
			t.Errorf("got marks %s up to %g, want %s up to %g", got, c.axis.Most, c.marks, c.most)
		}
	}
}
