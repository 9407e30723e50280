package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// reviewed posts the form of a bulk change for a review, and returns it with what the
// review adds.
func reviewed(s *sitetest.Site, form url.Values) url.Values {
	s.T.Helper()
	page := s.Post("/keys/bulk", sitetest.With(form, "action", "preview")).Wants(s.T, http.StatusOK)
	form["seen"] = sitetest.HiddenIn(page.Body)["seen"]
	return sitetest.With(form, "action", "save")
}

// The form shows what a change makes of the first keys, and how many would not change. It
// makes no other change than was reviewed.
func TestBulkReview(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.Plan("pro", sitetest.Per(100, time.Minute))
	names, ids := make([]string, 16), []string{}
	for i := range names {
		names[i] = fmt.Sprintf("k%02d", i)
		ids = append(ids, "id", "{"+names[i]+"}")
	}
	keys.CreateNamed("free", names[:14]...)
	keys.CreateNamed("pro", names[14:]...)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	first := s.Get("/keys/bulk?do=plan&of=selected&id={k00}").Wants(t, http.StatusOK, "Review changes")
	if strings.Contains(first.Body, `name="action" value="save"`) {
		t.Error("the form can be confirmed before a plan is chosen")
	}
	form := func() url.Values {
		return fields(append(slices.Clone(ids), "do", "plan", "of", "selected", "plan", "pro",
			"reason", "x")...)
	}
	page := s.Post("/keys/bulk", sitetest.With(form(), "action", "preview")).Wants(t, http.StatusOK,
		"14 of 16 keys would change; 2 would not. The first 10 are shown.",
		"Change plan of 16 keys",
		`<dt>plan</dt><dd><span class="hidden">before: </span><del><bdi>free</bdi></del>`,
		"<ins><bdi>pro</bdi></ins>")
	if n := strings.Count(page.Body, `<th scope="row" class="name">`); n != 10 {
		t.Errorf("got %d rows, want 10", n)
	}
	s.Post("/keys/bulk", sitetest.With(form(), "action", "save")).Wants(t, http.StatusOK, "14 of 16 keys")
	again := s.Post("/keys/bulk", sitetest.With(reviewed(s, form()), "plan", "free")).Wants(t,
		http.StatusConflict, "not the change that you reviewed", "2 of 16 keys would change")
	if k := keys.Key("k00"); k.Plan != "free" {
		t.Errorf("k00 has the plan %s, want free", k.Plan)
	}
	s.Post("/keys/bulk", sitetest.With(sitetest.FormIn(again.Body), "plan", "pro", "action", "save")).Wants(t,
		http.StatusConflict)
	last, _ := s.Finish(s.Post("/keys/bulk", reviewed(s, form())))
	last.Wants(t, http.StatusOK, "14 changed, 2 unchanged")
	s.Get("/keys/bulk?do=reset&of=selected&id={k00}").Wants(t, http.StatusOK, "1 of 1 key would change",
		"<dt>used of 100 per minute</dt>")
}

// The form leads back to the list with its filter, order and page, and with the same keys
// ticked.
func TestBulkLeadsBack(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Called("acme", time.Now().Add(-time.Minute), 1, 0)
	s.Get("/keys?q=c&order=busiest").Wants(t, http.StatusOK,
		`<input type="hidden" name="list" value="order=busiest">`)
	s.Get("/keys/bulk?do=revoke&of=selected&id={acme}&filter=q%3Dc&list=order%3Dbusiest").Wants(t,
		http.StatusOK, `href="/keys?order=busiest&amp;q=c&amp;select={acme}">Cancel</a>`,
		`name="list" value="order=busiest"`)
	list := s.Get("/keys?q=c&select={acme}").Wants(t, http.StatusOK, `value="{acme}" form="bulk" checked`)
	if n := strings.Count(list.Body, `form="bulk" checked`); n != 1 {
		t.Errorf("got %d ticked keys, want 1", n)
	}
	s.Get("/keys/bulk?do=revoke&of=all&filter=state%3Dbanned").Wants(t, http.StatusOK,
		`href="/keys?select=all&amp;state=banned">Cancel</a>`)
}

// A bulk job bans, unbans, tags, groups or limits the life of the ticked keys. Its form
// shows invalid values at their fields.
func TestBulkOfDetails(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, test := range []struct {
		do, title, wrong string
		with             []string // fields of a valid form
		invalid          []string // fields in place of them
		want             func(policy.Key) bool
	}{
		{"ban", "Ban 2 keys", "Choose how long the ban lasts.", []string{"lasts", "4h"},
			[]string{"lasts", "never"},
			func(k policy.Key) bool { return time.Until(k.Banned) > 3*time.Hour }},
		{"unban", "Unban 2 keys", "Enter a reason", nil, []string{"reason", ""},
			func(k policy.Key) bool { return k.Banned.IsZero() }},
		{"tag", "Add tags to 2 keys: vip, beta", "0 given: must be 1 to 10.",
			[]string{"tags", "vip, beta"}, []string{"tags", " , "},
			func(k policy.Key) bool { return slices.Equal(k.Tags, []string{"vip", "beta"}) }},
		{"untag", "Remove tags from 2 keys: vip", "It is longer than 50 characters.", []string{"tags", "vip"},
			[]string{"tags", strings.Repeat("x", 51)},
			func(k policy.Key) bool { return slices.Equal(k.Tags, []string{"beta"}) }},
		{"group", "Change group of 2 keys to big", "letters, digits and", []string{"group", "big"},
			[]string{"group", "no spaces"}, func(k policy.Key) bool { return k.Group == "big" }},
		{"expiry", "Change expiry of 2 keys to 2099-05-01 12:30 UTC", "must be in the future",
			[]string{"until", "2099-05-01T12:30"}, []string{"until", "2001-05-01T12:30"},
			func(k policy.Key) bool { return k.Expires.Year() == 2099 }},
	} {
		at := "/keys/bulk?do=" + test.do + "&of=selected&id={acme}&id={bolt}"
		form := func() url.Values {
			page := s.Get(at).Wants(t, http.StatusOK)
			if strings.Contains(page.Body, "-error") {
				t.Errorf("%s: the form begins with errors", test.do)
			}
			return sitetest.With(sitetest.HiddenIn(page.Body), "reason", "x", "action", "save")
		}
		s.Post("/keys/bulk", sitetest.With(form(), test.invalid...)).Wants(t,
			http.StatusUnprocessableEntity, test.wrong, "-error")
		last, _ := s.Finish(s.Post("/keys/bulk", reviewed(s, sitetest.With(form(), test.with...))))
		last.Wants(t, http.StatusOK, test.title, "2 changed, 0 unchanged")
		for _, name := range []string{"acme", "bolt"} {
			if k := s.Keys.Key(name); !test.want(k) {
				t.Errorf("%s: got %+v", test.do, k)
			}
		}
	}
}
