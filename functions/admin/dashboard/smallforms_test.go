package dashboard_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"testing"

	"tidegate/internal/testing/sitetest"
)

// Settings that few need are folded in the forms of plans and rules, until one is set or
// has an error.
func TestRareSettingsAreFolded(t *testing.T) {
	s := sitetest.New(t).Login()
	folded := regexp.MustCompile(`<details class="panel[^>]*?( open)?><summary>([^<]*)</summary>`)
	open := func(body string) (names []string) {
		for _, m := range folded.FindAllStringSubmatch(body, -1) {
			if m[1] != "" {
				names = append(names, m[2])
			}
		}
		return names
	}
	all := len(folded.FindAllString(s.Get("/policies/rules/new").Wants(t, http.StatusOK).Body, -1)) +
		len(folded.FindAllString(s.Get("/policies/plans/new").Wants(t, http.StatusOK).Body, -1))
	if all != 6 {
		t.Errorf("the forms fold %d settings, want 6", all)
	}
	rule := fields("version", "1", "name", "search", "path", "/search", "cost", "5", "mode", "enforce",
		"reason", "test", "action", "preview")
	for _, c := range []struct {
		status int
		added  []string
		want   []string
	}{
		{http.StatusOK, nil, nil},
		{http.StatusOK, []string{"settle", "yes", "stage", "prod"},
			[]string{"Settlement", "One API or stage"}},
		{http.StatusUnprocessableEntity, []string{"perIP[0]", "many"}, []string{"Limits per client address"}},
		{http.StatusOK, []string{"shared[0]", "", "action", "add:shared"}, []string{"Global limits"}},
	} {
		form := sitetest.With(maps.Clone(url.Values(rule)), c.added...)
		body := s.Post("/policies/rules", form).Wants(t, c.status).Body
		if got := open(body); !slices.Equal(got, c.want) {
			t.Errorf("with %q the form shows %q, want %q", c.added, got, c.want)
		}
	}
}
