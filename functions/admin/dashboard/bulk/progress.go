package bulk

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Each POST makes one step of a change. The page's script sends them one after the other;
// without a script there is a button. The page carries how far the change is, sealed. A
// step that is sent twice changes no key twice.

const (
	stateField  = "progress" // "state" is a field of the filter
	sealLabel   = "bulk"
	sealedFor   = 12 * time.Hour
	maxFailures = 100 // that the page names
)

// progress is a change of many keys and how far it is.
type progress struct {
	Bulk     app.Bulk    `json:"bulk"`
	Reason   string      `json:"reason"`
	Back     string      `json:"back"` // address of the list of keys
	Next     string      `json:"next"`
	Done     int64       `json:"done"`
	Skipped  int64       `json:"skipped"`
	Failed   int64       `json:"failed"`
	Failures []unchanged `json:"failures"` // the first
	Changes  int         `json:"changes"`  // of the log
}

// unchanged is a key that could not be changed.
type unchanged struct{ ID, Name, Why string }

func (p *progress) processed() int64 { return p.Done + p.Skipped + p.Failed }

// result says what the change did, such as "48 changed, 2 unchanged".
func (p *progress) result() string {
	return page.Number(p.Done) + " changed, " + page.Number(p.Skipped) + " unchanged"
}

// next makes the next step of the change whose sealed state the form carries.
func (d *Pages) next(w http.ResponseWriter, r *http.Request, state string) error {
	var p progress
	if !d.Sealer.Open(sealLabel, state, &p) {
		return page.Problem{Status: http.StatusBadRequest, Heading: "This page is too old",
			Advice: "Select the keys again. Those that are changed already are skipped."}
	}
	return d.step(w, r, p)
}

// step makes a step, and shows the progress or, after the last, the list of keys.
func (d *Pages) step(w http.ResponseWriter, r *http.Request, p progress) error {
	set, err := d.Keys.Set(r.Context())
	var s app.Step
	if err == nil {
		s, err = d.Keys.StepBulk(r.Context(), set, p.Bulk, p.Next, app.NewEdit(r.Context(), p.Reason))
	}
	if err != nil {
		problem := d.ProblemOf(fmt.Errorf("change keys: %w", err))
		return d.renderProgress(w, r, problem.Status, p, problem.Heading+". "+problem.Advice, false, false)
	}
	p.add(s)
	if p.Next == "" && p.Failed == 0 && !s.More {
		undo := ""
		if p.Changes == 1 && s.Change > 0 {
			undo = d.UndoOf(app.Action(p.Bulk.Do), int64(s.Change))
		}
		d.Flash(r, page.Clip(p.Bulk.Title(), page.MaxName)+": "+p.result()+".", undo)
		return page.Redirect(w, r, p.Back)
	}
	return d.renderProgress(w, r, http.StatusOK, p, "", p.Next == "", s.More)
}

// add adds what a step did.
func (p *progress) add(s app.Step) {
	p.Next = s.Next
	p.Done, p.Skipped, p.Failed = p.Done+s.Done, p.Skipped+s.Skipped, p.Failed+int64(len(s.Failures))
	if s.Change > 0 {
		p.Changes++
	}
	for _, f := range s.Failures {
		if len(p.Failures) < maxFailures {
			p.Failures = append(p.Failures, unchanged{f.ID, f.Name, app.FailureText(f.Why)})
		}
	}
}

// renderProgress shows how far a change is. Unless it ended, the page continues it by
// itself, if the last step met no problem and there is nothing to know of it.
func (d *Pages) renderProgress(w http.ResponseWriter, r *http.Request, status int, p progress,
	problem string, ended, more bool) error {
	v := templates.BulkPage{
		Page: d.Page(r, p.Bulk.Heading()), Heading: page.Clip(p.Bulk.Title(), page.MaxName),
		Reason:    page.Clip(p.Reason, policy.MaxReasonLen),
		Processed: page.Number(p.processed()), Progress: strconv.FormatInt(p.processed(), 10),
		Of: page.Number(p.Bulk.Total), Total: strconv.FormatInt(max(p.Bulk.Total, 1), 10),
		Done: page.Number(p.Done), Skipped: page.Number(p.Skipped), More: more, Problem: problem,
		Back: p.Back, Audit: d.Path("/audit?action=" + registry.OfKeys),
	}
	if p.Failed > 0 {
		v.Failed = page.Number(p.Failed)
	}
	for _, f := range p.Failures {
		v.Named = append(v.Named, templates.UnchangedKey{Name: page.Clip(f.Name, page.MaxName),
			Address: d.Path("/keys/" + f.ID), Why: page.Clip(f.Why, page.MaxName)})
	}
	if !ended {
		state, err := d.Sealer.Seal(sealLabel, p, sealedFor)
		if err != nil {
			return page.Failed("keep progress", err)
		}
		v.Form = &templates.Form{Action: d.Path("/keys/bulk"), Submit: "Continue",
			Auto:   problem == "" && len(app.NotesOf(r.Context())) == 0,
			Hidden: []templates.Hidden{{Name: stateField, Value: state}}}
	}
	return d.Render(w, r, status, templates.BulkProgress(v))
}
