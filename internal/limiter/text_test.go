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
	text, err := json.Marshal(Limit{Requests: 100, Window: 10 * time.Second})
	if want := `{"requests":100,"window":"10s"}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v; want %s", text, err, want)
	}
}

// The error for JSON that cannot be decoded names the field or its bound.
func TestLimitJSONErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"window":"ten"}`: "window", `{"window":"400d"}`: "366d", `{"window":"1.5d"}`: "whole number",
		`{"algorithm":"magic"}`: "algorithm", `{"calendar":"fortnight"}`: "calendar",
		`{"requests":1.5}`: "requests",
	} {
		var l Limit
		if err := json.Unmarshal([]byte(text), &l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
		}
	}
}
