package policies

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// planForm creates or edits a plan.
type planForm struct {
	number    int // 0 for a new plan
	title     string
	name      form.Input
	mode      form.Input
	degraded  form.Input
	share     form.Input
	allow     form.Input // routes
	allowSent bool       // a form of another release lacks them, and leaves them as they are
	limits    form.LimitList
	perGroup  form.LimitList
	candidate form.LimitList
}

func newPlanForm(number int) *planForm {
	return &planForm{
		number: number, mode: form.Input{Text: string(policy.Enforce)},
		degraded: form.Input{Text: string(policy.Closed)},
		limits:   form.NewLimitList("limits", nil), perGroup: form.NewLimitList("perGroup", nil),
		candidate: form.NewLimitList("candidate", nil),
	}
}

func (f *planForm) fill(set *policy.Set) bool {
	if f.number == 0 {
		return true
	}
	p, known := set.Numbered(f.number)
	f.title, f.name.Text, f.mode.Text, f.degraded.Text = p.Name, p.Name, policydoc.ModeText(p.Mode),
		string(p.Degraded)
	if f.degraded.Text == "" {
		f.degraded.Text = string(policy.Closed)
	}
	if p.Share > 0 {
		f.share.Text = strconv.Itoa(p.Share)
	}
	f.allow = form.RoutesInput(p.Allow)
	f.limits, f.candidate = form.NewLimitList("limits", p.Limits), form.NewLimitList("candidate", p.Candidate)
	f.perGroup = form.NewLimitList("perGroup", p.PerGroup)
	return known
}

func (f *planForm) read(v url.Values) (err error) {
	f.name, f.mode, f.degraded, f.share = form.Typed(v, "name", policy.MaxNameLen+50),
		form.Typed(v, "mode", form.MaxInput), form.Typed(v, "degraded",
			form.MaxInput), form.Typed(v, "share", form.MaxInput)
	f.title = f.name.Text
	if v.Has("allow") {
		f.allow, f.allowSent = form.TypedRoutes(v, nil), true
	}
	if f.limits, err = form.ReadLimitList(v, "limits"); err != nil {
		return err
	}
	if f.perGroup, err = form.ReadLimitList(v, "perGroup"); err != nil {
		return err
	}
	f.candidate, err = form.ReadLimitList(v, "candidate")
	return err
}

func (f *planForm) lists() []*form.LimitList {
	return []*form.LimitList{&f.limits, &f.perGroup, &f.candidate}
}

func (f *planForm) apply(next *policy.Set) bool {
	f.mode.CheckOption(wording.ModeOptions())
	f.degraded.CheckOption(degradedOptions())
	p := policy.Plan{
		Number: f.number, Name: strings.TrimSpace(f.name.Text), Mode: policy.Mode(f.mode.Text),
		Degraded: policy.Degraded(f.degraded.Text),
		Limits:   f.limits.Limits(), PerGroup: f.perGroup.Limits(), Candidate: f.candidate.Limits(),
		Allow: f.allow.Routes(),
	}
	if p.Degraded == policy.Local {
		p.Share = int(f.share.Whole("Enter the percent of the limits that one environment may admit.", 1,
			100))
	}
	if len(p.Limits) == 0 && f.limits.ErrorCount() == 0 {
		f.limits.Error = "A plan needs at least one limit."
	}
	if f.number == 0 {
		next.Plans = append(next.Plans, p)
		return true
	}
	i := slices.IndexFunc(next.Plans, func(p policy.Plan) bool { return p.Number == f.number })
	if i < 0 {
		return false
	}
	// Tokens and addresses know their plan by its name.
	if next.TokenPlan == next.Plans[i].Name {
		next.TokenPlan = p.Name
	}
	if next.AddressPlan == next.Plans[i].Name {
		next.AddressPlan = p.Name
	}
	if !f.allowSent {
		p.Allow = next.Plans[i].Allow
	}
	next.Plans[i] = p
	return true
}

func (f *planForm) errors() int {
	return f.limits.ErrorCount() + f.perGroup.ErrorCount() + f.candidate.ErrorCount() + form.CountErrors(
		f.name, f.mode, f.degraded, f.share, f.allow,
	)
}

func (f *planForm) setError(e policy.FieldError, next *policy.Set) bool {
	i := len(next.Plans) - 1
	if f.number > 0 {
		i = slices.IndexFunc(next.Plans, func(p policy.Plan) bool { return p.Number == f.number })
	}
	at := fmt.Sprintf("plans[%d].", i)
	fields := map[string]*form.Input{
		at + "name": &f.name, at + "mode": &f.mode, at + "degraded": &f.degraded, at + "share": &f.share,
	}
	if in := fields[e.Field]; in != nil {
		in.Error = form.Sentence(e.Message)
		return true
	}
	if strings.HasPrefix(e.Field, at+"allow") {
		f.allow.Error = form.Sentence(e.Message)
		return true
	}
	return f.limits.SetError(e, at+"limits") || f.perGroup.SetError(e, at+"perGroup") ||
		f.candidate.SetError(e, at+"candidate")
}

func (f *planForm) heading() (text, name string) {
	if f.number == 0 {
		return "Create a plan", ""
	}
	return "Plan", f.title
}

func degradedOptions() []templates.Option {
	return []templates.Option{
		{Value: string(policy.Closed), Text: "closed: calls are denied"},
		{Value: string(policy.Open), Text: "open: known callers pass, uncounted"},
		{Value: string(policy.Local), Text: "local: each environment counts by itself"},
	}
}

func (f *planForm) view(*policy.Set) templates.Form {
	return templates.Form{
		Fields: []templates.FormField{
			form.TextField("name", "Name", "free", policy.MaxNameLen, f.name),
			form.ChoiceField("mode", "Mode", wording.ModeOptions(), f.mode),
			form.ChoiceField("degraded", "If Valkey is unavailable", degradedOptions(), f.degraded),
			form.TextField("share", "Percent of limits (local only)", "10", 3, f.share),
		},
		Lists: []templates.LimitList{
			f.limits.View("Limits", "A call is allowed when every limit admits it."),
			f.perGroup.View("Limits per group", "All keys of a group share these. Leave empty for none."),
			f.candidate.View(
				"Candidate",
				"Counted on every call, never enforced. Leave empty for none.",
			),
		},
		After: []templates.FormField{
			form.RoutesField("One per line. If set, calls to other routes get 401.", f.allow),
		},
	}
}

func (f *planForm) done() string {
	return "Saved the plan " + page.Clip(f.name.Text, page.MaxName) + "."
}

func (d *pages) planEdit(f *planForm) setEdit {
	e := setEdit{form: f, path: "/policies/plans/new"}
	if f.number > 0 {
		e.path, e.plan = "/policies/plans/"+strconv.Itoa(f.number), f.number
		e.effect = func(r *http.Request, set, next *policy.Set) ([]string, error) {
			return d.PreviewPlan(r, set, next, f.number)
		}
	}
	return e
}

// numberIn reads the plan's number from the path; 0 for what is none.
func numberIn(r *http.Request) int {
	n, err := strconv.Atoi(r.PathValue("number"))
	if err != nil || n < 1 {
		return -1
	}
	return n
}

func (d *pages) showNewPlan(w http.ResponseWriter, r *http.Request) {
	d.showSetForm(w, r, d.planEdit(newPlanForm(0)))
}

func (d *pages) createPlan(w http.ResponseWriter, r *http.Request) {
	d.saveSetForm(w, r, d.planEdit(newPlanForm(0)))
}

func (d *pages) showPlan(w http.ResponseWriter, r *http.Request) {
	d.showSetForm(w, r, d.planEdit(newPlanForm(numberIn(r))))
}

func (d *pages) savePlan(w http.ResponseWriter, r *http.Request) {
	d.saveSetForm(w, r, d.planEdit(newPlanForm(numberIn(r))))
}
