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
	old       string // saved name of the rule; empty for a new rule
	row       int    // index of the rule in the set that apply changed
	name      form.Input
	api       form.Input
	stage     form.Input
	method    form.Input
	path      form.Input
	cost      form.Input
	settle    form.Input
	settleMax form.Input
	mode      form.Input
	perKey    form.LimitList
	perIP     form.LimitList
	shared    form.LimitList
}

// ruleEdit returns the edit of the rule that the request names, or of a new rule if it
// names none.
func ruleEdit(r *http.Request) (edit, bool) {
	name := r.URL.Query().Get("rule")
	if r.Method == http.MethodPost {
		name = r.PostForm.Get("rule")
	}
	return edit{path: "/policies/rules", form: &ruleForm{
		old: name, cost: form.Input{Text: "1"}, mode: form.Input{Text: string(policy.Enforce)},
		perKey: form.NewLimitList("perKey", nil), perIP: form.NewLimitList("perIP", nil),
		shared: form.NewLimitList("shared", nil),
	}}, true
}

// showRule shows the form of an existing rule.
func (d *pages) showRule(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("rule") == "" {
		return page.Problem{Status: http.StatusBadRequest}
	}
	return d.show(ruleEdit)(w, r)
}

func ruleIndex(set *policy.Set, name string) int {
	return slices.IndexFunc(set.Routes, func(r policy.Route) bool { return r.Name == name })
}

func (f *ruleForm) fields() form.Table {
	const maxLen = policy.MaxNameLen + 50
	return form.Table{
		{Name: "name", Input: &f.name, Max: maxLen},
		{Name: "api", Input: &f.api, Max: maxLen, Path: "pattern.api"},
		{Name: "stage", Input: &f.stage, Max: maxLen, Path: "pattern.stage"},
		{Name: "method", Input: &f.method, Max: maxLen, Path: "pattern.method"},
		{Name: "path", Input: &f.path, Max: routing.MaxPathLen + 50, Path: "pattern.path"},
		{Name: "cost", Input: &f.cost, Max: maxLen},
		{Name: "settle", Input: &f.settle, Max: maxLen},
		{Name: "settleMax", Input: &f.settleMax, Max: maxLen},
		{Name: "mode", Input: &f.mode, Max: maxLen},
	}
}

func (f *ruleForm) lists() []*form.LimitList {
	return []*form.LimitList{&f.perKey, &f.perIP, &f.shared}
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
	f.name.Text, f.api.Text, f.stage.Text = r.Name, r.Pattern.API, r.Pattern.Stage
	f.method.Text, f.path.Text = r.Pattern.Method, r.Pattern.Path
	f.cost.Text, f.mode.Text = page.Number(r.Cost), policydoc.ModeText(r.Mode)
	if r.Settle {
		f.settle.Text = form.Checked
	}
	if r.SettleMax != 0 {
		f.settleMax.Text = page.Number(r.SettleMax)
	}
	f.perKey = form.NewLimitList("perKey", r.PerKey)
	f.perIP = form.NewLimitList("perIP", r.PerIP)
	f.shared = form.NewLimitList("shared", r.Shared)
	return true
}

func (f *ruleForm) read(v url.Values) error { return readFields(v, f.fields(), f.lists()) }

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
		PerKey: f.perKey.Limits(), PerIP: f.perIP.Limits(), Shared: f.shared.Limits(),
	}
	if trim(f.settleMax.Text) != "" {
		r.SettleMax = f.settleMax.Whole("", 1, limiter.MaxRequests)
	}
	if f.old == "" {
		f.row = len(next.Routes)
		next.Routes = append(next.Routes, r)
		return true
	}
	if f.row = ruleIndex(next, f.old); f.row < 0 {
		return false
	}
	next.Routes[f.row] = r
	return true
}

func (f *ruleForm) setError(e policy.FieldError) bool {
	// An error of equal patterns is at the first of both rules, which may not be this
	// one.
	if strings.HasSuffix(e.Field, ".pattern") {
		f.path.Error = form.Sentence(e.Message)
		return true
	}
	return setFieldError(e, fmt.Sprintf("routes[%d].", f.row), f.fields(), f.lists())
}

func (f *ruleForm) heading() (text, name string) {
	if f.old == "" {
		return "Create a route rule", ""
	}
	return "Route rule", f.old
}

func (f *ruleForm) view(*policy.Set) templates.Form {
	path := form.TextField("path", "Path", "/orders/{id}", routing.MaxPathLen, f.path)
	path.Hint = "As in API Gateway: {name} matches one segment, {name+} or * at the end one or more. " +
		"Empty for any path."
	method := form.TextField("method", "Method", "any", routing.MaxMethodLen, f.method)
	method.Hint = "GET covers HEAD unless a rule names HEAD. Empty or ANY for every method."
	settle := templates.FormField{ID: "settle", Label: "Backend settles the actual cost",
		Kind: templates.CheckField, Field: form.Field(f.settle)}
	settleMax := form.TextField("settleMax", "Settlement maximum", "10 times the cost", 15, f.settleMax)
	settleMax.Hint = "The most that a settlement charges shared limits. The caller's own limits are " +
		"charged the rest."
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "rule", Value: f.old}},
		Fields: []templates.FormField{
			form.TextField("name", "Name", "search", policy.MaxNameLen, f.name),
			method,
			path,
			form.TextField("cost", "Cost of a call", "1", 15, f.cost),
			form.ChoiceField("mode", "Mode of these limits", wording.ModeOptions(), f.mode),
		},
		Lists: []templates.LimitList{
			f.perKey.View("Limits per caller", "For calls of this rule, in addition to the plan's limits."),
			form.Rare(f.perIP.View("Limits per client address", "For calls of this rule.")),
			form.Rare(f.shared.View("Global limits", "For calls of this rule.")),
		},
		Rare: []templates.RareFields{
			{Summary: "Settlement", Fields: []templates.FormField{settle, settleMax}},
			{Summary: "One API or stage", Fields: []templates.FormField{
				form.TextField("api", "API id", "any", routing.MaxAPILen, f.api),
				form.TextField("stage", "Stage", "any", routing.MaxStageLen, f.stage),
			}},
		},
	}
}

func (f *ruleForm) done() string {
	return "Saved the route rule " + page.Clip(f.name.Text, page.MaxName) + "."
}

// ruleDeletion returns the edit that deletes the rule in the address.
func ruleDeletion(r *http.Request) (edit, bool) {
	name := r.URL.Query().Get("rule")
	c := &confirmation{title: "Delete the route rule", submit: "Delete", danger: true,
		message: "Route rule deleted.",
		find: func(set *policy.Set) (string, []string, bool) {
			i := ruleIndex(set, name)
			if i < 0 {
				return name, nil, false
			}
			return name, []string{policydoc.RouteText(set.Routes[i]) + "."}, true
		},
		change: func(next *policy.Set) {
			i := ruleIndex(next, name)
			next.Routes = slices.Delete(next.Routes, i, i+1)
		},
	}
	return edit{form: c, path: "/policies/rules/delete?rule=" + url.QueryEscape(name)}, true
}
