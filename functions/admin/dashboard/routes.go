package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tidegate/functions/admin/access"
)

// need is what a request must bring to be answered. The zero value is none of them: a route that says nothing stops the start.
type need int

const (
	undecided need = iota
	open           // anybody; no session is looked up
	guest          // anybody; a session is looked up
	viewer         // whoever may look
	editor         // whoever may change things
	settler        // whoever may settle costs
)

// metBy reports whether somebody may have what needs this.
func (n need) metBy(a access.Actor) bool {
	switch n {
	case open, guest:
		return true
	case viewer:
		return a.CanView()
	case editor:
		return a.CanEdit()
	case settler:
		return a.CanSettle()
	case undecided:
	}
	return false
}

// route answers a pattern: method and path, as in http.ServeMux, without the base path. Below /api/ machines may ask too, and get errors as JSON.
type route struct {
	pattern string
	need    need
	handle  http.HandlerFunc
	maxBody int64 // bytes of a request's body; 0 for as many as any form has
}

// routes is everything that the dashboard serves. What is not listed needs a session to be refused politely; see dispatch.
func (d *dashboard) routes() []route {
	return slices.Concat(d.keyRoutes(), d.policyRoutes(), d.apiRoutes(), []route{
		{pattern: "GET /healthz", need: open, handle: d.health},
		{pattern: "GET /healthz/live", need: open, handle: d.alive},
		{pattern: "GET /static/{file}", need: open, handle: d.static},
		{pattern: "POST /theme", need: open, handle: d.saveTheme},
		{pattern: "GET /login", need: guest, handle: d.showLogin},
		{pattern: "POST /login", need: guest, handle: d.login},
		{pattern: "GET /login/oidc", need: guest, handle: d.startProviderLogin},
		{pattern: "GET /login/oidc/callback", need: guest, handle: d.finishProviderLogin},
		{pattern: "POST /logout", need: viewer, handle: d.logout},

		{pattern: "GET /{$}", need: viewer, handle: d.showOverview},
		{pattern: "GET /simulate", need: viewer, handle: d.showSimulation},
		{pattern: "GET /simulate/calls", need: viewer, handle: d.showCalls},
		{pattern: "GET /explain", need: viewer, handle: d.showExplain},

		{pattern: "GET /overrides", need: viewer, handle: d.showOverrides},

		{pattern: "GET /audit", need: viewer, handle: d.showAudit},
		{pattern: "GET /audit.csv", need: viewer, handle: d.exportAudit},
		{pattern: "GET /audit/verify", need: viewer, handle: d.verifyAudit},
		{pattern: "GET /audit/{entry}/revert", need: editor, handle: d.showRevert},
		{pattern: "POST /audit/{entry}/revert", need: editor, handle: d.revert},
		{pattern: "POST /audit/{entry}/undo", need: editor, handle: d.undo},

		{pattern: "GET /settings", need: viewer, handle: d.showSettings},
		{pattern: "POST /settings/sessions/end", need: viewer, handle: d.endSessions},
		{pattern: "POST /settings/tokens", need: editor, handle: d.createToken},
		{pattern: "POST /settings/tokens/{id}/revoke", need: editor, handle: d.revokeToken},
	})
}

func (d *dashboard) keyRoutes() []route {
	return []route{
		{pattern: "GET /keys", need: viewer, handle: d.showKeys},
		{pattern: "GET /keys.csv", need: viewer, handle: d.exportKeys},
		{pattern: "GET /keys/new", need: editor, handle: d.showNewKey},
		{pattern: "POST /keys", need: editor, handle: d.createKey},
		{pattern: "GET /keys/bulk", need: editor, handle: d.showBulk},
		{pattern: "POST /keys/bulk", need: editor, handle: d.startBulk},
		{pattern: "GET /keys/job", need: editor, handle: d.showJob},
		{pattern: "POST /keys/job", need: editor, handle: d.doJob},
		{pattern: "GET /keys/{id}", need: viewer, handle: d.showKey},
		{pattern: "GET /keys/{id}/limits", need: editor, handle: d.showOverride},
		{pattern: "POST /keys/{id}/limits", need: editor, handle: d.saveOverride},
		{pattern: "GET /keys/{id}/{action}", need: editor, handle: d.showKeyAction},
		{pattern: "POST /keys/{id}/{action}", need: editor, handle: d.doKeyAction},

		{pattern: "GET /callers", need: viewer, handle: d.showCallers},
		{pattern: "GET /callers/{id}", need: viewer, handle: d.showCaller},
		{pattern: "GET /callers/new", need: editor, handle: d.showAdopt},
		{pattern: "POST /callers/new", need: editor, handle: d.adopt},
	}
}

func (d *dashboard) policyRoutes() []route {
	return []route{
		{pattern: "GET /policies", need: viewer, handle: d.showPolicies},
		{pattern: "GET /policies.yaml", need: viewer, handle: d.exportPolicies},
		{pattern: "GET /policies/import", need: editor, handle: d.showImport},
		{pattern: "POST /policies/import", need: editor, handle: d.importPolicies, maxBody: maxImport},
		{pattern: "POST /policies/sync", need: editor, handle: d.syncPolicies},
		{pattern: "GET /policies/plans/new", need: editor, handle: d.showNewPlan},
		{pattern: "POST /policies/plans/new", need: editor, handle: d.createPlan},
		{pattern: "GET /policies/plans/{number}", need: editor, handle: d.showPlan},
		{pattern: "POST /policies/plans/{number}", need: editor, handle: d.savePlan},
		{pattern: "GET /policies/plans/{number}/{action}", need: editor, handle: d.showPlanAction},
		{pattern: "POST /policies/plans/{number}/{action}", need: editor, handle: d.doPlanAction},
		{pattern: "GET /policies/rules/new", need: editor, handle: d.showNewRule},
		{pattern: "GET /policies/rules/edit", need: editor, handle: d.showRule},
		{pattern: "POST /policies/rules", need: editor, handle: d.saveRule},
		{pattern: "GET /policies/rules/delete", need: editor, handle: d.showDeleteRule},
		{pattern: "POST /policies/rules/delete", need: editor, handle: d.deleteRule},
		{pattern: "GET /policies/shared", need: editor, handle: d.showShared},
		{pattern: "POST /policies/shared", need: editor, handle: d.saveShared},
	}
}

// newMux registers routes and returns them by their patterns.
func (d *dashboard) newMux(routes []route) (*http.ServeMux, map[string]route, error) {
	mux, known := http.NewServeMux(), map[string]route{}
	for _, r := range routes {
		if r.need <= undecided || r.need > settler {
			return nil, nil, fmt.Errorf("route %s does not say who may ask for it", r.pattern)
		}
		method, path, _ := strings.Cut(r.pattern, " ")
		pattern := method + " " + d.path(path)
		mux.HandleFunc(pattern, r.handle)
		known[pattern] = r
	}
	return mux, known, nil
}
