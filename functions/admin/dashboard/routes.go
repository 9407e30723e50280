package dashboard

import "tidegate/functions/admin/auth"

// routes are the pages.
func (d *dashboard) routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /{$}", Role: auth.Viewer, Handle: d.showOverview},
		{Pattern: "GET /explain", Role: auth.Viewer, Handle: d.showExplain},

		{Pattern: "GET /overrides", Role: auth.Viewer, Handle: d.showOverrides},

		{Pattern: "POST /journal/restore", Role: auth.Editor, Handle: d.restoreLost},

		{Pattern: "GET /settings", Role: auth.Viewer, Handle: d.showSettings},
		{Pattern: "POST /settings/tokens", Role: auth.Editor, Handle: d.createToken, Resumes: true},
		{Pattern: "POST /settings/tokens/{id}/revoke", Role: auth.Editor, Handle: d.revokeToken},
	}
}

func (d *dashboard) keyRoutes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /keys", Role: auth.Viewer, Handle: d.showKeys},
		{Pattern: "POST /search", Role: auth.Viewer, Handle: d.search},
		{Pattern: "GET /keys.csv", Role: auth.Viewer, Handle: d.exportKeys},
		{Pattern: "GET /keys/new", Role: auth.Editor, Handle: d.showNewKey},
		{Pattern: "POST /keys", Role: auth.Editor, Handle: d.createKey, Resumes: true},
		{Pattern: "GET /keys/{id}", Role: auth.Viewer, Handle: d.showKey},
		{Pattern: "GET /keys/{id}/limits", Role: auth.Editor, Handle: d.showOverride},
		{Pattern: "POST /keys/{id}/limits", Role: auth.Editor, Handle: d.saveOverride, Resumes: true},
		{Pattern: "GET /secrets/{id}", Role: auth.Editor, Handle: d.showSecret},
		{Pattern: "GET /keys/{id}/{action}", Role: auth.Editor, Handle: d.showKeyAction},
		{Pattern: "POST /keys/{id}/{action}", Role: auth.Editor, Handle: d.doKeyAction, Resumes: true},

		{Pattern: "GET /callers", Role: auth.Viewer, Handle: d.showCallers},
		{Pattern: "GET /callers/{id}", Role: auth.Viewer, Handle: d.showCaller},
		{Pattern: "GET /callers/new", Role: auth.Editor, Handle: d.showAdopt},
		{Pattern: "POST /callers/new", Role: auth.Editor, Handle: d.adopt, Resumes: true},
	}
}
