package page

import (
	"net/http"
	"strings"

	"tidegate/functions/admin/auth"
	"tidegate/internal/journal"
	"tidegate/web/templates"
)

const maxStage = 20 // characters of the stage that a page shows

// Bare is the frame of a page that does not know who asks.
func (rd *Renderer) Bare(r *http.Request, title string) templates.Page {
	return templates.Page{
		Title:  title,
		Nonce:  nonceOf(r),
		Style:  rd.Path("/static/" + rd.bundle.Style),
		Script: rd.Path("/static/" + rd.bundle.Script),
		Icon:   rd.Path("/static/" + rd.bundle.Icon),
		Home:   rd.Path("/"),
		Keys:   rd.Path("/keys"),
		Logout: rd.Path("/logout"),
		Theme:  rd.theme(r),
		Stage:  Clip(rd.stage, maxStage),
	}
}

// Page is the frame of a page for whoever is logged in.
func (rd *Renderer) Page(r *http.Request, title string) templates.Page {
	p := rd.Bare(r, title)
	actor := auth.From(r.Context())
	p.User, p.Role, p.CanEdit = Clip(actor.Name, 60), actor.Role.String(), actor.CanEdit()
	p.Nav = rd.nav(r)
	if rd.JournalStatus != nil {
		p.Warnings = rd.warnings(rd.JournalStatus(r.Context()))
	}
	if !IsRefresh(r) {
		p.Toast = rd.toast(r)
	}
	return p
}

// warnings are what every page says of the journal, in words.
func (rd *Renderer) warnings(s journal.Status) []templates.Warning {
	var all []templates.Warning
	if s.Unsafe == 1 {
		all = append(all, templates.Warning{Text: "1 change is not safe yet: the journal does not have it."})
	}
	if s.Unsafe > 1 {
		all = append(all, templates.Warning{Text: Number(int64(s.Unsafe)) +
			" changes are not safe yet: the journal does not have them."})
	}
	if s.Behind > 0 {
		all = append(all, templates.Warning{
			Text: "Valkey lost changes, in " + Number(int64(s.Behind)) +
				" of 256 parts. Edits there are refused.",
			Restore: rd.Path("/journal/restore"),
		})
	}
	if s.Away && s.Unsafe == 0 {
		all = append(all, templates.Warning{Text: "The journal does not answer."})
	}
	return all
}

// mainPages are the links at the top of every page, in their order.
var mainPages = []struct{ path, text string }{
	{"/", "Overview"},
	{"/keys", "Keys"},
	{"/denials", "Denials"},
	{"/alerts", "Alerts"},
	{"/policies", "Policies"},
	{"/overrides", "Overrides"},
	{"/audit", "Audit"},
	{"/explain", "Explain"},
	{"/simulate", "Simulate"},
	{"/settings", "Settings"},
}

// nav marks the main page that the request asks for, or that is above it.
func (rd *Renderer) nav(r *http.Request) []templates.Choice {
	var links []templates.Choice
	for _, m := range mainPages {
		at := rd.Path(m.path)
		current := r.URL.Path == at || m.path != "/" && strings.HasPrefix(r.URL.Path, at+"/") ||
			m.path == "/keys" && strings.HasPrefix(r.URL.Path, rd.Path("/callers"))
		links = append(links, templates.Choice{Text: m.text, Address: at, Current: current})
	}
	return links
}
