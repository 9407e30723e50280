package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	root   = "1-5759e988-bd862e3fe1be46a994272793"
	header = "Root=" + root + ";Parent=53995c3f42cd8ad8;Sampled=1"
	key    = "tg_live_aBY2A8bWP166pgGwHf6REJdFFTCGxYIgk9RH8vyeYd308nZhy"
	token  = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
)

// traced returns a context with the trace header, as aws-lambda-go makes it for a call.
func traced(t *testing.T, header string) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), traceKey, header) //nolint:revive,staticcheck // the library's key is a string
}

func TestTraceID(t *testing.T) {
	for header, want := range map[string]string{
		header:         root,
		"Root=" + root: root,
		"Self=1-67891234-12456789abcdef012345678;Root=" + root: root,
		"Parent=53995c3f42cd8ad8; Root=" + root + ";Sampled=0": root,
		"":                   "",
		root:                 "",
		"Root=" + root + "0": "",
		"Root=1-5759E988-BD862E3FE1BE46A994272793":          "",
		"Root=2" + root[1:]:                                 "",
		"Root=1-5759e988-bd862e3fe1be46a99427279\n":         "",
		"Root=" + strings.Repeat("x", 35) + ";Root=" + root: "",
	} {
		if got := TraceID(traced(t, header)); got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
	t.Setenv(traceVariable, header)
	if got := TraceID(t.Context()); got != root {
		t.Errorf("from the environment: got %q, want %q", got, root)
	}
	if got := TraceID(traced(t, "Root=none")); got != "" {
		t.Errorf("invalid header in the context: got %q, want none, not the environment's", got)
	}
}

func readLog(t *testing.T, out []byte) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range bytes.Lines(out) {
		var l map[string]any
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

// A caller's first denial in each interval is logged with the trace. The next line has
// the number of denials omitted before it.
func TestDenials(t *testing.T) {
	var out bytes.Buffer
	now := noon
	d := NewDenials(slog.New(NewHandler(&out, slog.LevelInfo)), time.Minute, func() time.Time { return now })
	deny := func(id string, n int) {
		for range n {
			d.Log(traced(t, header), Denial{KeyID: id, Route: "search", Limit: "10 per 10 seconds",
				RetryAfter: 1500 * time.Millisecond})
		}
	}
	deny("a", 5)
	deny("b", 1)
	now = now.Add(time.Minute - 1)
	deny("a", 3)
	now = now.Add(1)
	deny("a", 2)
	deny("b", 1)
	now = now.Add(-time.Hour) // the clock is set back
	deny("a", 1)
	lines := readLog(t, out.Bytes())
	want := []string{"a 0", "b 0", "a 7", "b 0", "a 1"}
	for i, l := range lines {
		if i < len(want) && fmt.Sprint(l["key_id"], " ", l["omitted"]) != want[i] {
			t.Errorf("line %d: got %v, want key_id and omitted %s", i, l, want[i])
		}
		if l["msg"] != "denied" || l["route"] != "search" || l["limit"] != "10 per 10 seconds" ||
			l["retry_after_ms"] != 1500. || l["trace_id"] != root {
			t.Errorf("line %d: got %v, want the denial's rule, limit, retry_after_ms and trace_id", i, l)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("got %d lines, want %d", len(lines), len(want))
	}
}

// An id is logged once in each interval, if its level is. A level that is not logged counts
// nothing.
func TestLogOnce(t *testing.T) {
	once := func(d *Denials, level slog.Level, reason string) {
		d.LogOnce(t.Context(), level, "refused", reason, slog.String("reason", reason))
	}
	for level, want := range map[slog.Level][]string{
		slog.LevelDebug: {"DEBUG wrong audience 0", "ERROR no keys 0", "DEBUG wrong audience 4"},
		slog.LevelInfo:  {"ERROR no keys 0"},
	} {
		var out bytes.Buffer
		now := noon
		d := NewDenials(slog.New(NewHandler(&out, level)), time.Minute, func() time.Time { return now })
		for range 5 {
			once(d, slog.LevelDebug, "wrong audience")
			once(d, slog.LevelError, "no keys")
		}
		now = now.Add(time.Minute)
		once(d, slog.LevelDebug, "wrong audience")
		var got []string
		for _, l := range readLog(t, out.Bytes()) {
			got = append(got, fmt.Sprint(l["level"], " ", l["reason"], " ", l["omitted"]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("at %s: got %q, want %q", level, got, want)
		}
	}
}

// In a flood of different callers, the lines per interval and the remembered callers are
// bounded. Lines and omitted denials add up to all denials.
func TestDenialsOfAFlood(t *testing.T) {
	var out bytes.Buffer
	now := noon
	d := NewDenials(slog.New(NewHandler(&out, slog.LevelInfo)), time.Minute, func() time.Time { return now })
	const flood = 20_000
	for interval := range 2 {
		for i := range flood / 2 {
			for range 2 {
				d.Log(t.Context(), Denial{KeyID: fmt.Sprint("caller", interval, i)})
			}
		}
		if n := bytes.Count(out.Bytes(), []byte("\n")); n > (interval+1)*maxDenied ||
			len(d.callers) > maxDenied {
			t.Errorf("got %d lines in %d intervals and %d callers, want at most %d per interval and %[4]d",
				n, interval+1, len(d.callers), maxDenied)
		}
		now = now.Add(time.Minute)
	}
	d.Flush(t.Context())
	d.Flush(t.Context())
	lines := readLog(t, out.Bytes())
	if last := lines[len(lines)-1]; last["msg"] != "denials omitted" {
		t.Errorf("got last line %v, want denials omitted", last)
	}
	sum := float64(len(lines) - 1)
	for _, l := range lines {
		if n, ok := l["omitted"].(float64); ok {
			sum += n
		}
		sum += l["others_omitted"].(float64)
	}
	if sum != 2*flood {
		t.Errorf("got %v denials in the lines, want %d", sum, 2*flood)
	}
}

// plainStruct has a credential in a field, which JSON encoding shows.
type plainStruct struct{ Key string }
