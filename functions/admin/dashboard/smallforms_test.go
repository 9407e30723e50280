package dashboard_test

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"tidegate/internal/testing/sitetest"
)

// Settings that few need are folded, until one is set or has an error.
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
	const path = "/policies/all"
	page := s.Get(path).Wants(t, http.StatusOK).Body
	if all := len(folded.FindAllString(page, -1)); all != 2 {
		t.Errorf("the form folds %d parts, want 2: addresses and plans", all)
	}
	form := allOf("{policy#}", "action", "preview")
	for _, c := range []struct {
		status      int
		field, text string
		want        []string
	}{
		{http.StatusOK, "deny", "", nil},
		{http.StatusOK, "tokenPlan", "free", []string{"Plans of callers without a key"}},
		{http.StatusUnprocessableEntity, "exempt", "x", []string{"Refused, allowed and exempt addresses"}},
	} {
		body := s.Post(path, sitetest.With(maps.Clone(form), c.field, c.text)).Wants(t, c.status).Body
		if got := open(body); !slices.Equal(got, c.want) {
			t.Errorf("with %s %q the form shows %q, want %q", c.field, c.text, got, c.want)
		}
	}
}
