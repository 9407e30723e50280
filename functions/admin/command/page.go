package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Pages shows the forms of commands and takes what browsers send.
type Pages struct {
	*page.Renderer
	Services
}

// Routes returns the pages of all commands.
func (p *Pages) Routes() []auth.Route {
	var all []auth.Route
	for _, e := range commands() {
		if e.Form == "" {
			continue
		}
		if e.Heading != "" {
			all = append(all, auth.Route{Pattern: "GET " + e.Form, Role: auth.Editor, Handle: p.show(e)})
		}
		to := e.Form
		if e.To != "" {
			to = e.To
		}
		all = append(all, auth.Route{Pattern: "POST " + to, Role: auth.Editor, Handle: p.send(e),
			Resumes: e.Heading != "", Deadline: e.Deadline,
			MaxBody: 3 * e.MaxBody}) // a form encodes a byte in three
	}
	return append(all, p.manyRoutes()...)
}

// sheet is the page of a command.
type sheet struct {
	entry
	command  Command
	version  int64 // that the form shows
	state    formState
	seen     string // digest of the values whose preview the page showed
	warnings []string
	preview  *templates.Preview
	conflict *templates.Conflict
}

// Names of hidden fields and buttons.
const (
	versionField  = "version"
	acceptedField = "accepted" // digest of the accepted warnings, so that it accepts no others
	seenField     = "seen"
	actionField   = "action"
	previewAction = "preview"
)

// open loads the command of a request.
func (p *Pages) open(r *http.Request, e entry) (*sheet, error) {
	c := e.fresh()
	err := bind(reflect.ValueOf(c).Elem(), r)
	if err == nil {
		err = c.load(r.Context(), &p.Services)
	}
	if err == nil {
		err = c.ready()
	}
	return &sheet{
		entry:   e,
		command: c,
		state:   formState{url.Values{}, map[string]string{}, ""},
	}, p.problem(err)
}

// bind sets the parts of a command that the address of a request has.
func bind(v reflect.Value, r *http.Request) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := f.Tag.Get("path")
		query := cmp.Or(f.Tag.Get("query"), f.Tag.Get("page"))
		given := r.URL.Query().Get(query)
		switch {
		case !f.IsExported():
		case name != "" && v.Field(i).Kind() == reflect.String:
			v.Field(i).SetString(r.PathValue(name))
		case name != "":
			if _, err := fmt.Sscan(r.PathValue(name), v.Field(i).Addr().Interface()); err != nil {
				return page.Problem{Status: http.StatusNotFound}
			}
		case f.Anonymous && v.Field(i).Kind() == reflect.Struct:
			if err := bind(v.Field(i), r); err != nil {
				return err
			}
		case query == "" || given == "" || f.Tag.Get("label") != "":
		case v.Field(i).Kind() == reflect.String:
			v.Field(i).SetString(given)
		case v.Field(i).Kind() == reflect.Int:
			if _, err := fmt.Sscan(given, v.Field(i).Addr().Interface()); err != nil {
				return page.Problem{Status: http.StatusNotFound}
			}
		}
	}
	return nil
}

// problem returns the error that a page shows.
func (p *Pages) problem(err error) error {
	refusal, refused := errors.AsType[*Refusal](err)
	problem, answered := errors.AsType[*rest.Problem](err)
	_, known := errors.AsType[page.Problem](err)
	switch {
	case refused:
		shown := page.Problem{Status: refusal.Status, Heading: refusal.Heading, Advice: refusal.Advice}
		if refusal.Path != "" {
			shown.Action = templates.Choice{Text: "Go back", Address: p.Path(refusal.Path)}
		}
		return shown
	case answered:
		return page.Problem{Status: problem.Status, Advice: problem.Detail}
	case known, err == nil:
		return err
	}
	return page.Failed("change", err)
}

func (p *Pages) show(e entry) auth.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		s, err := p.open(r, e)
		if err != nil {
			return err
		}
		if f, ok := s.command.(filler); ok {
			if err := f.fill(r.Context(), &p.Services); err != nil {
				return p.problem(err)
			}
		}
		for _, f := range fieldsOf(s.command) {
			f.write(s.state.values)
			if given := r.URL.Query(); given.Has(f.name) {
				s.state.values.Set(f.name, given.Get(f.name))
			}
		}
		s.version = s.command.subject().Version
		if err := p.warn(r, s); err != nil {
			return err
		}
		if onlyReason(s.command) && s.Review {
			return p.showPreview(w, r, s)
		}
		return p.render(w, r, http.StatusOK, s)
	}
}

// onlyReason reports whether a command has no field but the reason.
func onlyReason(c Command) bool {
	for _, f := range fieldsOf(c) {
		if f.name != "reason" {
			return false
		}
	}
	return true
}

// warn adds the preview that a form begins with, and the warnings if they do not depend on
// what is typed.
func (p *Pages) warn(r *http.Request, s *sheet) (err error) {
	if s.Shows {
		if err := p.addPreview(r, s); err != nil {
			return p.problem(err)
		}
	}
	if s.Preview || s.Review || s.warnings != nil {
		return nil
	}
	if c, ok := s.command.(warner); ok {
		s.warnings, err = c.warnings(r.Context(), &p.Services)
	}
	if _, invalid := errors.AsType[*policy.InvalidError](err); invalid {
		return nil // the save says what is wrong
	}
	return p.problem(err)
}
