package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/telemetry"
)

// discardedMetrics returns metrics that are written nowhere.
func discardedMetrics(t *testing.T) *callMetrics {
	t.Helper()
	m, err := newCallMetrics(io.Discard, "test", slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// counts adds up the lines of metrics that were written so far.
func (f *function) counts(t *testing.T) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for line := range strings.Lines(f.out.String()) {
		var values map[string]any
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for name, value := range values {
			switch v := value.(type) {
			case float64:
				sums[name] += v
			case []any:
				sums[name] += float64(len(v))
			}
		}
	}
	return sums
}

// Metrics and the log have the result of each call: allowed, near the limit, denied, in
// shadow, decided without Valkey, refused.
func TestMetricsOfCalls(t *testing.T) {
	f := newFunction(t,
		policy.Plan{Name: "ten", Limits: tenADay()},
		policy.Plan{Name: "shadow", Mode: policy.Shadow,
			Limits: []limiter.Limit{{Requests: 1, Window: time.Hour}}},
	)
	ten, shadow := f.key(t, "ten"), f.key(t, "shadow")
	for range 13 {
		f.call(t, ten)
	}
	for range 3 {
		f.call(t, shadow)
	}
	f.metrics.RecordRefusal(t.Context(), true)
	f.metrics.RecordRefusal(t.Context(), false)
	f.leave(t)
	f.call(t, ten)
	f.metrics.Flush()

	got := f.counts(t)
	for name, want := range map[string]float64{
		"Checks": 17, "Allowed": 13, "Denied": 4, "ShadowDenied": 2, "Degraded": 1, "StoreErrors": 1,
		"Refused": 2, "Unauthorized": 1,
		"ColdStart": 1,
		"NearLimit": 5, // the calls that left 1 and 0 of ten, and those that left nothing of one
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if lines := strings.Count(f.log.String(), "msg=denied "); lines != 1 {
		t.Errorf("%d lines of one caller's denials in a minute:\n%s", lines, f.log.String())
	}
	for _, want := range []string{"key_id=" + ten.ID(), `limit="10 per 1 day"`, "others_omitted=3"} {
		if !strings.Contains(f.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, f.log.String())
		}
	}
}

// One line of metrics stands for all that happened in ten seconds.
func TestMetricsAreFewLines(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "ten", Limits: tenADay()})
	secret := f.key(t, "ten")
	for range 2 {
		for range 4 {
			f.call(t, secret)
		}
		f.freeze(metricsInterval)
	}
	f.call(t, secret)
	if lines := strings.Count(f.out.String(), "\n"); lines != 3 { // the first call's, and one for each pause
		t.Errorf("%d lines:\n%s", lines, &f.out)
	}
	if got := f.counts(t); got["Checks"] != 9 {
		t.Errorf("%v", got)
	}
}

func TestStageMustBeADimension(t *testing.T) {
	_, err := newCallMetrics(io.Discard, "pr\nod", slog.New(slog.DiscardHandler), time.Now)
	if !errors.Is(err, telemetry.ErrDimension) || !strings.Contains(err.Error(), "STAGE") {
		t.Errorf("%v", err)
	}
	m, err := newCallMetrics(nil, "", slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	m.RecordCheck(t.Context(), enforce.Result{Allowed: true, WouldAllow: true, CandidateAllows: true},
		decide.Asked{})
	m.RecordRefusal(t.Context(), true)
	m.Flush()
}
