package dashboard

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// fields are form fields, given as name and value in turn.
func fields(pairs ...string) map[string][]string {
	form := map[string][]string{}
	for i := 0; i < len(pairs); i += 2 {
		form[pairs[i]] = append(form[pairs[i]], pairs[i+1])
	}
	return form
}

var undoInPage = regexp.MustCompile(`action="(/audit/[^"]+/undo)"`)

// undoOn follows the undo that a page offers.
func (s *site) undoOn(path string) reply {
	s.t.Helper()
	page := s.get(path).wants(s.t, http.StatusOK)
	m := undoInPage.FindStringSubmatch(page.body)
	if m == nil {
		s.t.Fatalf("%s offers no undo:\n%s", path, page.body)
	}
	return s.post(m[1], nil)
}

// An override has a mode, an end and a reason; it is refused without a reason, and an end
// that is past.
func TestOverride(t *testing.T) {
	s := newSite(t).login()
	form := limitsOf(1, [4]string{"50", "1", "minute", "log"})
	s.post(limitsPath, with(form, "reason", " ")).wants(t, http.StatusUnprocessableEntity, `id="reason-error"`, "Say why")
	s.post(limitsPath, with(form, "reason", strings.Repeat("x", 201))).wants(t, http.StatusUnprocessableEntity, "at most 200 characters")
	s.post(limitsPath, with(form, "reason", "launch", "lasts", "at", "until", "2020-01-01 00:00")).wants(t, http.StatusUnprocessableEntity,
		"This is past.")
	s.post(limitsPath, with(form, "until", "soon")).wants(t, http.StatusUnprocessableEntity, "Type a time in UTC")
	s.post(limitsPath, with(form, "lasts", "1 eon")).wants(t, http.StatusUnprocessableEntity, "Choose one")
	s.post(limitsPath, with(form, "lasts", "4h", "mode", "loud")).wants(t, http.StatusUnprocessableEntity, `id="mode-error"`)
	if s.keys.written() != 0 {
		t.Fatal("it was written")
	}
	s.post(limitsPath, with(form, "mode", "shadow")).wants(t, http.StatusSeeOther)
	o := s.keys.key("acme").Override
	if left := time.Until(o.Until); o.Mode != policy.Shadow || o.Reason != "launch" || left < 3*time.Hour || left > 4*time.Hour {
		t.Errorf("saved %+v", o)
	}
	s.get("/keys/{acme}").wants(t, http.StatusOK, "because: launch.", "In shadow:", "shadow</span>", "override</span>")
	s.get("/overrides").wants(t, http.StatusOK, "10 per 10 seconds</del>", "50 per minute, in shadow</ins>", "launch", "in 4 h")
	s.post(limitsPath, with(limitsOf(2), "mode", "off", "lasts", "at", "until", "2099-12-31 18:00")).wants(t, http.StatusSeeOther)
	if o := s.keys.key("acme").Override; o.Mode != policy.Off || len(o.Limits) != 0 || !o.Until.Equal(time.Date(2099, 12, 31, 18, 0, 0, 0, time.UTC)) {
		t.Errorf("saved %+v", o)
	}
	s.get(limitsPath).wants(t, http.StatusOK, `value="2099-12-31 18:00"`)
}

// A preview writes nothing: it shows what would change, and what the edit would have done
// to the calls of the last hour.
func TestOverridePreview(t *testing.T) {
	s := newSite(t).login()
	s.keys.called("acme", time.Now().Add(-10*time.Minute), 12, 0)
	form := with(limitsOf(1, [4]string{"5", "1", "hour", "log"}), "action", "preview")
	s.post(limitsPath, form).wants(t, http.StatusOK, "10 per 10 seconds</bdi></del>", "5 per hour</bdi></ins>",
		"On the last hour this would have denied 7 of 12 calls; 0 were denied in fact.", `name="limits[0].requests" value="5"`)
	if s.keys.written() != 0 {
		t.Error("a preview wrote")
	}
	form = with(limitsOf(1, [4]string{"5", "1", "hour", "log"}), "action", "preview")
	s.post(limitsPath, with(form, "reason", "")).wants(t, http.StatusOK, "would have denied 7 of 12 calls")
	form = with(limitsOf(1, [4]string{"5", "1", "hour", "log"}), "action", "preview")
	s.post("/keys/{bolt}/limits", form).wants(t, http.StatusOK, "There were no calls in the last hour to try this on.")
}

// What was saved can be undone from the next page, unless somebody changed it since.
func TestUndo(t *testing.T) {
	s := newSite(t).login()
	s.post(limitsPath, limitsOf(1, [4]string{"50", "1", "minute", "log"})).wants(t, http.StatusSeeOther)
	s.undoOn("/keys/{acme}").wants(t, http.StatusSeeOther)
	if k := s.keys.key("acme"); k.Override != nil || k.Version != 3 {
		t.Errorf("after the undo: %+v", k)
	}
	s.undoOn("/keys/{acme}").wants(t, http.StatusSeeOther) // and the undo of the undo
	if k := s.keys.key("acme"); k.Override == nil || k.Override.Limits[0] != per(50, time.Minute) {
		t.Errorf("after the undo of the undo: %+v", k)
	}
	page := s.get("/keys/{acme}").wants(t, http.StatusOK)
	s.keys.override("acme", per(1, time.Hour))
	s.post(undoInPage.FindStringSubmatch(page.body)[1], nil).wants(t, http.StatusConflict, "Something changed since; nothing was undone.")
	if k := s.keys.key("acme"); k.Override.Limits[0] != per(1, time.Hour) {
		t.Error("the undo went over somebody else's change")
	}
}

// Overrides that end soon come first, those that ended last; a viewer sees them all and
// can end none.
func TestOverrides(t *testing.T) {
	keys := newRegistry(t, "a-ended", "b-endless", "c-late", "d-soon", "e-plain")
	for name, until := range map[string]time.Time{
		"a-ended": time.Now().Add(-time.Hour), "b-endless": {}, "c-late": time.Now().Add(100 * time.Hour), "d-soon": time.Now().Add(time.Hour),
	} {
		keys.update(name, func(k *policy.Key) {
			k.Override = &policy.Override{Limits: []limiter.Limit{per(9, time.Minute)}, Until: until, Reason: "of " + name}
		})
	}
	s := newSite(t, withKeys(keys)).login()
	body := s.get("/overrides").wants(t, http.StatusOK, "ends soon", "ended", "when somebody ends it", `/keys/{d-soon}/end`).body
	last := -1
	for _, name := range []string{"d-soon", "c-late", "b-endless", "a-ended"} {
		at := strings.Index(body, "of "+name)
		if at < last {
			t.Errorf("%s stands too early", name)
		}
		last = at
	}
	if strings.Contains(body, "e-plain") {
		t.Error("a key without an override is listed")
	}
	s.post("/keys/{d-soon}/end", fields("version", "2")).wants(t, http.StatusSeeOther)
	if keys.key("d-soon").Override != nil {
		t.Error("the override is still there")
	}
	s.get("/keys?state=overridden").wants(t, http.StatusOK, "c-late", "override ended")
}
