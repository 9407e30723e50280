package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/leaks"
)

const (
	root   = "1-5759e988-bd862e3fe1be46a994272793"
	header = "Root=" + root + ";Parent=53995c3f42cd8ad8;Sampled=1"
	key    = "tg_live_aBY2A8bWP166pgGwHf6REJdFFTCGxYIgk9RH8vyeYd308nZhy"
	token  = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
)

// traced is the context that aws-lambda-go gives a call.
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
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
	t.Setenv(traceVariable, header)
	if got := TraceID(t.Context()); got != root {
		t.Errorf("from the environment: %q", got)
	}
	if got := TraceID(traced(t, "Root=none")); got != "" {
		t.Errorf("a call's own trace comes before the environment's: %q", got)
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

// A caller's first denial of an interval is logged with the trace, and lines and omitted
// denials together are all.
func TestDenials(t *testing.T) {
	var out bytes.Buffer
	now := noon
	d := NewDenials(slog.New(NewHandler(&out, slog.LevelInfo)), time.Minute, func() time.Time { return now })
	deny := func(id string, n int) {
		for range n {
			d.Log(traced(t, header), Denial{KeyID: id, Rule: "plan free", Limit: "10 per 10 seconds",
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
	now = now.Add(-time.Hour) // a clock that was set back
	deny("a", 1)
	lines := readLog(t, out.Bytes())
	want := []string{"a 0", "b 0", "a 7", "b 0", "a 1"}
	for i, l := range lines {
		if i < len(want) && fmt.Sprint(l["key_id"], " ", l["omitted"]) != want[i] {
			t.Errorf("line %d: %v, want %s", i, l, want[i])
		}
		if l["msg"] != "denied" || l["rule"] != "plan free" || l["limit"] != "10 per 10 seconds" ||
			l["retry_after_ms"] != 1500. || l["trace_id"] != root {
			t.Errorf("line %d: %v", i, l)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
}

// In a flood of unique callers the lines of an interval and the memory are bounded, and
// no denial is unaccounted for.
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
			t.Errorf("%d lines in %d intervals, %d callers", n, interval+1, len(d.callers))
		}
		now = now.Add(time.Minute)
	}
	d.Flush(t.Context())
	d.Flush(t.Context())
	lines := readLog(t, out.Bytes())
	if last := lines[len(lines)-1]; last["msg"] != "denials omitted" {
		t.Errorf("the last line is %v", last)
	}
	sum := float64(len(lines) - 1)
	for _, l := range lines {
		if n, ok := l["omitted"].(float64); ok {
			sum += n
		}
		sum += l["others_omitted"].(float64)
	}
	if sum != 2*flood {
		t.Errorf("%v denials are accounted for, want %d", sum, 2*flood)
	}
}

// secretive prints a credential when it is logged as a value of its own.
type secretive struct{ Key string }

type stringer struct{ key string }

func (s stringer) String() string { return "called with " + s.key }

type valuer struct{ key string }

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("note", "has "+v.key), slog.String("password", "hunter2hunter2"))
}

// No way of logging a credential gets it into a line.
func TestCredentialsAreNotLogged(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NewHandler(&out, slog.LevelDebug))
	cause := fmt.Errorf("verify: %w", errors.New("bad token "+token))
	log.Info("key " + key)
	log.Info("x", "cause", cause, "header", "bearer "+token, "other",
		"Authorization: Bearer opaque-0123456789abcdef")
	log.Info("x", "any", secretive{key}, "map", map[string]string{"k": key}, "list", []string{token},
		"stringer", stringer{key}, "valuer", valuer{key})
	log.Info("x", "Client-Secret", "hunter2hunter2", "source_ip", "203.0.113.77",
		slog.Group("g", "session_token", 1234567890123, "deep", key))
	log.With("api_key", "hunter2hunter2").WithGroup("g").Info("x", "url",
		"https://x.example/?key="+key+"&next=1", "bytes", []byte("hunter2"))
	if leaks := leaks.Leaks(out.Bytes(), key, token, "hunter2hunter2", "203.0.113.77", "1234567890123",
		"opaque-0123456789abcdef"); len(leaks) > 0 {
		t.Errorf("%v in\n%s", leaks, out.String())
	}
	if n := len(readLog(t, out.Bytes())); n != 5 {
		t.Errorf("%d lines", n)
	}
}

// What is no credential stays as it is.
func TestOtherThingsAreLogged(t *testing.T) {
	for _, text := range []string{
		"", "tg_", "tg_live_", "tg_live_aBY2A8bWP166", "the bearer of this", "Bearer x", "eyJ",
		"eyJust a word", "tg_ tg_live eyJ bearer ",
		"connect to Valkey at 10.0.0.1:6379: i/o timeout", "1-5759e988-bd862e3fe1be46a994272793",
	} {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	var out bytes.Buffer
	log := slog.New(NewHandler(&out, slog.LevelInfo))
	log.InfoContext(traced(t, header), "ok", "n", 1, "d", time.Second, "list", []int{1}, "key_id",
		"aBY2A8bWP166", "nil", nil)
	l := readLog(t, out.Bytes())[0]
	if l["n"] != 1. || fmt.Sprint(l["list"]) != "[1]" || l["key_id"] != "aBY2A8bWP166" ||
		l["trace_id"] != root || l["level"] != "INFO" ||
		l["nil"] != nil {
		t.Errorf("%v", l)
	}
}

func TestRedactKeepsTheRest(t *testing.T) {
	for text, want := range map[string]string{
		"a " + key + " b":                       "a [redacted] b",
		"of tga_" + key[8:] + ",":               "of [redacted],",
		"of tgr_AQ" + key[8:28] + "-_Z.":        "of [redacted].",
		"bEARER 0123456789":                     "bEARER [redacted]",
		"Bearer " + token + ", Bearer " + token: "Bearer [redacted], Bearer [redacted]",
		"é" + token:                             "é[redacted]",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("", "")
	f.Add("Bearer ", ".")
	f.Add("tg_live_", "tg_")
	f.Fuzz(func(t *testing.T, before, after string) {
		if got := Redact(before + " " + key + " " + after); strings.Contains(got, key) {
			t.Errorf("%q", got)
		}
		if once := Redact(before); Redact(once) != once {
			t.Errorf("%q, then %q", once, Redact(once))
		}
	})
}

func BenchmarkDenialOmitted(b *testing.B) {
	d := NewDenials(slog.New(slog.DiscardHandler), time.Minute, func() time.Time { return noon })
	b.ReportAllocs()
	for b.Loop() {
		d.Log(b.Context(), Denial{KeyID: "a", Rule: "plan free", Limit: "10 per 10 seconds"})
	}
}
