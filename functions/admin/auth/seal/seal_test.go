package seal_test

import (
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth/seal"
	"tidegate/internal/apikey"
)

// Only the deployment that sealed a value opens it, by its label and until its time.
func TestSeal(t *testing.T) {
	type value struct{ Text string }
	s, now := seal.New(apikey.Pepper(strings.Repeat("p", 32))), time.Now()
	text, err := s.Seal("label", value{"secret <&>"}, now.Add(time.Minute))
	if err != nil || strings.Contains(text, "secret") {
		t.Fatalf("got %q, %v", text, err)
	}
	var got value
	if !s.Open("label", text, &got, now) || got.Text != "secret <&>" {
		t.Errorf("opened %+v", got)
	}
	again, err := s.Seal("label", value{"secret <&>"}, now.Add(time.Minute))
	if err != nil || again == text {
		t.Errorf("sealed again: the same text, %v", err)
	}
	other := seal.New(apikey.Pepper(strings.Repeat("q", 32)))
	for name, opened := range map[string]bool{
		"another label":      s.Open("labels", text, &got, now),
		"too late":           s.Open("label", text, &got, now.Add(time.Minute)),
		"another deployment": other.Open("label", text, &got, now),
		"damaged":            s.Open("label", text[:len(text)-4]+"AAAA", &got, now),
		"no text":            s.Open("label", "", &got, now),
		"no base64":          s.Open("label", "!", &got, now),
	} {
		if opened {
			t.Errorf("%s: opened", name)
		}
	}
}
