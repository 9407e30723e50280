//go:build unix

package attacks

import (
	"net/http"
	"strings"
	"testing"
)

// foreign holds the headers of requests that another site's page can make a browser send.
var foreign = map[string][]string{
	"cross site":                        {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
	"same site":                         {"Sec-Fetch-Site", "same-site", "Origin", "https://sibling.example"},
	"cross site that claims our name":   {"Sec-Fetch-Site", "cross-site", "Origin", "OWN"},
	"another origin, old browser":       {"Origin", "https://evil.example"},
	"null origin, old browser":          {"Origin", "null"},
	"our name as a prefix":              {"Origin", "OWN.evil.example"},
	"neither origin nor Sec-Fetch-Site": nil,
}

// No page of another site changes anything with the session of a logged-in user.
func TestAttackCrossSite(t *testing.T) {
	a, i := attack(t, "cross-site requests",
		"each route of pages and of the JSON API that changes something, with an editor's cookie, "+
			"from 7 origins")
	k, _ := i.key(t, wide)
	cookie := i.session(t, editorName)
	routes := changing(append(pages(t, k.ID), i.operations(t, k.ID)...))
	before := i.newestChange(t)
	for _, e := range routes {
		for name, origin := range foreign {
			a.probe()
			header := []string{"Cookie", cookie, "Content-Type", "application/x-www-form-urlencoded"}
			for _, text := range origin {
				header = append(header, strings.Replace(text, "OWN", i.site.url, 1))
			}
			form := "version=1&reason=x&action=save&name=x&plan=wide&env=x&confirm=1"
			if got := i.site.send(t, e.method, e.path, form, header...); got.status != http.StatusForbidden {
				t.Errorf("%s, %s: %d, want 403", e.pattern, name, got.status)
			}
		}
	}
	i.wantUnchanged(t, before)
	if got := i.site.get(t, "/keys", "Cookie", cookie); got.status != http.StatusOK {
		t.Errorf("the session afterwards: %d", got.status)
	}
}
