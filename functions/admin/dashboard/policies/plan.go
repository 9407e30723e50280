package policies

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// planForm creates or edits a plan.
type planForm struct {
	number   int // 0 for a new plan
	row      int // index of the plan in the set that apply changed
	name     form.Input
	limits   form.Limits
	degraded form.Input
	share    form.Input
	opens    form.Input // patterns
}

// planEdit returns the edit of the plan in the path, or of a new plan if the path has
// none.
func (d *pages) planEdit(r *http.Request) (edit, bool) {
	f := &planForm{degraded: form.Input{Text: string(policy.Closed)},
		limits: form.Limits{Most: limits.MaxPlanLimits}}
	if r.PathValue("number") == "" {
		return edit{form: f, path: "/policies/plans/new"}, true
	}
	f.number = planNumber(r)
	return edit{form: f, plan: f.number, path: "/policies/plans/" + strconv.Itoa(f.number) + "/edit"}, true
}

// planNumber returns the number of the plan in the path; -1 if it is invalid.
func planNumber(r *http.Request) int {
	n, err := strconv.Atoi(r.PathValue("number"))
	if err != nil || n < 1 {
		return -1
	}
	return n
}

func planIndex(set *policy.Set, number int) int {
	return slices.IndexFunc(set.Plans, func(p policy.Plan) bool { return p.Number == number })
}

func (f *planForm) fields() form.Table {
	return form.Table{
		{Name: "name", Input: &f.name, Max: policy.MaxNameLen + 50},
		{Name: "limits", Limits: &f.limits},
		{Name: "degraded", Input: &f.degraded, Max: form.MaxInput},
		{Name: "share", Input: &f.share, Max: form.MaxInput},
		{Name: "opens", Input: &f.opens, Max: form.MaxPatternsText},
	}
}

func (f *planForm) fill(set *policy.Set) bool {
	if f.number == 0 {
		return true
	}
	p, exists := set.PlanByNumber(f.number)
	f.name.Text = p.Name
	f.degraded.Text = string(cmp.Or(p.Degraded, policy.Closed))
	if p.Share > 0 {
		f.share.Text = strconv.Itoa(p.Share)
	}
	f.opens = form.PatternsInput(p.Opens)
	f.limits.Set(p.Limits)
	return exists
}

func (f *planForm) apply(next *policy.Set) bool {
	f.degraded.CheckOption(degradedOptions())
	p := policy.Plan{
		Number: f.number, Name: strings.TrimSpace(f.name.Text), Limits: f.limits.List(),
		Degraded: policy.Degraded(f.degraded.Text), Opens: f.opens.Patterns(policy.MaxOpens),
	}
	if p.Degraded == policy.Local {
		p.Share = int(f.share.Whole("Enter the percentage of each limit for one environment.", 1, 100))
	}
	if f.number == 0 {
		f.row = len(next.Plans)
		next.Plans = append(next.Plans, p)
		return true
	}
	if f.row = planIndex(next, f.number); f.row < 0 {
		return false
	}
	old := next.Plans[f.row]
	// The default plans are stored by name, so a new name changes them too.
	if next.TokenPlan == old.Name {
		next.TokenPlan = p.Name
	}
	if next.AddressPlan == old.Name {
		next.AddressPlan = p.Name
	}
	next.Plans[f.row] = p
	return true
}

func (f *planForm) setError(e policy.FieldError) bool {
	return f.fields().SetError(e, fmt.Sprintf("plans[%d].", f.row))
}

func (f *planForm) heading() (text, name string) {
	if f.number == 0 {
		return "Create a plan", ""
	}
	return "Edit plan", f.name.Text
}

func degradedOptions() []templates.Option {
	return []templates.Option{
		{Value: string(policy.Closed), Text: "closed: calls are denied"},
		{Value: string(policy.Open), Text: "open: known callers pass, uncounted"},
		{Value: string(policy.Local), Text: "local: each environment counts for itself"},
	}
}

func (f *planForm) view(*policy.Set) templates.Form {
	return templates.Form{
		Fields: []templates.FormField{
			form.TextField("name", "Name", "free", policy.MaxNameLen, f.name),
			form.ChoiceField("degraded", "If Valkey is unavailable", degradedOptions(), f.degraded),
			form.TextField("share", "Percent per environment (local only)", "10", 3, f.share),
			form.LimitsField("A call passes only if all of these have room. Each caller, unless a limit "+
				"says each group or together.", f.limits),
		},
		Rare: []templates.RareFields{{Summary: "Open routes", Fields: []templates.FormField{
			form.OpensField("One pattern a line. If set, calls to others get 401.", f.opens),
		}}},
	}
}

func (f *planForm) done() string {
	return "Saved the plan " + page.Clip(f.name.Text, page.MaxName) + "."
}

// confirmation is an editForm without fields: the page has only a reason and a button.
type confirmation struct {
	title, submit, message string
	danger                 bool
	// find returns the name of the plan or route and notes for the page; false if there is
	// nothing to change.
	find   func(set *policy.Set) (name string, notes []string, exists bool)
	change func(next *policy.Set)
	name   string   // from find
	notes  []string // from find
}

func (c *confirmation) fill(set *policy.Set) (exists bool) {
	c.name, c.notes, exists = c.find(set)
	return exists
}

func (c *confirmation) fields() form.Table { return nil }

func (c *confirmation) apply(next *policy.Set) bool {
	exists := c.fill(next)
	if exists {
		c.change(next)
	}
	return exists
}

func (c *confirmation) setError(policy.FieldError) bool { return false }

func (c *confirmation) heading() (text, name string) { return c.title, c.name }

func (c *confirmation) view(*policy.Set) templates.Form {
	return templates.Form{Submit: c.submit, Danger: c.danger, Notes: c.notes}
}

func (c *confirmation) done() string { return c.message }

// planDeletion returns the edit that deletes the plan in the path.
func planDeletion(r *http.Request) (edit, bool) {
	number := planNumber(r)
	c := &confirmation{title: "Delete the plan", submit: "Delete", message: "Plan deleted.", danger: true}
	c.find = func(set *policy.Set) (string, []string, bool) {
		p, exists := set.PlanByNumber(number)
		return p.Name, []string{policydoc.PlanText(p) + "."}, exists
	}
	c.change = func(next *policy.Set) {
		i := planIndex(next, number)
		next.Plans = slices.Delete(next.Plans, i, i+1)
	}
	return edit{form: c, plan: number, path: fmt.Sprintf("/policies/plans/%d/delete", number)}, true
}
