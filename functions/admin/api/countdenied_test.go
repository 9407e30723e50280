package api

import (
	"net/http"
	"testing"
)

// Denied calls cannot be made to count on limits that several callers share: JSON, YAML
// and both dry runs answer alike and name the field. On limits of one caller they can.
func TestCountDeniedOfSharedLimits(t *testing.T) {
	s := newService(t)
	limits := []any{map[string]any{"requests": 100, "window": "1m", "countDenied": true}}
	plans := []any{map[string]any{"name": "free",
		"limits": []any{map[string]any{"requests": 10, "window": "10s", "countDenied": true}}}}
	rule := func(list string) []any {
		return []any{map[string]any{"name": "chat", "pattern": map[string]any{}, list: limits}}
	}
	yaml := "plans: [{name: free, limits: ['10 per 10 seconds, denied calls count']}]\n"
	const words, scope = "['100 per minute, denied calls count']", "several callers share this limit"
	for field, c := range map[string]struct {
		body map[string]any
		file string
	}{
		"perIP.limits[0].countDenied": {map[string]any{"perIP": map[string]any{"limits": limits}},
			"perIP: {limits: " + words + "}"},
		"global.limits[0].countDenied": {map[string]any{"global": map[string]any{"limits": limits}},
			"global: {limits: " + words + "}"},
		"routes[0].perIP[0].countDenied": {map[string]any{"routes": rule("perIP")},
			"routes: [{name: chat, pattern: '*', perIP: " + words + "}]"},
		"routes[0].shared[0].countDenied": {map[string]any{"routes": rule("shared")},
			"routes: [{name: chat, pattern: '*', shared: " + words + "}]"},
	} {
		c.body["plans"] = plans
		for _, query := range []string{"?reason=x", "?dry_run=true"} {
			s.do(http.MethodPut, "/policy"+query, c.body,
				header{"If-Match": `"1"`}).wants(http.StatusUnprocessableEntity, field, scope)
			s.putFile(query, "version: 1\n"+yaml+c.file+"\n", nil).wants(http.StatusUnprocessableEntity,
				field, scope, `"line":3`)
		}
	}
	own := map[string]any{"plans": plans, "routes": rule("perKey")}
	s.do(http.MethodPut, "/policy?reason=x", own, header{"If-Match": `"1"`}).wants(http.StatusOK,
		`"applied":true`)
	s.putFile("?dry_run=true", yaml+"routes: [{name: chat, pattern: '*', perKey: "+words+"}]\n",
		nil).wants(http.StatusOK, `"changes":[]`)
}
