package dashboard_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

// linksIn returns the addresses of a page that begin with a path, in their order.
func linksIn(page, path string) []string {
	var found []string
	for _, address := range sitetest.AddressesIn(page) {
		address = html.UnescapeString(address)
		if strings.HasPrefix(address, path) {
			found = append(found, address)
		}
	}
	return found
}

// Beside each enforced limit of a plan and for all callers, one link leads to a form with a
// stricter limit in shadow. Beside what each limit in shadow would have denied, another
// takes its mark away, and changes nothing else. A viewer sees the figures only.
func TestTryInShadowAndEnforce(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) {
		set.Limits = append(set.Limits, sitetest.Limit("90 per minute, each address"))
	})
	viewer := sitetest.New(t, sitetest.WithKeys(s.Keys)).LoginAs(sitetest.Viewer)
	for _, c := range []struct {
		page, edit, limit, stricter, name string
		of                                func(*policy.Set) []limits.Limit
	}{
		{"/policies/plans/1", "/policies/plans/1/edit", "10 per 10 seconds", "5 per 10 seconds",
			"5 per 10 seconds",
			func(set *policy.Set) []limits.Limit { return set.Plans[0].Limits }},
		{"/policies", "/policies/all", "90 per minute, each address", "45 per minute, each address",
			"45 per minute each address",
			func(set *policy.Set) []limits.Limit { return set.Limits }},
	} {
		links := linksIn(s.Get(c.page).Wants(t, http.StatusOK).Body, c.edit+"?")
		want := c.edit + "?" + (url.Values{"try": {c.limit}}).Encode()
		if len(links) != 1 || links[0] != want {
			t.Fatalf("%s: got the links %q, want %s", c.page, links, want)
		}
		tried := s.Get(links[0]).Wants(t, http.StatusOK, c.limit+"\n"+c.stricter+", shadow</textarea>")
		s.Post(c.edit, sitetest.With(sitetest.FormIn(tried.Body), "reason", "enough?", "action", "save")).
			Wants(t, http.StatusSeeOther)
		inShadow := c.stricter + ", shadow"
		if got := policydoc.Each(c.of(s.Set())); len(got) != 2 || got[0] != c.limit || got[1] != inShadow {
			t.Fatalf("%s: got the limits %q, want %s and %s", c.page, got, c.limit, inShadow)
		}
		s.Keys.Record(records.Call{Caller: s.Keys.IDs["acme"], Registered: true, Cost: 1, Plan: "free",
			Shadow: c.name, Time: time.Now()})
		page := s.Get(c.page).Wants(t, http.StatusOK, "Would be denied", inShadow).Body
		links = linksIn(page, "/policies/enforce?")
		if len(links) != 1 {
			t.Fatalf("%s: got the links %q, want one that enforces", c.page, links)
		}
		if other := linksIn(page, c.edit+"?"); len(other) != 1 {
			t.Errorf("%s: got the links %q, want one beside the enforced limit", c.page, other)
		}
		form := s.Get(links[0]).Wants(t, http.StatusOK, "Limits in shadow: ", inShadow)
		s.Post(links[0], sitetest.With(sitetest.FormIn(form.Body), "reason", "it is")).
			Wants(t, http.StatusSeeOther)
		if got := policydoc.Each(c.of(s.Set())); len(got) != 2 || got[0] != c.limit || got[1] != c.stricter {
			t.Errorf("%s: got the limits %q, want %s and %s", c.page, got, c.limit, c.stricter)
		}
		s.Get(links[0]).Wants(t, http.StatusNotFound, "Limit in shadow not found")
		if body := viewer.Get(c.page).Wants(t, http.StatusOK).Body; strings.Contains(body, "Try in shadow") ||
			strings.Contains(body, "/enforce") {
			t.Errorf("%s: a viewer may change limits", c.page)
		}
	}
}
