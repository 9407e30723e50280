package dashboard_test

import (
	"net/http"
	"net/url"
	"testing"

	"tidegate/internal/testing/sitetest"
)

// Shared limits cannot count denied calls. The forms refuse it on save and on
// preview. An import refuses it too.
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
			form := sitetest.With(c.form, c.list+"[0]", "9 per minute, denied calls count",
				"action", button)
			s.Post(c.path, form).Wants(t, http.StatusUnprocessableEntity,
				`id="`+c.list+`-0-error"`, message)
		}
	}
	file := "plans: [{name: free, limits: [10 per 10 seconds]}]\nglobal: {limits: ['9 per minute, denied " +
		"calls count']}\n"
	s.Post("/policies/import", fields("version", "1", "yaml", file)).Wants(t, http.StatusUnprocessableEntity,
		"Line 2: global.limits[0].countDenied", message)
	if s.Keys.Written() != 0 {
		t.Error("a refused form was written")
	}
}
