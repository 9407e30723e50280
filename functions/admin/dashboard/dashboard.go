// Package dashboard is the pages that show who uses how much of which limit, and that
// change limits: a request in, a view model of package templates out. Every page is a
// file. The server mounts the pages and has seen to who asks; the pages know neither it
// nor the API.
package dashboard

import (
	"context"
	"log/slog"
	"slices"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/alerts"
	"tidegate/functions/admin/dashboard/auditlog"
	"tidegate/functions/admin/dashboard/bulk"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/denials"
	"tidegate/functions/admin/dashboard/groups"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/policies"
	"tidegate/functions/admin/dashboard/simulate"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/journal"
	"tidegate/internal/usage"
)

// SessionLister lists somebody's sessions. *session.Store is one.
type SessionLister interface {
	List(ctx context.Context, user string, count int) ([]session.Session, error)
}

// Services are what the pages work with. Journal, Owners and ProviderHost are optional.
type Services struct {
	Keys         *app.Registry
	Checker      *enforce.Checker // explains calls
	Usage        *usage.Reader
	Crossings    *crossing.Store
	Sessions     SessionLister
	Tokens       *token.Store
	Journal      *journal.Journal // nil for none
	Owners       *app.Owners      // nil where keys' owners have no page
	StoreVersion func(context.Context) (string, error)
	Log          *slog.Logger
	// Stage and Release are shown on the settings page. ProviderHost is where people log
	// in when not with a password; empty when there is no such provider.
	Stage, Release, ProviderHost string
}

// dashboard answers the pages.
type dashboard struct {
	*page.Renderer
	Services
	*changes.Changes
	bulk    *bulk.Pages
	denials *denials.Pages
	audit   *auditlog.Pages
	groups  *groups.Pages
	alerts  *alerts.Pages
}

// Routes returns the pages; r renders them.
func Routes(r *page.Renderer, pages Services) []auth.Route {
	shared := changes.New(r, pages.Keys, pages.Usage)
	d := &dashboard{Renderer: r, Services: pages, Changes: shared,
		bulk:    &bulk.Pages{Renderer: r, Changes: shared, Keys: pages.Keys},
		denials: denials.New(r, pages.Keys, pages.Usage),
		groups:  groups.New(r, pages.Keys, denials.New(r, pages.Keys, pages.Usage)),
		audit:   auditlog.New(r, shared, pages.Keys),
		alerts:  alerts.New(r, pages.Keys, pages.Crossings)}
	return slices.Concat(
		d.routes(), d.keyRoutes(), policies.Routes(r, shared, pages.Keys, pages.Usage, pages.Log),
		simulate.Routes(r, pages.Log), d.ownerRoutes(), d.bulk.Routes(), d.denials.Routes(), d.audit.Routes(),
		d.groups.Routes(), d.alerts.Routes(),
	)
}
