package page

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/internal/journal"
	"tidegate/web/templates"
)

// Bounds of shown names, in characters.
const (
	maxStage = 20
	maxUser  = 60
)

// The session values that describe the log-in, for the list of sessions.
const (
	SessionStarted = "started" // second of the Unix epoch
	SessionAgent   = "agent"   // the browser and its system
)

// The session values of the message that the next page shows.
const (
	sessionFlash = "flash"
	sessionUndo  = "undo"
)

// Bare returns the frame of a page without a user.
func (rd *Renderer) Bare(r *http.Request, title string) templates.Page {
	return templates.Page{
		Title:  title,
		Nonce:  nonceOf(r),
		Style:  rd.staticPath(rd.bundle.Style),
		Script: rd.staticPath(rd.bundle.Script),
		Icon:   rd.staticPath(rd.bundle.Icon),
		Home:   rd.Path("/"),
		Keys:   rd.Path("/keys"),
		Logout: rd.Path("/logout"),
		Theme:  rd.theme(r),
		Stage:  Clip(rd.stage, maxStage),
	}
}

// Page returns the frame of a page for the logged-in user. Unless the request is a
// refresh, it moves the message of the last request from the session to the page.
func (rd *Renderer) Page(r *http.Request, title string) templates.Page {
	p := rd.Bare(r, title)
	actor := auth.From(r.Context())
	rd.answered.Store(time.Now().Unix()) // the session was in Valkey
	p.User = Clip(actor.Name, maxUser)
	p.Role = actor.Role.String()
	p.CanEdit = actor.CanEdit()
	p.Nav = rd.nav(r)
	if rd.JournalStatus != nil {
		p.Warnings = rd.warnings(rd.JournalStatus(r.Context()))
	}
	if !IsRefresh(r) {
		p.Toast = rd.toast(r)
	}
	return p
}

// warnings returns the warnings about the journal, which every page shows.
func (rd *Renderer) warnings(s journal.Status) []templates.Warning {
	var all []templates.Warning
	if s.Unsafe == 1 {
		all = append(all, templates.Warning{Text: "1 change is not safe yet: it is not in the journal."})
	}
	if s.Unsafe > 1 {
		all = append(all, templates.Warning{Text: Number(int64(s.Unsafe)) +
			" changes are not safe yet: they are not in the journal."})
	}
	if s.Behind > 0 {
		all = append(all, templates.Warning{
			Text: "Valkey lost changes in " + Number(int64(s.Behind)) +
				" of 256 buckets. Edits there are refused.",
			Restore: rd.Path("/journal/restore"),
		})
	}
	if s.Damaged != "" {
		all = append(all, templates.Warning{
			Text: "The journal has a damaged object. Edits wait until you move it away: " + s.Damaged})
	} else if s.Unavailable && s.Unsafe == 0 {
		all = append(all, templates.Warning{Text: "The journal is unavailable."})
	}
	return all
}

// mainPages are the links at the top of every page, in order.
var mainPages = []struct{ path, text string }{
	{"/", "Overview"},
	{"/keys", "Keys"},
	{"/denials", "Denials"},
	{"/alerts", "Alerts"},
	{"/policies", "Policies"},
	{"/audit", "Audit"},
	{"/explain", "Explain"},
	{"/simulate", "Simulate"},
	{"/settings", "Settings"},
}

// nav returns the links to the main pages. The one that contains the requested page is
// current.
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

// Flash stores a message for the next page. undo is the address that undoes the change;
// empty if there is none.
func (rd *Renderer) Flash(r *http.Request, text, undo string) {
	rd.Session.Put(r.Context(), sessionFlash, text)
	rd.Session.Put(r.Context(), sessionUndo, undo)
}

// toast removes the message from the session and returns it.
func (rd *Renderer) toast(r *http.Request) templates.Toast {
	ctx := r.Context()
	if !rd.Session.Exists(ctx, sessionFlash) {
		return templates.Toast{}
	}
	return templates.Toast{
		Text: rd.Session.PopString(ctx, sessionFlash), Undo: rd.Session.PopString(ctx, sessionUndo),
	}
}

// The cookie of the color theme, and its age in seconds.
const (
	ThemeCookie = "tidegate-theme"
	ThemeAge    = 365 * 24 * 3600
)

// themes are the color themes. The first, with an empty name, follows the system.
var themes = []templates.Option{
	{Value: "", Text: "System"}, {Value: "light", Text: "Light"}, {Value: "dark", Text: "Dark"},
}

// IsTheme reports whether name is a theme.
func IsTheme(name string) bool {
	return slices.ContainsFunc(themes, func(t templates.Option) bool { return t.Value == name })
}

// theme returns the form that chooses the theme.
func (rd *Renderer) theme(r *http.Request) templates.Theme {
	t := templates.Theme{Submit: rd.Path("/theme"), Next: rd.Path("/"), Choices: themes}
	if c, err := r.Cookie(ThemeCookie); err == nil && IsTheme(c.Value) {
		t.Name = c.Value
	}
	if r.Method == http.MethodGet {
		t.Next = r.URL.RequestURI()
	}
	return t
}
