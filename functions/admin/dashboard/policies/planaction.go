package policies

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// setAction is a change of the Set that has nothing to type but a reason.
type setAction struct {
	text, said, submit string
	name               string
	advice             []string
	change             func(next *policy.Set) bool
	find               func(set *policy.Set) (name string, advice []string, exists bool)
	danger             bool
}

func (a *setAction) fill(set *policy.Set) (exists bool) {
	a.name, a.advice, exists = a.find(set)
	return exists
}

func (a *setAction) read(url.Values) error { return nil }

func (a *setAction) lists() []*form.LimitList { return nil }

func (a *setAction) errors() int { return 0 }

func (a *setAction) setError(policy.FieldError, *policy.Set) bool { return false }

func (a *setAction) heading() (text, name string) { return a.text, a.name }

func (a *setAction) done() string { return a.said }

func (a *setAction) apply(next *policy.Set) bool {
	exists := a.fill(next)
	return exists && a.change(next)
}

func (a *setAction) view(*policy.Set) templates.Form {
	return templates.Form{Submit: a.submit, Danger: a.danger, Notes: a.advice}
}

// planAction finds what to do with a plan in the path.
func (d *pages) planAction(r *http.Request) (setEdit, bool) {
	number, what := numberIn(r), r.PathValue("action")
	find := func(set *policy.Set) (string, []string, bool) {
		p, known := set.Numbered(number)
		switch what {
		case "promote", "drop":
			return p.Name, []string{
				"In force: " + policydoc.LimitsText(p.Limits) + ".",
				"Candidate: " + policydoc.LimitsText(p.Candidate) + ".",
			}, known && len(p.Candidate) > 0
		}
		return p.Name, []string{policydoc.LimitsText(p.Limits) + "."}, known
	}
	edit := func(change func(*policy.Plan)) func(*policy.Set) bool {
		return func(next *policy.Set) bool {
			i := slices.IndexFunc(next.Plans, func(p policy.Plan) bool { return p.Number == number })
			change(&next.Plans[i])
			return true
		}
	}
	var a *setAction
	switch what {
	case "promote":
		a = &setAction{text: "Promote the candidate of", submit: "Promote",
			said:   "The candidate is in force.",
			change: edit(func(p *policy.Plan) { p.Limits, p.Candidate = p.Candidate, []limiter.Limit(nil) })}
	case "drop":
		a = &setAction{text: "Drop the candidate of", submit: "Drop", said: "The candidate is dropped.",
			change: edit(func(p *policy.Plan) { p.Candidate = nil })}
	case "delete":
		a = &setAction{text: "Delete the plan", submit: "Delete", said: "The plan is deleted.", danger: true,
			change: func(next *policy.Set) bool {
				next.Plans = slices.DeleteFunc(next.Plans, func(p policy.Plan) bool {
					return p.Number == number
				})
				return true
			}}
	default:
		return setEdit{}, false
	}
	a.find = find
	return setEdit{form: a, plan: number, path: fmt.Sprintf("/policies/plans/%d/%s", number, what)}, true
}

func (d *pages) showPlanAction(w http.ResponseWriter, r *http.Request) {
	if e, known := d.planAction(r); known {
		d.showSetForm(w, r, e)
		return
	}
	d.Fail(w, r, page.Problem{Status: http.StatusNotFound})
}

func (d *pages) doPlanAction(w http.ResponseWriter, r *http.Request) {
	if e, known := d.planAction(r); known {
		d.saveSetForm(w, r, e)
		return
	}
	d.Fail(w, r, page.Problem{Status: http.StatusNotFound})
}
