package command

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Each POST makes one step of a command. The page's script sends them one after the other;
// without a script there is a button. The page carries how far the command is, sealed. A
// step that is sent twice changes no key twice.

// progress is a command to many keys and how far it is.
type progress struct {
	Do       string         `json:"do"`
	Change   []byte         `json:"change"` // its fields
	IDs      []string       `json:"ids"`
	Of       string         `json:"of"`
	Filter   string         `json:"filter"`
	Place    string         `json:"place"`
	Plan     int            `json:"plan"` // number of the plan that it gives
	Total    int64          `json:"total"`
	Next     string         `json:"next"`
	Done     int64          `json:"done"`
	Skipped  int64          `json:"skipped"`
	Failed   int64          `json:"failed"`
	Failures []UnchangedKey `json:"failures"` // the first
	Changes  int            `json:"changes"`  // of the log
}

func (p *progress) processed() int64 { return p.Done + p.Skipped + p.Failed }

// next makes the next step of the command whose sealed state a form carries.
func (p *Pages) next(w http.ResponseWriter, r *http.Request, state string) error {
	var so progress
	if !p.Sealer.Open(sealLabel, state, &so, time.Now()) {
		return page.Problem{Status: http.StatusBadRequest, Heading: "This page is too old",
			Advice: "Select the keys again. Those that are changed already are skipped."}
	}
	e, err := manyOf(url.Values{"do": {so.Do}, "id": so.IDs, ofField: {so.Of}, filterField: {so.Filter},
		placeField: {so.Place}})
	if err != nil {
		return err
	}
	c := e.fresh().(*Many) //nolint:forcetypeassert // see manyOf
	c.total, c.after = so.Total, so.Next
	if move, ok := c.change.(*MovePlan); ok {
		move.number = so.Plan
	}
	if err = readBody(c.change, so.Change); err == nil {
		err = c.load(r.Context(), &p.Services)
	}
	if err == nil {
		_, err = act(r.Context(), &p.Services, c, func([]string) bool { return true })
	}
	if err != nil {
		problem := p.ProblemOf(fmt.Errorf("change keys: %w", err))
		return p.renderProgress(w, r, problem.Status, c, so, problem.Heading+". "+problem.Advice)
	}
	return p.stepped(w, r, c, so)
}

// begun shows the progress after the first step.
func (p *Pages) begun(w http.ResponseWriter, r *http.Request, c *Many) error {
	fields, err := writeBody(c.change)
	if err != nil {
		return page.Failed("keep progress", err)
	}
	so := progress{Do: c.name, Change: fields, IDs: c.ids, Of: c.page.of, Filter: c.page.filter.Encode(),
		Place: c.page.place.Encode(), Total: c.total}
	if move, ok := c.change.(*MovePlan); ok {
		so.Plan = move.number
	}
	return p.stepped(w, r, c, so)
}

// stepped adds a step and shows the progress or, after the last, the list of keys.
func (p *Pages) stepped(w http.ResponseWriter, r *http.Request, c *Many, so progress) error {
	s := c.step
	so.Next = s.Next
	so.Done, so.Skipped, so.Failed = so.Done+s.Done, so.Skipped+s.Skipped, so.Failed+int64(len(s.Failures))
	if s.Change > 0 {
		so.Changes++
	}
	for _, f := range s.Failures {
		if len(so.Failures) < maxFailures {
			so.Failures = append(so.Failures, UnchangedKey{f.ID, f.Name, app.FailureText(f.Why)})
		}
	}
	if so.Next != "" || so.Failed > 0 || s.More {
		return p.renderProgress(w, r, http.StatusOK, c, so, "")
	}
	undo := ""
	if so.Changes == 1 && s.Change > 0 {
		change, err := c.change.change(c.set)
		if err == nil {
			undo = p.Changes.UndoOf(change.Action, int64(s.Change))
		}
	}
	p.Flash(r, page.Clip(c.whole(), page.MaxName)+": "+page.Number(so.Done)+" changed, "+
		page.Number(so.Skipped)+" unchanged.", undo)
	return page.Redirect(w, r, p.Path(c.page.address(nil, false)))
}

// renderProgress shows how far a command is. Unless it ended, the page continues it by
// itself, if the last step met no problem and there is nothing to know of it.
func (p *Pages) renderProgress(w http.ResponseWriter, r *http.Request, status int, c *Many, so progress,
	problem string) error {
	v := templates.BulkPage{
		Page: p.Page(r, c.heading()), Heading: page.Clip(c.whole(), page.MaxName),
		Reason:    page.Clip(reasonOf(c), policy.MaxReasonLen),
		Processed: page.Number(so.processed()), Progress: strconv.FormatInt(so.processed(), 10),
		Of: page.Number(so.Total), Total: strconv.FormatInt(max(so.Total, 1), 10),
		Done: page.Number(so.Done), Skipped: page.Number(so.Skipped), More: c.step.More, Problem: problem,
		Back: p.Path(c.page.address(nil, false)), Audit: p.Path("/audit?what=" + registry.OfKeys),
	}
	if so.Failed > 0 {
		v.Failed = page.Number(so.Failed)
	}
	for _, f := range so.Failures {
		v.Named = append(v.Named, templates.UnchangedKey{Name: page.Clip(f.Name, page.MaxName),
			Address: p.Path("/keys/" + f.ID), Why: page.Clip(f.Why, page.MaxName)})
	}
	if so.Next != "" || problem != "" {
		state, err := p.Sealer.Seal(sealLabel, so, time.Now().Add(sealedFor))
		if err != nil {
			return page.Failed("keep progress", err)
		}
		v.Form = &templates.Form{Action: p.Path("/keys/bulk"), Submit: "Continue",
			Auto:   problem == "" && len(app.NotesOf(r.Context())) == 0,
			Hidden: []templates.Hidden{{Name: stateField, Value: state}}}
	}
	return p.Render(w, r, status, templates.BulkProgress(v))
}
