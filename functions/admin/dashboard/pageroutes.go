package dashboard

import "slices"

// routes are the pages.
func (d *dashboard) routes() []route {
	return slices.Concat(d.keyRoutes(), d.policyRoutes(), []route{
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
