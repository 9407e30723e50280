package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// fields returns form fields from alternating names and values.
func fields(pairs ...string) map[string][]string {
	form := map[string][]string{}
	for i := 0; i < len(pairs); i += 2 {
		form[pairs[i]] = append(form[pairs[i]], pairs[i+1])
	}
	return form
}

// An override has limits, an end and a reason. The form refuses a missing reason and an
// end in the past.
func TestOverride(t *testing.T) {
	s := sitetest.New(t).Login()
	form := sitetest.LimitsForm("{acme#}", "50 per minute")
	s.Post(limitsPath, sitetest.With(form, "reason", " ")).Wants(t, http.StatusUnprocessableEntity,
		`id="reason-error"`, "Enter a reason")
	s.Post(limitsPath, sitetest.With(form, "reason", strings.Repeat("x", 201))).Wants(t,
		http.StatusUnprocessableEntity, "at most 200 characters")
	s.Post(
		limitsPath, sitetest.With(form, "reason", "launch", "lasts", "at", "until", "2020-01-01 00:00"),
	).Wants(t, http.StatusUnprocessableEntity,
		"must be in the future")
	s.Post(limitsPath, sitetest.With(form, "until", "soon")).Wants(t, http.StatusUnprocessableEntity,
		"Enter a time such as")
	s.Post(limitsPath, sitetest.With(form, "until", "", "lasts", "1 eon")).Wants(t,
		http.StatusUnprocessableEntity, "Choose one")
	if s.Keys.Written() != 0 {
		t.Fatal("an invalid override was written")
	}
	s.Post(limitsPath, sitetest.With(form, "lasts", "4h", "limits", "50 per minute, shadow")).
		Wants(t, http.StatusSeeOther)
	o := s.Keys.Key("acme").Override
	if left := time.Until(o.Until); !o.Limits[0].Shadow || o.Reason != "launch" || left < 3*time.Hour ||
		left > 4*time.Hour {
		t.Errorf("saved %+v, want a limit in shadow, the reason launch and an end in 4 hours", o)
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Reason: launch.", "shadow</bdi>", "override</span>")
	s.Get("/keys?state=overridden").Wants(t, http.StatusOK, "10 per 10 seconds</del>",
		"50 per minute, shadow</ins>", "launch", "for 4 h more")
	s.Post(
		limitsPath,
		sitetest.With(sitetest.LimitsForm("{acme#}"), "lasts", "at", "until", "2099-12-31 18:00"),
	).Wants(t, http.StatusSeeOther)
	if o := s.Keys.Key("acme").Override; len(o.Limits) != 0 || !o.Until.Equal(
		time.Date(2099, 12, 31, 18, 0, 0, 0, time.UTC),
	) {
		t.Errorf("saved %+v, want no limits and the typed end", o)
	}
	s.Get(limitsPath).Wants(t, http.StatusOK, `value="2099-12-31T18:00"`)
}

// A preview shows the changed limits. It needs no reason and writes nothing.
func TestOverridePreview(t *testing.T) {
	s := sitetest.New(t).Login()
	form := sitetest.With(sitetest.LimitsForm("{acme#}", "5 per hour"), "action", "preview", "reason", "")
	s.Post(limitsPath, form).Wants(t, http.StatusOK, "10 per 10 seconds</bdi></del>",
		"5 per hour</bdi></ins>", "2 changes.", ">5 per hour</textarea>")
	if s.Keys.Written() != 0 {
		t.Error("a preview wrote something")
	}
}

// The page after a save can undo it, unless the key was changed since.
func TestUndo(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post(limitsPath, sitetest.LimitsForm("{acme#}", "50 per minute")).Wants(t, http.StatusSeeOther)
	s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); k.Override != nil {
		t.Errorf("after the undo: %+v, want no override", k)
	}
	s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther) // and the undo of the undo
	if k := s.Keys.Key("acme"); k.Override == nil ||
		!k.Override.Limits[0].Equal(sitetest.Per(50, time.Minute)) {
		t.Errorf("after the undo of the undo: %+v, want 50 per minute", k)
	}
	page := s.Get("/keys/{acme}").Wants(t, http.StatusOK)
	s.Keys.OverrideKey("acme", sitetest.Per(1, time.Hour))
	s.Post(sitetest.UndoInPage.FindStringSubmatch(page.Body)[1], nil).Wants(t, http.StatusConflict,
		"it was changed since")
	if k := s.Keys.Key("acme"); !k.Override.Limits[0].Equal(sitetest.Per(1, time.Hour)) {
		t.Error("the undo overwrote another change")
	}
}

// The list of overridden keys has a column with their overrides, from which an editor ends
// one. The address of the page that had them leads there.
func TestOverrides(t *testing.T) {
	keys := sitetest.NewRegistry(t, "a-ended", "b-endless", "c-late", "d-soon", "e-plain")
	for name, until := range map[string]time.Time{
		"a-ended": time.Now().Add(-time.Hour), "b-endless": {}, "c-late": time.Now().Add(100 * time.Hour),
		"d-soon": time.Now().Add(time.Hour),
	} {
		keys.UpdateKey(name, func(k *policy.Key) {
			k.Override = &policy.Override{
				Limits: []limits.Limit{sitetest.Per(9, time.Minute)}, Until: until, Reason: "of " + name,
			}
		})
	}
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	to := s.Get("/overrides").Wants(t, http.StatusMovedPermanently).Header.Get("Location")
	body := s.Get(to).Wants(t, http.StatusOK).Body
	for name, want := range map[string]string{
		"a-ended": "override ended", "b-endless": ">override</span>", "c-late": "for 4 d",
		"d-soon": "for 1 h more",
	} {
		row := tableRow(body, name)
		for _, part := range []string{want, "10 per 10 seconds</del>", "9 per minute</ins>", "of " + name,
			"/keys/{" + name + "}/end"} {
			if !strings.Contains(row, part) {
				t.Errorf("%s: got %s, want %s", name, row, part)
			}
		}
	}
	if strings.Contains(body, "e-plain") {
		t.Error("the list has a key without an override")
	}
	if all := s.Get("/keys").Wants(t, http.StatusOK, "e-plain", "override ended").Body; strings.Contains(
		all, "<ins>") {
		t.Error("the list of all keys has the column of overrides")
	}
	s.Post("/keys/{d-soon}/end", fields("version", "{d-soon#}")).Wants(t, http.StatusSeeOther)
	if keys.Key("d-soon").Override != nil {
		t.Error("the key still has the ended override")
	}
	s.Get("/keys?state=overridden&q=d-").Wants(t, http.StatusOK, "No key matches all filters.")
	for _, name := range []string{"a-ended", "b-endless", "c-late"} {
		keys.UpdateKey(name, func(k *policy.Key) { k.Override = nil })
	}
	s.Get("/keys?state=overridden").Wants(t, http.StatusOK, "No overrides")
}

// tableRow returns the part of a list of keys that has the row of a key.
func tableRow(body, name string) string {
	for part := range strings.SplitSeq(body, "<tbody") {
		if strings.Contains(part, "<bdi>"+name+"</bdi>") {
			return part
		}
	}
	return ""
}

// Ending an override says which limit of the plan is used up, since that went on counting,
// and when the next call passes.
func TestEndOverrideSaysWhatFollows(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("hour", sitetest.Per(50, time.Hour))
	s.Keys.CreateNamed("hour", "late")
	s.Keys.Use("late", 50)
	s.Keys.OverrideKey("late", sitetest.Per(900, time.Hour))
	s.Get("/keys/{late}/end").Wants(t, http.StatusOK, "50 per hour is used up: the next call passes in ")
	s.Keys.OverrideKey("acme", sitetest.Per(900, time.Hour))
	if page := s.Get("/keys/{acme}/end").Wants(t, http.StatusOK); strings.Contains(page.Body, "is used up") {
		t.Error("a limit that has room is used up")
	}
}
