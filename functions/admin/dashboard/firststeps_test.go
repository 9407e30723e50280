package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/internal/testing/sitetest"
)

// An empty Overview leads to the first call, in three steps.
func TestFirstSteps(t *testing.T) {
	s := sitetest.New(t).Login()
	text := sitetest.InWords(s.Get("/").Wants(t, http.StatusOK, `href="/keys/new"`).Body)
	for _, want := range []string{"Create a plan plans: 1", "Create a key keys: 2 Send a call.",
		"curl -i -H &#34;x-api-key: $KEY&#34; &#34;$API_URL&#34;"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}
