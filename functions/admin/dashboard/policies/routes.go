package policies

import (
	"log/slog"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/usage"
)

// pages answers the pages of the policies.
type pages struct {
	*page.Renderer
	*changes.Changes
	Keys  *app.Registry
	Usage *usage.Reader
	Log   *slog.Logger
}

// Routes returns the pages; r renders them.
func Routes(
	r *page.Renderer, shared *changes.Changes, keys *app.Registry, calls *usage.Reader, log *slog.Logger,
) []auth.Route {
	d := &pages{Renderer: r, Changes: shared, Keys: keys, Usage: calls, Log: log}
	return []auth.Route{
		{Pattern: "GET /policies", Role: auth.Viewer, Handle: d.showPolicies},
		{Pattern: "GET /policies.yaml", Role: auth.Viewer, Handle: d.exportPolicies},
		{Pattern: "GET /policies/import", Role: auth.Editor, Handle: d.showImport},
		{Pattern: "POST /policies/import", Role: auth.Editor, Handle: d.importPolicies, Resumes: true,
			MaxBody: MaxImport},
		{Pattern: "POST /policies/sync", Role: auth.Editor, Handle: d.syncPolicies},
		{Pattern: "GET /policies/plans/new", Role: auth.Editor, Handle: d.showNewPlan},
		{Pattern: "POST /policies/plans/new", Role: auth.Editor, Handle: d.createPlan, Resumes: true},
		{Pattern: "GET /policies/plans/{number}", Role: auth.Editor, Handle: d.showPlan},
		{Pattern: "POST /policies/plans/{number}", Role: auth.Editor, Handle: d.savePlan, Resumes: true},
		{Pattern: "GET /policies/plans/{number}/{action}", Role: auth.Editor, Handle: d.showPlanAction},
		{Pattern: "POST /policies/plans/{number}/{action}", Role: auth.Editor, Handle: d.doPlanAction,
			Resumes: true},
		{Pattern: "GET /policies/rules/new", Role: auth.Editor, Handle: d.showNewRule},
		{Pattern: "GET /policies/rules/edit", Role: auth.Editor, Handle: d.showRule},
		{Pattern: "POST /policies/rules", Role: auth.Editor, Handle: d.saveRule, Resumes: true},
		{Pattern: "GET /policies/rules/delete", Role: auth.Editor, Handle: d.showDeleteRule},
		{Pattern: "POST /policies/rules/delete", Role: auth.Editor, Handle: d.deleteRule, Resumes: true},
		{Pattern: "GET /policies/shared", Role: auth.Editor, Handle: d.showAllCallers},
		{Pattern: "POST /policies/shared", Role: auth.Editor, Handle: d.saveAllCallers, Resumes: true},
	}
}
