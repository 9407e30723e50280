package page

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/web/templates"
)

// A form that cannot be answered, since its session ended or the store is away, is given
// back sealed: the page that says so holds it, and nothing is stored. Sent to /resume by
// the same user, it leads back to the filled form. Who that is a cookie knows which the
// log-in sets; without it nothing is kept.

// Resume is the button of a form that shows it again as it was typed, and saves nothing.
const Resume = "resume"

// KeptField is the name of the sealed form among a page's fields.
const KeptField = "kept"

const (
	keptLife  = 2 * time.Hour
	maxKept   = 60_000 // bytes of a sealed form, which the log-in's form carries
	keptLabel = "form\n"
)

// keptForm is what somebody typed.
type keptForm struct {
	Path   string
	Values url.Values
}

// unkept are fields that no form gets back.
var unkept = []string{"password", "secret", "key", "value", "action", KeptField}

// Keep seals the form that a request sends, for its owner; empty when there is nothing
// to keep, too much, or nobody whose it is.
func (rd *Renderer) Keep(r *http.Request) string {
	if rd.Sealer == nil || !rd.Resumes(r) || r.ParseForm() != nil {
		return ""
	}
	owner, err := r.Cookie(rd.OwnerCookie)
	if err != nil || owner.Value == "" {
		return ""
	}
	form := keptForm{Path: r.URL.RequestURI(), Values: url.Values{}}
	for name, values := range r.PostForm {
		form.Values[name] = values
	}
	for _, name := range unkept {
		form.Values.Del(name)
	}
	for name, values := range form.Values {
		for _, v := range values {
			if _, err := apikey.Parse(strings.TrimSpace(v)); err == nil || strings.Contains(v, "tga_") {
				form.Values.Del(name)
			}
		}
	}
	if len(form.Values) == 0 {
		return ""
	}
	text, err := rd.Sealer.Seal(keptLabel+owner.Value, form, keptLife)
	if err != nil {
		rd.log.Error("keep form", "cause", err)
	}
	if err != nil || len(text) > maxKept {
		return ""
	}
	return text
}

// kept opens a form that was kept for a user.
func (rd *Renderer) kept(id, text string) (form keptForm, ok bool) {
	ok = text != "" && rd.Sealer.Open(keptLabel+rd.Owner(id), text, &form) &&
		rd.LocalPath(form.Path) == form.Path
	return form, ok
}

// IsKeptFor reports whether a form was kept for a user.
func (rd *Renderer) IsKeptFor(id, text string) bool {
	_, ok := rd.kept(id, text)
	return ok
}

// Owner is what the owner's cookie holds: it names a user to nobody but the Sealer.
func (rd *Renderer) Owner(id string) string { return rd.Sealer.Mark("owner\n" + id) }

// ShowKept answers with a form that leads back to the one that was kept, for its owner.
func (rd *Renderer) ShowKept(w http.ResponseWriter, r *http.Request, text string) {
	form, ok := rd.kept(auth.From(r.Context()).ID, text)
	if !ok {
		rd.Fail(w, r, Problem{
			Status: http.StatusGone, Heading: "Your input is not kept any more",
			Advice: "It is kept for 2 hours, for who typed it.",
		})
		return
	}
	p := templates.KeptPage{Page: rd.Page(r, "Continue your edit"), Action: form.Path, Button: Resume}
	for name, values := range form.Values {
		for _, v := range values {
			p.Hidden = append(p.Hidden, templates.Hidden{Name: name, Value: v})
		}
	}
	rd.Render(w, r, http.StatusOK, templates.Kept(p))
}
