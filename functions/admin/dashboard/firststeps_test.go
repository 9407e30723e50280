package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/internal/testing/sitetest"
)

// Before the first call Overview leads to it, in three steps.
func TestFirstSteps(t *testing.T) {
	s := sitetest.New(t).Login()
	text := sitetest.InWords(s.Get("/").Wants(t, http.StatusOK, `href="/keys/new"`).Body)
	for _, want := range []string{"No call has reached this deployment yet.", "1. Take a key New key " +
		"There are 2 keys.",
		"curl -i -H &#34;x-api-key: $KEY&#34; &#34;$API_URL&#34;"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}
