package limiter

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A limit is unchanged after encoding and decoding as JSON.
func TestLimitJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawLimit(t)
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Limit
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Fatalf("%s: got %+v, %v; want %+v", text, got, err, want)
		}
	})
	for want, limit := range map[string]Limit{
		`{"requests":100,"window":"10s"}`:                 {Requests: 100, Window: 10 * time.Second},
		`{"requests":9,"window":"1m","counts":"calls"}`:   {Requests: 9, Window: time.Minute, Calls: true},
		`{"requests":9,"window":"1m","mode":"shadow"}`:    {Requests: 9, Window: time.Minute, Shadow: true},
		`{"requests":9,"window":"1m","countDenied":true}`: {Requests: 9, Window: time.Minute, CountDenied: true},
	} {
		if text, err := json.Marshal(limit); err != nil || string(text) != want {
			t.Errorf("got %s, %v; want %s", text, err, want)
		}
	}
	for _, text := range []string{`{"requests":9,"window":"1m","counts":"cost"}`,
		`{"requests":9,"window":"1m","mode":"enforce"}`} {
		var got Limit
		want := Limit{Requests: 9, Window: time.Minute}
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// The error for JSON that cannot be decoded names the field or its bound.
func TestLimitJSONErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"window":"ten"}`: "window", `{"window":"400d"}`: "366d", `{"window":"1.5d"}`: "whole number",
		`{"algorithm":"magic"}`: "algorithm", `{"calendar":"fortnight"}`: "calendar",
		`{"requests":1.5}`: "requests", `{"counts":"bytes"}`: "cost, calls", `{"mode":"soft"}`: "enforce, shadow",
	} {
		var l Limit
		if err := json.Unmarshal([]byte(text), &l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
		}
	}
}
