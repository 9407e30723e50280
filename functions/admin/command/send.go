package command

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

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
		status, s.state.other = http.StatusConflict, "Nothing changed: this is not the change that you "+
			"reviewed. "+
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
		f.Hidden = append(f.Hidden,
			templates.Hidden{Name: versionField, Value: strconv.FormatInt(s.version, 10)})
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
