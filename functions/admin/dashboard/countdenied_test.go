package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/server/sitetest"
)

// sharedRow returns the fields of a log limit per minute that counts denied calls, as the
// first of a list of shared limits.
func sharedRow(list, requests string) []string {
	at := list + "[0]."
	return []string{
		at + "requests", requests, at + "window", "1", at + "unit", "minute", at + "algorithm", "log",
		at + "countDenied", form.Checked,
	}
}

// Shared limits cannot count denied calls. The forms do not offer it, and refuse it on
// save and on preview. An import refuses it too.
func TestSharedLimitsDoNotCountDenied(t *testing.T) {
	s := sitetest.New(t).Login()
	const message = "several callers share this limit"
	shared := fields("version", "1", "perIPMode", "enforce", "globalMode", "enforce", "reason", "test",
		"action", "save")
	for _, c := range []struct {
		path, list string
		form       url.Values
	}{
		{"/policies/shared", "perIP", shared},
		{"/policies/shared", "global", shared},
		{"/policies/rules", "perIP", ruleOf(1, "", "chat", "POST", "/chat")},
		{"/policies/rules", "shared", ruleOf(1, "", "chat", "POST", "/chat")},
	} {
		for _, button := range []string{"save", "preview"} {
			form := sitetest.With(sitetest.With(c.form, sharedRow(c.list, "100")...), "action", button)
			s.Post(c.path, form).Wants(t, http.StatusUnprocessableEntity,
				`id="`+c.list+`-0-countDenied-error"`, message)
		}
	}
	for path, not := range map[string]string{"/policies/shared": "countDenied",
		"/policies/rules/new": "shared-0-countDenied"} {
		if body := s.Get(path).Wants(t, http.StatusOK).Body; strings.Contains(body, not) {
			t.Errorf("%s has the field %s", path, not)
		}
	}
	s.Get("/policies/rules/new").Wants(t, http.StatusOK, `id="perKey-0-countDenied"`)
	file := "plans: [{name: free, limits: [10 per 10 seconds]}]\nglobal: {limits: ['9 per minute, denied " +
		"calls count']}\n"
	s.Post("/policies/import", fields("version", "1", "yaml", file)).Wants(t, http.StatusUnprocessableEntity,
		"Line 2: global.limits[0].countDenied", message)
	if s.Keys.Written() != 0 {
		t.Error("a refused form was written")
	}
}
