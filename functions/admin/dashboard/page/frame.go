package page

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/auth"
	"tidegate/web/static"
	"tidegate/web/templates"
)

// Bounds of shown names, in characters.
const (
	maxStage = 20
	maxUser  = 60
)

// The session values of the message that the next page shows.
const (
	sessionFlash = "flash"
	sessionUndo  = "undo"
)

// Bare returns the frame of a page without a user.
func (rd *Renderer) Bare(r *http.Request, title string) templates.Page {
	files := static.Load()
	return templates.Page{
		Title:  title,
		Nonce:  nonceOf(r),
		Style:  rd.staticPath(files.Style),
		Script: rd.staticPath(files.Script),
		Icon:   rd.staticPath(files.Icon),
		Home:   rd.Path("/"),
		Keys:   rd.Path("/keys"),
		Find:   rd.Path("/search"),
		Logout: rd.Path("/logout"),
		Theme:  rd.theme(r),
		Stage:  Clip(rd.stage, maxStage),
	}
}

// Page returns the frame of a page for the logged-in user. Unless the request is a
// refresh, it moves the message of the last request from the session to the page.
func (rd *Renderer) Page(r *http.Request, title string) templates.Page {
	p := rd.navigable(r, title)
	for i := range p.Nav {
		if p.Nav[i].Text == denials {
			p.Nav[i].Counts, p.Nav[i].Badge = true, rd.deniedNow(r)
		}
	}
	if rd.Warnings != nil {
		p.Warnings = rd.Warnings(r.Context())
	}
	if !IsRefresh(r) {
		p.Toast = rd.toast(r)
	}
	return p
}

// navigable returns the frame of a page with what it takes from the request alone: the
// user, if any, and the navigation.
func (rd *Renderer) navigable(r *http.Request, title string) templates.Page {
	p := rd.Bare(r, title)
	if actor := auth.From(r.Context()); actor.Known() {
		p.User, p.Role = Clip(actor.Name, maxUser), actor.Role.String()
		p.CanEdit = actor.CanEdit()
		p.Nav = rd.Nav(r)
		p.Health = strconv.FormatFloat(float64(rd.took.Load())/1000, 'f', 1, 64) + " ms"
	}
	return p
}

// section is a place of the navigation, with the pages below it. The first is where it
// leads.
type section struct {
	text  string
	pages []sectionPage
}

// sectionPage is a page of a section. within are the first path segments of the pages that
// belong to it.
type sectionPage struct {
	path, text string
	within     []string
}

// sections holds the navigation. A page below no segment is in none.
var sections = []section{
	{"Overview", []sectionPage{{"/", "Overview", []string{""}}}},
	{"Keys", []sectionPage{
		{"/keys", "Keys", []string{"keys", "secrets"}},
		{"/groups", "Groups", []string{"groups"}},
		{"/callers", "Callers", []string{"callers"}},
	}},
	{denials, []sectionPage{
		{"/denials", denials, []string{"denials"}}, {"/alerts", "Alerts", []string{"alerts"}},
	}},
	{"Policies", []sectionPage{
		{"/policies", "Policies", []string{"policies"}},
		{"/explain", "Explain a call", []string{"explain"}},
	}},
	{"Audit", []sectionPage{{"/audit", "Audit", []string{"audit"}}}},
	{"Settings", []sectionPage{{"/settings", "Settings", []string{"settings"}}}},
}

// denials is the section that tells how many callers are denied now.
const denials = "Denials"

// Nav returns the sections with their pages. Those of the requested page are current.
func (rd *Renderer) Nav(r *http.Request) []templates.Section {
	segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, rd.Path("/")), "/")
	var nav []templates.Section
	for _, s := range sections {
		link := templates.Section{Choice: templates.Choice{Text: s.text, Address: rd.Path(s.pages[0].path)}}
		for _, p := range s.pages {
			current := slices.Contains(p.within, segment)
			link.Current = link.Current || current
			link.Pages = append(link.Pages,
				templates.Choice{Text: p.text, Address: rd.Path(p.path), Current: current})
		}
		nav = append(nav, link)
	}
	return nav
}

// Flash stores a message for the next page, with what there is to know of the request.
// undo is the address that undoes the change; empty if there is none.
func (rd *Renderer) Flash(r *http.Request, text, undo string) {
	rd.Session.Put(r.Context(), sessionFlash, rd.withNotes(r, text))
	rd.Session.Put(r.Context(), sessionUndo, undo)
}

// withNotes adds the notes of a request to a text.
func (rd *Renderer) withNotes(r *http.Request, text string) string {
	if rd.Notes == nil {
		return text
	}
	return strings.TrimSpace(text + " " + strings.Join(rd.Notes(r.Context()), " "))
}

// toast removes the message from the session and returns it, or the notes of this request.
func (rd *Renderer) toast(r *http.Request) templates.Toast {
	ctx := r.Context()
	if !rd.Session.Exists(ctx, sessionFlash) {
		return templates.Toast{Text: rd.withNotes(r, "")}
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
