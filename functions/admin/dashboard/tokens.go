package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/web/templates"
)

// tokenForm is a new machine token as it was typed.
type tokenForm struct {
	name, scope, days form.Input
	problem           string // what is wrong with the token as a whole
}

func newTokenForm() tokenForm {
	return tokenForm{scope: form.Input{Text: string(token.Read)}, days: form.Input{Text: tokenDays[1]}}
}

// tokenDays are the lives that are offered, in days.
var tokenDays = []string{"7", "90", "366"}

func readTokenForm(values url.Values) tokenForm {
	return tokenForm{
		name: form.Input{Text: values.Get("name")}, scope: form.Input{Text: values.Get("scope")},
		days: form.Input{Text: values.Get("days")},
	}
}

// token returns what was typed. What makes no sense is left for the store to refuse.
func (f *tokenForm) token(by audit.Actor) token.New {
	n := token.New{Name: f.name.Text, Scope: token.Scope(f.scope.Text), By: by}
	if days, err := strconv.ParseUint(f.days.Text, 10, 16); err == nil {
		n.Expires = time.Now().UTC().AddDate(0, 0, int(days))
	}
	return n
}

// setError notes what is wrong, and reports whether that is the typist's.
func (f *tokenForm) setError(err error) bool {
	var invalid *token.InvalidError
	switch {
	case errors.Is(err, token.ErrTooMany):
		f.problem = form.Sentence(err.Error())
	case errors.As(err, &invalid):
		fields := map[string]*form.Input{"name": &f.name, "scope": &f.scope, "expires": &f.days}
		fields[invalid.Field].Error = form.Sentence(invalid.Message)
	default:
		return false
	}
	return true
}

// createToken leads to the page that shows the token's secret, once.
func (d *dashboard) createToken(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	typed := readTokenForm(r.PostForm)
	if form.Resumes(r) {
		d.renderSettings(w, r, http.StatusOK, typed)
		return
	}
	made, secret, err := d.Tokens.Create(r.Context(), typed.token(app.ActorOf(r.Context())))
	if err == nil {
		err = d.HandOver(r, tokenSecret+made.ID, secret.Reveal())
	}
	switch {
	case err != nil && typed.setError(err):
		d.renderSettings(w, r, http.StatusUnprocessableEntity, typed)
	case err != nil:
		d.FailStore(w, r, "create token", err)
	default:
		http.Redirect(w, r, d.Path("/settings?made="+made.ID), http.StatusSeeOther)
	}
}

// tokenSecret begins what a token's secret is handed over as.
const tokenSecret = "token:"

// madeToken shows the token that the address names, if its secret is still to be shown.
func (d *dashboard) madeToken(r *http.Request, tokens []token.Token) *templates.MadeToken {
	for _, t := range tokens {
		if t.ID != r.URL.Query().Get("made") {
			continue
		}
		if secret, taken := d.TakeOver(r, tokenSecret+t.ID); taken {
			return &templates.MadeToken{
				Name: page.Clip(t.Name, page.MaxName), Secret: secret, Expires: page.Instant(t.Expires),
			}
		}
	}
	return nil
}

func (d *dashboard) revokeToken(w http.ResponseWriter, r *http.Request) {
	err := d.Tokens.Revoke(r.Context(), r.PathValue("id"), app.ActorOf(r.Context()))
	flash := "Token revoked."
	if errors.Is(err, token.ErrNotFound) {
		flash, err = "Token already revoked.", nil
	}
	if err != nil {
		d.FailStore(w, r, "revoke token", err)
		return
	}
	d.Flash(r, flash, "")
	http.Redirect(w, r, d.Path("/settings"), http.StatusSeeOther)
}

func (d *dashboard) tokensPanel(tokens []token.Token, entered tokenForm) *templates.TokensPanel {
	p := &templates.TokensPanel{
		Create: d.Path("/settings/tokens"),
		Name:   form.Field(entered.name),
		Scope:  form.Field(entered.scope),
		Scopes: scopeOptions(),
		Days:   form.Field(entered.days),
		Error:  entered.problem,
	}
	for _, days := range tokenDays {
		p.Lives = append(p.Lives, templates.Option{Value: days, Text: days + " days"})
	}
	for _, t := range tokens {
		p.Rows = append(p.Rows, d.tokenRow(t))
	}
	return p
}

func (d *dashboard) tokenRow(t token.Token) templates.TokenRow {
	row := templates.TokenRow{
		ID: t.ID, Name: page.Clip(t.Name, page.MaxName), Scope: scopeWords(t.Scope),
		By:      page.Clip(t.By, page.MaxName),
		Expires: page.Instant(t.Expires), Expired: t.Expired(time.Now()),
		Revoke: d.Path("/settings/tokens/" + t.ID + "/revoke"),
	}
	if !t.Used.IsZero() {
		row.Used = t.Used.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	return row
}

func scopeWords(s token.Scope) string {
	switch s {
	case token.Read:
		return "read"
	case token.Write:
		return "read and write"
	case token.Settle:
		return "settle costs only"
	}
	return "none"
}

func scopeOptions() []templates.Option {
	var all []templates.Option
	for _, s := range []token.Scope{token.Read, token.Settle, token.Write} {
		all = append(all, templates.Option{Value: string(s), Text: scopeWords(s)})
	}
	return all
}
