package page

import (
	"net/http"

	"tidegate/web/templates"
)

// ThemeCookie keeps the choice of colours for ThemeAge seconds.
const (
	ThemeCookie = "tidegate-theme"
	ThemeAge    = 365 * 24 * 3600
)

// themes are the choices of colours; the first is that of the system.
var themes = []templates.Option{{Value: "", Text: "System"}, {Value: "light", Text: "Light"},
	{Value: "dark", Text: "Dark"}}

// themeOf returns the colours that the browser asked for earlier.
func themeOf(r *http.Request) string {
	c, err := r.Cookie(ThemeCookie)
	if err != nil || !IsTheme(c.Value) {
		return ""
	}
	return c.Value
}

// IsTheme reports whether a name is one of the choices.
func IsTheme(name string) bool {
	for _, t := range themes {
		if t.Value == name {
			return true
		}
	}
	return false
}

func (rd *Renderer) theme(r *http.Request) templates.Theme {
	t := templates.Theme{Name: themeOf(r), Submit: rd.Path("/theme"), Next: rd.Path("/"), Choices: themes}
	if r.Method == http.MethodGet {
		t.Next = r.URL.RequestURI()
	}
	return t
}
