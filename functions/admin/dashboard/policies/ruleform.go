package policies

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	routing "tidegate/internal/route"
	"tidegate/web/templates"
)

// ruleForm creates or edits a route rule.
type ruleForm struct {
	old    string // name of the rule before; empty for a new one
	name   form.Input
	api    form.Input
	stage  form.Input
	method form.Input
	path   form.Input
	cost   form.Input
	settle form.Input
	most   form.Input // the rule's SettleMax
	mode   form.Input
	perKey form.LimitList
	perIP  form.LimitList
	shared form.LimitList
	lease  form.Input // of shared
}

func newRuleForm(old string) *ruleForm {
	return &ruleForm{
		old: old, cost: form.Input{Text: "1"}, mode: form.Input{Text: string(policy.Enforce)},
		perKey: form.NewLimitList("perKey", nil), perIP: form.NewLimitList("perIP", nil),
		shared: form.NewLimitList("shared", nil),
	}
}

func ruleIndex(set *policy.Set, name string) int {
	return slices.IndexFunc(set.Routes, func(r policy.Route) bool { return r.Name == name })
}

func (f *ruleForm) fill(set *policy.Set) bool {
	if f.old == "" {
		return true
	}
	i := ruleIndex(set, f.old)
	if i < 0 {
		return false
	}
	r := set.Routes[i]
	f.name.Text, f.api.Text, f.stage.Text, f.method.Text, f.path.Text = r.Name, r.Pattern.API,
		r.Pattern.Stage, r.Pattern.Method, r.Pattern.Path
	f.cost.Text, f.mode.Text = page.Number(r.Cost), policydoc.ModeText(r.Mode)
	if r.Settle {
		f.settle.Text = form.Checked
	}
	if r.SettleMax != 0 {
		f.most.Text = page.Number(r.SettleMax)
	}
	f.perKey, f.perIP, f.shared = form.NewLimitList("perKey", r.PerKey), form.NewLimitList("perIP", r.PerIP),
		form.NewLimitList("shared", r.Shared)
	f.lease.Text = form.LeaseText(r.SharedLease)
	return true
}

func (f *ruleForm) read(v url.Values) (err error) {
	for name, in := range map[string]*form.Input{
		"name": &f.name, "api": &f.api, "stage": &f.stage, "method": &f.method, "cost": &f.cost,
		"settle":    &f.settle,
		"settleMax": &f.most, "mode": &f.mode, "lease": &f.lease,
	} {
		*in = form.Typed(v, name, policy.MaxNameLen+50)
	}
	f.path = form.Typed(v, "path", routing.MaxPathLen+50)
	for _, l := range f.lists() {
		if *l, err = form.ReadLimitList(v, l.Name); err != nil {
			return err
		}
	}
	return nil
}

func (f *ruleForm) lists() []*form.LimitList {
	return []*form.LimitList{&f.perKey, &f.perIP, &f.shared}
}

func (f *ruleForm) apply(next *policy.Set) bool {
	f.mode.CheckOption(wording.ModeOptions())
	trim := strings.TrimSpace
	r := policy.Route{
		Name: trim(f.name.Text),
		Pattern: routing.Pattern{
			API: trim(f.api.Text), Stage: trim(f.stage.Text), Method: strings.ToUpper(trim(f.method.Text)),
			Path: trim(f.path.Text),
		},
		Cost:   f.cost.Whole("Enter the cost of a call, 0 for free.", 0, limiter.MaxRequests),
		Settle: f.settle.Text != "", Mode: policy.Mode(f.mode.Text),
		SettleMax: f.settleMax(),
		PerKey:    f.perKey.Limits(), PerIP: f.perIP.Limits(), Shared: f.shared.Limits(),
		SharedLease: f.lease.Lease(),
	}
	if f.old == "" {
		next.Routes = append(next.Routes, r)
		return true
	}
	i := ruleIndex(next, f.old)
	if i >= 0 {
		next.Routes[i] = r
	}
	return i >= 0
}

// settleMax returns what was typed; 0, for the default, when nothing was.
func (f *ruleForm) settleMax() int64 {
	if strings.TrimSpace(f.most.Text) == "" {
		return 0
	}
	return f.most.Whole("", 1, limiter.MaxRequests)
}

func (f *ruleForm) errors() int {
	n := form.CountErrors(f.name, f.api, f.stage, f.method, f.path, f.cost, f.settle, f.most, f.mode, f.lease)
	for _, l := range f.lists() {
		n += l.ErrorCount()
	}
	return n
}

func (f *ruleForm) setError(e policy.FieldError, next *policy.Set) bool {
	i := ruleIndex(next, strings.TrimSpace(f.name.Text))
	for j, r := range next.Routes { // of two with one name, the one that was typed
		if r.Name == strings.TrimSpace(f.name.Text) && (f.old == "" || j == ruleIndex(next, f.name.Text)) {
			i = j
		}
	}
	if f.old == "" {
		i = len(next.Routes) - 1
	}
	at := fmt.Sprintf("routes[%d].", i)
	fields := map[string]*form.Input{
		at + "name": &f.name, at + "pattern.api": &f.api, at + "pattern.stage": &f.stage,
		at + "pattern.method": &f.method,
		at + "pattern.path":   &f.path, at + "pattern": &f.path, at + "cost": &f.cost, at + "mode": &f.mode,
		at + "sharedLease": &f.lease, at + "settle": &f.settle, at + "settleMax": &f.most,
	}
	if in := fields[e.Field]; in != nil {
		in.Error = form.Sentence(e.Message)
		return true
	}
	if strings.HasSuffix(e.Field, ".pattern") { // this rule is the earlier one of a tie
		f.path.Error = form.Sentence(e.Message)
		return true
	}
	return f.perKey.SetError(e, at+"perKey") || f.perIP.SetError(e, at+"perIP") ||
		f.shared.SetError(e, at+"shared")
}

func (f *ruleForm) heading() (text, name string) {
	if f.old == "" {
		return "Create a route rule", ""
	}
	return "Route rule", f.old
}

func (f *ruleForm) view(*policy.Set) templates.Form {
	path := form.TextField("path", "Path", "/orders/{id}", routing.MaxPathLen, f.path)
	path.Hint = "As in API Gateway: {name} is one segment, {name+} or * at the end one or more. Empty " +
		"for any."
	method := form.TextField("method", "Method", "any", routing.MaxMethodLen, f.method)
	method.Hint = "GET covers HEAD unless a rule names HEAD. Empty or ANY for every method."
	settle := templates.FormField{ID: "settle", Label: "Backend settles the actual cost",
		Kind:  templates.CheckField,
		Field: form.Field(f.settle)}
	most := form.TextField("settleMax", "Settlement maximum", "10 times the cost", 15, f.most)
	most.Hint = "Most that a settlement charges to shared limits. The caller's own limits take the rest."
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "rule", Value: f.old}},
		Fields: []templates.FormField{
			form.TextField("name", "Name", "search", policy.MaxNameLen, f.name),
			method,
			path,
			form.TextField("api", "API id", "any", routing.MaxAPILen, f.api),
			form.TextField("stage", "Stage", "any", routing.MaxStageLen, f.stage),
			form.TextField("cost", "Cost of a call", "1", 15, f.cost),
			form.ChoiceField("mode", "Mode of these limits", wording.ModeOptions(), f.mode),
			settle,
			most,
		},
		Lists: []templates.LimitList{
			f.perKey.View(
				"Limits per caller",
				"For calls of this rule, in addition to the plan's limits.",
			),
			f.perIP.View("Limits per client address", "For calls of this rule."),
			f.shared.View("Global limits", "For calls of this rule."),
		},
		After: []templates.FormField{leaseField("lease", "Lease of the global limits", f.lease)},
	}
}

func (f *ruleForm) done() string {
	return "Saved the route rule " + page.Clip(f.name.Text, page.MaxName) + "."
}

func ruleEdit(f *ruleForm) setEdit { return setEdit{form: f, path: "/policies/rules"} }

func (d *pages) showNewRule(w http.ResponseWriter, r *http.Request) {
	d.showSetForm(w, r, ruleEdit(newRuleForm("")))
}

func (d *pages) showRule(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("rule")
	if name == "" {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	d.showSetForm(w, r, ruleEdit(newRuleForm(name)))
}

func (d *pages) saveRule(w http.ResponseWriter, r *http.Request) {
	if d.ParseForm(w, r) {
		d.saveSetForm(w, r, ruleEdit(newRuleForm(r.PostForm.Get("rule"))))
	}
}

func deleteRuleEdit(name string) setEdit {
	a := &setAction{text: "Delete the route rule", submit: "Delete",
		said: "The route rule is deleted.", danger: true}
	a.find = func(set *policy.Set) (string, []string, bool) {
		i := ruleIndex(set, name)
		if i < 0 {
			return name, nil, false
		}
		return name, []string{policydoc.RouteText(set.Routes[i]) + "."}, true
	}
	a.change = func(next *policy.Set) bool {
		next.Routes = slices.DeleteFunc(next.Routes, func(r policy.Route) bool { return r.Name == name })
		return true
	}
	return setEdit{form: a, path: "/policies/rules/delete?rule=" + url.QueryEscape(name)}
}

func (d *pages) showDeleteRule(w http.ResponseWriter, r *http.Request) {
	d.showSetForm(w, r, deleteRuleEdit(r.URL.Query().Get("rule")))
}

func (d *pages) deleteRule(w http.ResponseWriter, r *http.Request) {
	d.saveSetForm(w, r, deleteRuleEdit(r.URL.Query().Get("rule")))
}
