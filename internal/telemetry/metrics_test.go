package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// line is a line of the embedded metric format, as CloudWatch reads it.
type line struct {
	AWS struct {
		Timestamp         int64
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name, Unit string }
		}
	} `json:"_aws"`
	Service, Stage string
	values         map[string]json.RawMessage
}

func readLines(t *testing.T, out []byte) []line {
	t.Helper()
	var lines []line
	for text := range bytes.Lines(out) {
		var l line
		if err := errors.Join(json.Unmarshal(text, &l), json.Unmarshal(text, &l.values)); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

func (l line) number(t *testing.T, name string) int64 {
	t.Helper()
	var n int64
	if err := json.Unmarshal(l.values[name], &n); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func (l line) latencies(t *testing.T) []float64 {
	t.Helper()
	var all []float64
	if err := json.Unmarshal(l.values["StoreLatency"], &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func newMetrics(t testing.TB, out io.Writer, now *time.Time) *Metrics {
	t.Helper()
	m, err := NewMetrics(out, Options{Service: "check", Stage: "prod"}, func() time.Time { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A line declares each metric that it has a value of. Its only dimensions are Service and
// Stage.
func TestLine(t *testing.T) {
	var out bytes.Buffer
	now := noon
	m := newMetrics(t, &out, &now)
	for _, c := range []Check{
		{Store: 1500 * time.Microsecond, Remaining: 20, Limit: 100},
		{Store: 250 * time.Microsecond, Remaining: 19, Limit: 100, ShadowDenied: true},
		{Denied: true, Limit: 100, Store: time.Millisecond},
		{Degraded: true, StoreError: true},
	} {
		m.Record(c)
	}
	if err := m.Tick(); err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, out.Bytes())
	if len(lines) != 1 || !strings.HasSuffix(out.String(), "}\n") {
		t.Fatalf("got %d lines, want 1: %s", len(lines), out.String())
	}
	l := lines[0]
	declared := l.AWS.CloudWatchMetrics[0]
	if l.AWS.Timestamp != noon.UnixMilli() || declared.Namespace != Namespace ||
		fmt.Sprint(declared.Dimensions) != "[[Service Stage]]" ||
		l.Service != "check" || l.Stage != "prod" || len(l.values) != 3+len(declared.Metrics) ||
		len(declared.Metrics) > maxLatencies {
		t.Errorf("unexpected timestamp, namespace, dimensions or fields: %s", out.String())
	}
	want := map[string]int64{
		"Checks": 4, "Allowed": 3, "Denied": 1, "ShadowDenied": 1, "Degraded": 1,
		"NearLimit": 1, "StoreErrors": 1, "ColdStart": 1,
	}
	for _, metric := range declared.Metrics {
		if metric.Name == "StoreLatency" {
			if got := l.latencies(t); metric.Unit != "Milliseconds" ||
				!slices.Equal(got, []float64{1.5, .25, 1}) {
				t.Errorf("%+v: got %v, want 1.5, 0.25 and 1 milliseconds", metric, got)
			}
			continue
		}
		if got := l.number(t, metric.Name); got != want[metric.Name] || metric.Unit != "Count" {
			t.Errorf("%+v: got %d, want %d as a Count", metric, got, want[metric.Name])
		}
		delete(want, metric.Name)
	}
	if len(want) != 0 {
		t.Errorf("metrics not declared: %v", want)
	}
}

// Lines are at least an interval apart. Each check is in exactly one line. Only the first
// line counts a cold start.
func TestLinesAreAnIntervalApart(t *testing.T) {
	var out bytes.Buffer
	now := noon
	m := newMetrics(t, &out, &now)
	for range 1000 {
		m.Record(Check{})
		if err := m.Tick(); err != nil {
			t.Fatal(err)
		}
		now = now.Add(7 * time.Millisecond)
	}
	if m.due(now) {
		t.Error("due before the interval has passed")
	}
	for range 2 {
		if err := m.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	lines := readLines(t, out.Bytes())
	var sum, cold int64
	for i, l := range lines {
		sum += l.number(t, "Checks")
		cold += l.number(t, "ColdStart")
		if i > 0 && i < len(lines)-1 && l.AWS.Timestamp-lines[i-1].AWS.Timestamp < 1000 {
			t.Errorf("line %d is %d ms after the previous one, want at least 1000", i,
				l.AWS.Timestamp-lines[i-1].AWS.Timestamp)
		}
	}
	if len(lines) != 8 || sum != 1000 || cold != 1 || lines[0].number(t, "ColdStart") != 1 {
		t.Errorf("got %d lines, %d checks, %d cold starts, want 8, 1000 and 1 in the first line", len(lines),
			sum, cold)
	}
}

// A line has at most 100 latencies, including the slowest, however many checks it counts.
func TestLatenciesAreSampled(t *testing.T) {
	var out bytes.Buffer
	now := noon
	m := newMetrics(t, &out, &now)
	for i := range 10_000 {
		store := time.Duration(1+i%1000) * time.Millisecond
		if i == 5000 {
			store = time.Minute
		}
		m.Record(Check{Store: store})
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	got := readLines(t, out.Bytes())[0].latencies(t)
	slices.Sort(got)
	if len(got) != maxLatencies || got[len(got)-1] != 60_000 || got[50] < 200 || got[50] > 800 {
		t.Errorf("got %v, want 100 latencies with a median near 500 and the maximum 60000", got)
	}
}

func TestConcurrentChecksAddUp(t *testing.T) {
	var out bytes.Buffer
	now := noon
	m := newMetrics(t, &out, &now)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 500 {
				m.Record(Check{Store: time.Millisecond})
				if err := m.Flush(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	var sum int64
	for _, l := range readLines(t, out.Bytes()) {
		sum += l.number(t, "Checks")
	}
	if sum != 4000 {
		t.Errorf("got %d checks, want 4000", sum)
	}
}

func TestDimensions(t *testing.T) {
	for _, bad := range []string{"", "a\n", "é", strings.Repeat("a", 256)} {
		if _, err := NewMetrics(io.Discard, Options{Service: "check", Stage: bad}, time.Now); !errors.Is(err,
			ErrDimension) {
			t.Errorf("%q: got error %v, want ErrDimension", bad, err)
		}
	}
	var out bytes.Buffer
	m, err := NewMetrics(&out, Options{Service: `a"b\`, Stage: "$default"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	m.Record(Check{})
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	if l := readLines(t, out.Bytes())[0]; l.Service != `a"b\` || l.Stage != "$default" {
		t.Errorf("got %+v, want both dimensions unchanged", l)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Flush returns the error of a failed write once, and drops the counts.
func TestFailedWriteDropsCounts(t *testing.T) {
	now := noon
	m := newMetrics(t, failingWriter{}, &now)
	m.Record(Check{})
	if err := m.Flush(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got error %v, want %v", err, io.ErrClosedPipe)
	}
	if err := m.Flush(); err != nil {
		t.Errorf("second flush: got error %v, want nothing written", err)
	}
}

func TestMetricsDoNotAllocate(t *testing.T) {
	now := noon
	m := newMetrics(t, io.Discard, &now)
	recordAndFlush := func() {
		for range 2 * maxLatencies {
			m.Record(Check{Store: time.Millisecond, Remaining: 1, Limit: 100})
		}
		_ = m.Flush()
	}
	recordAndFlush()
	if n := testing.AllocsPerRun(100, recordAndFlush); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
