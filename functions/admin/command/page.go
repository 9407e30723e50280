package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
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
			Resumes: e.Heading != "", MaxBody: 3 * e.MaxBody, Deadline: e.Deadline}) // a form encodes a byte in three
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
	return &sheet{entry: e, command: c, state: formState{url.Values{}, map[string]string{}, ""}}, p.problem(err)
}

// bind sets the parts of a command that the address of a request has.
func bind(v reflect.Value, r *http.Request) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := f.Tag.Get("path")
		switch {
		case !f.IsExported():
		case name != "" && v.Field(i).Kind() == reflect.String:
			v.Field(i).SetString(r.PathValue(name))
		case name != "":
			if _, err := fmt.Sscan(r.PathValue(name), v.Field(i).Addr().Interface()); err != nil {
				return page.Problem{Status: http.StatusNotFound}
			}
		case f.Tag.Get("query") != "" && f.Tag.Get("label") == "" && v.Field(i).Kind() == reflect.String:
			v.Field(i).SetString(r.URL.Query().Get(f.Tag.Get("query")))
		case f.Anonymous && v.Field(i).Kind() == reflect.Struct:
			if err := bind(v.Field(i), r); err != nil {
				return err
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

func (p *Pages) send(e entry) auth.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := page.ParseForm(r); err != nil {
			return err
		}
		s, err := p.open(r, e)
		if err != nil {
			return err
		}
		s.state.values, s.seen = r.PostForm, r.PostForm.Get(seenField)
		if s.version, err = versionOf(r.PostForm, s.command); err != nil {
			return err
		}
		if d, ok := s.command.(interface{ reason() string }); ok && !r.PostForm.Has("reason") {
			r.PostForm.Set("reason", d.reason())
		}
		s.state.read(s.command)
		action := r.PostForm.Get(actionField)
		if action == page.Resume {
			return p.render(w, r, http.StatusOK, s)
		}
		if action == previewAction || e.Review && s.seen != s.digest() && !onlyReason(s.command) {
			return p.showPreview(w, r, s)
		}
		return p.save(w, r, s)
	}
}

// versionOf returns the version that a form shows.
func versionOf(v url.Values, c Command) (int64, error) {
	if c.subject().Version == 0 {
		return 0, nil
	}
	version, err := strconv.ParseInt(v.Get(versionField), 10, 64)
	if err != nil || version < 0 {
		return 0, page.Problem{Status: http.StatusBadRequest}
	}
	return version, nil
}

// digest returns a text that differs for another command.
func (s *sheet) digest() string {
	var texts []string
	for _, f := range fieldsOf(s.command) {
		if f.name != "reason" {
			texts = append(texts, s.state.values.Get(f.name))
		}
	}
	return form.Digest(texts)
}

// showPreview shows what the command would change. It needs no reason.
func (p *Pages) showPreview(w http.ResponseWriter, r *http.Request, s *sheet) error {
	if strings.TrimSpace(reasonOf(s.command)) == "" {
		delete(s.state.errors, "reason")
	}
	if len(s.state.errors) > 0 {
		return p.render(w, r, http.StatusUnprocessableEntity, s)
	}
	if err := p.addPreview(r, s); err != nil {
		return p.refused(w, r, s, err)
	}
	status := http.StatusOK
	if s.seen != "" && s.seen != s.digest() && r.PostForm.Get(actionField) != previewAction {
		status, s.state.other = http.StatusConflict, "Nothing changed: this is not the change that you reviewed. "+
			"Review it below, then confirm."
	}
	s.seen = s.digest()
	return p.render(w, r, status, s)
}

func (p *Pages) addPreview(r *http.Request, s *sheet) (err error) {
	c, ok := s.command.(previewer)
	if !ok {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if s.preview, err = c.preview(r.Context(), &p.Services); err != nil {
		return inFields(s.command, err)
	}
	if c, ok := s.command.(warner); ok {
		s.warnings, err = c.warnings(r.Context(), &p.Services)
	}
	return inFields(s.command, err)
}

// save makes the change, unless a field is wrong or another change came first.
func (p *Pages) save(w http.ResponseWriter, r *http.Request, s *sheet) error {
	if len(s.state.errors) > 0 {
		return p.again(w, r, s, http.StatusUnprocessableEntity)
	}
	if m, ok := s.command.(*Many); ok {
		if s.state.other = m.recounted(); s.state.other != "" {
			return p.again(w, r, s, http.StatusConflict)
		}
	}
	s.command.base().at = s.version
	if current := s.command.subject().Version; s.version != current {
		c, ok := s.command.(follower)
		if !ok {
			return p.refused(w, r, s, policy.ErrConflict)
		}
		switch follows, err := c.follows(r.Context(), &p.Services, s.version); {
		case err != nil:
			return p.problem(err)
		case !follows:
			return p.refused(w, r, s, policy.ErrConflict)
		}
		s.command.base().at = current
	}
	result, err := act(r.Context(), &p.Services, s.command, func(warnings []string) bool {
		return r.PostForm.Get(acceptedField) == form.Digest(warnings)
	})
	if err != nil {
		return p.refused(w, r, s, err)
	}
	if m, ok := s.command.(*Many); ok {
		return p.begun(w, r, m)
	}
	return p.done(w, r, s, result)
}

// again shows the form again, with the preview if it had one.
func (p *Pages) again(w http.ResponseWriter, r *http.Request, s *sheet, status int) error {
	if (s.Review || s.Shows) && s.preview == nil && (onlyReason(s.command) || s.seen == s.digest()) {
		if err := p.addPreview(r, s); err != nil {
			s.preview = nil // what is wrong with the fields stands at them
		}
	}
	return p.render(w, r, status, s)
}

// refused shows the form again with the reason why the change was not made.
func (p *Pages) refused(w http.ResponseWriter, r *http.Request, s *sheet, err error) error {
	invalid, bad := errors.AsType[*policy.InvalidError](err)
	unconfirmed, warned := errors.AsType[*app.UnconfirmedError](err)
	switch {
	case bad:
		s.state.refuse(s.command, invalid)
	case warned:
		s.warnings = unconfirmed.Warnings
	case errors.Is(err, policy.ErrConflict) && s.command.subject().Version > 0:
		s.conflict = p.conflictOf(r, s)
		s.version = s.command.subject().Version
		return p.render(w, r, http.StatusConflict, s)
	default:
		file, unread := errors.AsType[*policydoc.InvalidError](err)
		if !unread {
			return p.problem(err)
		}
		s.state.other = page.Clip(form.Sentence(file.Error()), maxProblem)
	}
	return p.again(w, r, s, http.StatusUnprocessableEntity)
}

const maxProblem = 1000 // characters of what is wrong with a file

// conflictOf compares a command with the changes that came first.
func (p *Pages) conflictOf(r *http.Request, s *sheet) *templates.Conflict {
	subject := s.command.subject()
	c := &templates.Conflict{Keep: p.Path(subject.Path), Saved: page.Instant(subject.Saved)}
	for i, e := range p.Changes.History(r.Context(), subject.Record, subject.Version) {
		if e.Number <= uint64(s.version) && i > 0 {
			break
		}
		if i == 0 {
			c.By, c.Saved = page.Clip(e.By.Name, page.MaxName), page.Instant(e.Time)
		}
		c.Theirs = append(c.Theirs, changeTexts(e.Changes)...)
	}
	if err := p.addPreview(r, s); err == nil {
		c.Yours = changeTexts(s.preview.Changes)
	}
	if s.preview, s.warnings = nil, nil; len(c.Yours) == 0 {
		c.Yours = []string{strings.ToLower(s.Submit)}
	}
	return c
}

func changeTexts(list []templates.Change) []string {
	var texts []string
	for _, c := range list {
		texts = append(texts, c.What+": "+c.Before+" → "+c.After)
	}
	return texts
}

// done redirects to the page that shows what was changed.
func (p *Pages) done(w http.ResponseWriter, r *http.Request, s *sheet, result Result) error {
	text, undo := s.Done, p.Changes.UndoOf(result.Undo, result.Version)
	if result.Done != "" {
		text = result.Done
	}
	if result.Same && len(app.NotesOf(r.Context())) == 0 {
		text, undo = cmp.Or(result.Done, "Nothing changed. Nothing was saved."), ""
	}
	if result.Secret != "" {
		text, undo = "", ""
		if err := p.StoreSecret(r, result.SecretOf, result.Secret); err != nil {
			return page.Failed("hand over secret", err)
		}
	}
	if text != "" || len(app.NotesOf(r.Context())) > 0 {
		p.Flash(r, text, undo)
	}
	path := result.Path
	if path == "" {
		path = s.command.subject().Path
	}
	if page.IsRefresh(r) { // a dialog: the page around it goes on
		w.Header().Set("HX-Redirect", p.Path(path))
		w.WriteHeader(http.StatusOK)
		return nil
	}
	return page.Redirect(w, r, p.Path(path))
}

func (p *Pages) render(w http.ResponseWriter, r *http.Request, status int, s *sheet) error {
	subject := s.command.subject()
	f := s.state.show(s.command)
	to := s.Form
	if s.To != "" {
		to = s.To
	}
	if t, ok := s.command.(interface{ heading() string }); ok {
		if s.Heading = t.heading(); s.Submit == "" {
			s.Submit = s.Heading
		}
	}
	f.Action, f.Danger, f.Submit = p.Path(pathOf(to, r)), s.Danger, s.Submit
	if q, ok := s.command.(interface{ query() url.Values }); ok {
		f.Action = page.Address(f.Action, q.query())
	}
	f.Cancel = templates.Choice{Text: "Cancel", Address: p.Path(subject.Path)}
	if subject.Version > 0 {
		f.Hidden = append(f.Hidden, templates.Hidden{Name: versionField, Value: strconv.FormatInt(s.version, 10)})
	}
	if len(s.warnings) > 0 {
		f.Warning = &templates.Warn{Texts: s.warnings,
			Accepted: templates.Hidden{Name: acceptedField, Value: form.Digest(s.warnings)}}
	}
	if s.Review {
		_, many := s.command.(*Many)
		f.Review = s.preview == nil || !many && len(s.preview.Changes) == 0
		f.Hidden = append(f.Hidden, templates.Hidden{Name: seenField, Value: s.seen})
	} else {
		f.Preview = s.Preview
	}
	if m, ok := s.command.(*Many); ok {
		f.Hidden = append(f.Hidden, hiddenOf(m.carried())...)
		if s.preview != nil {
			f.After = append(f.After, m.ask(s.state.errors["confirm"])...)
		}
	}
	var lead []string
	if s.Lead != "" {
		lead = append(lead, s.Lead)
	}
	if l, ok := s.command.(leader); ok {
		more, err := l.lead(r.Context(), &p.Services)
		if err != nil {
			return p.problem(err)
		}
		lead = append(lead, more...)
	}
	name := page.Clip(subject.Name, page.MaxName)
	trail := make([]templates.Choice, len(subject.Trail))
	for i, t := range subject.Trail {
		trail[i] = templates.Choice{Text: page.Clip(t.Text, page.MaxName), Address: p.Path(t.Address)}
	}
	return p.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page: p.Page(r, strings.TrimSpace(s.Heading+" "+name)), Trail: trail, Heading: s.Heading, Name: name,
		Lead: lead, Conflict: s.conflict, Preview: s.preview, Form: &f,
	}))
}

// hiddenOf returns hidden fields with the values, in a fixed order.
func hiddenOf(values url.Values) []templates.Hidden {
	var hidden []templates.Hidden
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[name] {
			if value != "" {
				hidden = append(hidden, templates.Hidden{Name: name, Value: value})
			}
		}
	}
	return hidden
}

// pathOf returns the path of a pattern for a request.
func pathOf(pattern string, r *http.Request) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			parts[i] = url.PathEscape(r.PathValue(strings.TrimSuffix(name, "}")))
		}
	}
	return strings.Join(parts, "/")
}
