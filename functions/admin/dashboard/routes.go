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
)

// metBy reports whether somebody may have what needs this.
func (n need) metBy(a access.Actor) bool {
	switch n {
	case open, guest:
		return true
	case viewer:
		return a.Known()
	case editor:
		return a.CanEdit()
	case undecided:
	}
	return false
}

// route answers a pattern: method and path, as in http.ServeMux, without the base path. Below /api/ machines may ask too, and get errors as JSON.
type route struct {
	pattern string
	need    need
	handle  http.HandlerFunc
}

// routes is everything that the dashboard serves. What is not listed needs a session to be refused politely; see dispatch.
func (d *dashboard) routes() []route {
	return slices.Concat(d.keyRoutes(), d.policyRoutes(), []route{
		{"GET /healthz", open, d.health},
		{"GET /healthz/live", open, d.alive},
		{"GET /static/{file}", open, d.static},
		{"POST /theme", open, d.saveTheme},
		{"GET /login", guest, d.showLogin},
		{"POST /login", guest, d.login},
		{"GET /login/oidc", guest, d.startProviderLogin},
		{"GET /login/oidc/callback", guest, d.finishProviderLogin},
		{"POST /logout", viewer, d.logout},

		{"GET /{$}", viewer, d.showOverview},
		{"GET /simulate", viewer, d.showSimulation},
		{"GET /simulate/calls", viewer, d.showCalls},
		{"GET /explain", viewer, d.showExplain},

		{"GET /overrides", viewer, d.showOverrides},

		{"GET /audit", viewer, d.showAudit},
		{"GET /audit.csv", viewer, d.exportAudit},
		{"GET /audit/verify", viewer, d.verifyAudit},
		{"GET /audit/{entry}/revert", editor, d.showRevert},
		{"POST /audit/{entry}/revert", editor, d.revert},
		{"POST /audit/{entry}/undo", editor, d.undo},

		{"GET /settings", viewer, d.showSettings},
		{"POST /settings/sessions/end", viewer, d.endSessions},
		{"POST /settings/tokens", editor, d.createToken},
		{"POST /settings/tokens/{id}/revoke", editor, d.revokeToken},

		{"GET /api/v1/me", viewer, d.apiMe},
		{"GET /api/v1/tokens", editor, d.apiTokens},
		{"DELETE /api/v1/tokens/{id}", editor, d.apiRevokeToken},
	})
}

func (d *dashboard) keyRoutes() []route {
	return []route{
		{"GET /keys", viewer, d.showKeys},
		{"GET /keys.csv", viewer, d.exportKeys},
		{"GET /keys/new", editor, d.showNewKey},
		{"POST /keys", editor, d.createKey},
		{"GET /keys/bulk", editor, d.showBulk},
		{"POST /keys/bulk", editor, d.startBulk},
		{"GET /keys/job", editor, d.showJob},
		{"POST /keys/job", editor, d.doJob},
		{"GET /keys/{id}", viewer, d.showKey},
		{"GET /keys/{id}/limits", editor, d.showOverride},
		{"POST /keys/{id}/limits", editor, d.saveOverride},
		{"GET /keys/{id}/{action}", editor, d.showKeyAction},
		{"POST /keys/{id}/{action}", editor, d.doKeyAction},

		{"GET /callers", viewer, d.showCallers},
		{"GET /callers/{id}", viewer, d.showCaller},
		{"GET /callers/new", editor, d.showAdopt},
		{"POST /callers/new", editor, d.adopt},
	}
}

func (d *dashboard) policyRoutes() []route {
	return []route{
		{"GET /policies", viewer, d.showPolicies},
		{"POST /policies/sync", editor, d.syncPolicies},
		{"GET /policies/plans/new", editor, d.showNewPlan},
		{"POST /policies/plans/new", editor, d.createPlan},
		{"GET /policies/plans/{number}", editor, d.showPlan},
		{"POST /policies/plans/{number}", editor, d.savePlan},
		{"GET /policies/plans/{number}/{action}", editor, d.showPlanAction},
		{"POST /policies/plans/{number}/{action}", editor, d.doPlanAction},
		{"GET /policies/rules/new", editor, d.showNewRule},
		{"GET /policies/rules/edit", editor, d.showRule},
		{"POST /policies/rules", editor, d.saveRule},
		{"GET /policies/rules/delete", editor, d.showDeleteRule},
		{"POST /policies/rules/delete", editor, d.deleteRule},
		{"GET /policies/shared", editor, d.showShared},
		{"POST /policies/shared", editor, d.saveShared},
	}
}

// newMux registers routes and returns what each pattern needs.
func (d *dashboard) newMux(routes []route) (*http.ServeMux, map[string]need, error) {
	mux, needs := http.NewServeMux(), map[string]need{}
	for _, r := range routes {
		if r.need <= undecided || r.need > editor {
			return nil, nil, fmt.Errorf("route %s does not say who may ask for it", r.pattern)
		}
		method, path, _ := strings.Cut(r.pattern, " ")
		pattern := method + " " + d.path(path)
		mux.HandleFunc(pattern, r.handle)
		needs[pattern] = r.need
	}
	return mux, needs, nil
}
