package dashboard_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/testing/sitetest"
)

// Each page marks its section and its place in it, also behind a base path and on a page
// of an error.
func TestNavigation(t *testing.T) {
	current := regexp.MustCompile(
		`(?s)<a[^>]* aria-current="(?:page|true)"[^>]*>(?:\s*<svg.*?</svg>)?\s*([^<]*?)\s*<`,
	)
	s := sitetest.New(t).Login()
	for path, want := range map[string]string{
		"/":                      "Overview",
		"/keys":                  "Keys",
		"/keys?state=revoked":    "Keys",
		"/keys?state=overridden": "Keys",
		"/keys/{acme}":           "Keys",
		"/keys/nothing":          "Keys",
		"/groups":                "Keys, Groups",
		"/callers":               "Keys, Callers",
		"/alerts":                "Denials, Alerts",
		"/explain":               "Policies, Explain a call",
		"/policies/plans/77":     "Policies",
		"/audit":                 "Audit",
		"/settings":              "Settings",
		"/nowhere":               "",
	} {
		text := s.Get(path).Body
		nav, _, _ := strings.Cut(text, `</nav>`)
		var got []string
		for _, match := range current.FindAllStringSubmatch(nav, -1) {
			got = append(got, match[1])
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
		if strings.Contains(nav, " else") {
			t.Errorf("%s: a link has an attribute of the template's language", path)
		}
		if !strings.Contains(nav, "/settings\"") {
			t.Errorf("%s: has no navigation", path)
		}
	}
}

// The list of groups has their sizes and overrides, by the start of a name.
func TestGroups(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/groups").Wants(t, http.StatusOK, "No groups")
	s.Post("/keys/{acme}/edit", fields("version", "{acme#}", "name", "acme", "plan", "free", "group",
		"Whales")).
		Wants(t, http.StatusSeeOther)
	s.Post("/groups/Whales/limits", sitetest.LimitsForm("{policy#}", "7 per hour")).
		Wants(t, http.StatusSeeOther)
	if text := sitetest.InWords(s.Get("/groups?prefix=wh").Wants(t, http.StatusOK).Body); !strings.Contains(
		text,
		"Whales 1 7 per hour",
	) {
		t.Errorf("want the group with 1 key and its override in\n%s", text)
	}
	s.Get("/groups?prefix=x").Wants(t, http.StatusOK, "No groups")
}
