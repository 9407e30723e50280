package dashboard

import (
	"net/http"

	"tidegate/web/templates"
)

const (
	themeCookie = "tidegate-theme"
	themeAge    = 365 * 24 * 3600 // seconds
)

// themes are the choices of colours; the first is that of the system.
var themes = []templates.Option{{Value: "", Text: "System"}, {Value: "light", Text: "Light"}, {Value: "dark", Text: "Dark"}}

// themeOf returns the colours that the browser asked for earlier.
func themeOf(r *http.Request) string {
	c, err := r.Cookie(themeCookie)
	if err != nil || !isTheme(c.Value) {
		return ""
	}
	return c.Value
}

func isTheme(name string) bool {
	for _, t := range themes {
		if t.Value == name {
			return true
		}
	}
	return false
}

func (rd *renderer) theme(r *http.Request) templates.Theme {
	t := templates.Theme{Name: themeOf(r), Submit: rd.path("/theme"), Next: rd.path("/"), Choices: themes}
	if r.Method == http.MethodGet {
		t.Next = r.URL.RequestURI()
	}
	return t
}

// saveTheme keeps the choice in a cookie and no session, so that the login has it too.
func (rd *renderer) saveTheme(w http.ResponseWriter, r *http.Request) {
	if !rd.parseForm(w, r) {
		return
	}
	name := r.PostForm.Get("theme")
	if !r.PostForm.Has("theme") || !isTheme(name) {
		rd.fail(w, r, problem{status: http.StatusBadRequest})
		return
	}
	age := themeAge
	if name == "" {
		age = -1 // forgets it
	}
	http.SetCookie(w, &http.Cookie{
		Name: themeCookie, Value: name, Path: rd.path("/"), MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, rd.backTo(r.PostForm.Get("next")), http.StatusSeeOther)
}

// backTo is localPath, which refuses the login as a place to go to after the login; from
// a form on the login it is one.
func (rd *renderer) backTo(next string) string {
	if next == rd.path("/login") {
		return next
	}
	return rd.localPath(next)
}
