package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	routing "tidegate/internal/route"
	"tidegate/web/templates"
)

// ruleForm creates or edits a route rule.
type ruleForm struct {
	old    string // name of the rule before; empty for a new one
	name   input
	api    input
	stage  input
	method input
	path   input
	cost   input
	settle input
	most   input // the rule's SettleMax
	mode   input
	perKey limitList
	perIP  limitList
	shared limitList
	lease  input // of shared
}

func newRuleForm(old string) *ruleForm {
	return &ruleForm{
		old: old, cost: input{text: "1"}, mode: input{text: string(policy.Enforce)},
		perKey: newLimitList("perKey", nil), perIP: newLimitList("perIP", nil), shared: newLimitList("shared", nil),
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
	f.name.text, f.api.text, f.stage.text, f.method.text, f.path.text = r.Name, r.Pattern.API, r.Pattern.Stage, r.Pattern.Method, r.Pattern.Path
	f.cost.text, f.mode.text = number(r.Cost), policydoc.ModeText(r.Mode)
	if r.Settle {
		f.settle.text = checked
	}
	if r.SettleMax != 0 {
		f.most.text = number(r.SettleMax)
	}
	f.perKey, f.perIP, f.shared = newLimitList("perKey", r.PerKey), newLimitList("perIP", r.PerIP), newLimitList("shared", r.Shared)
	f.lease.text = leaseText(r.SharedLease)
	return true
}

func (f *ruleForm) read(v url.Values) (err error) {
	for name, in := range map[string]*input{
		"name": &f.name, "api": &f.api, "stage": &f.stage, "method": &f.method, "cost": &f.cost, "settle": &f.settle,
		"settleMax": &f.most, "mode": &f.mode, "lease": &f.lease,
	} {
		*in = typed(v, name, policy.MaxNameLen+50)
	}
	f.path = typed(v, "path", routing.MaxPathLen+50)
	for _, l := range f.lists() {
		if *l, err = readLimitList(v, l.name); err != nil {
			return err
		}
	}
	return nil
}

func (f *ruleForm) lists() []*limitList { return []*limitList{&f.perKey, &f.perIP, &f.shared} }

func (f *ruleForm) apply(next *policy.Set) bool {
	f.mode.oneOf(modeOptions())
	trim := strings.TrimSpace
	r := policy.Route{
		Name:    trim(f.name.text),
		Pattern: routing.Pattern{API: trim(f.api.text), Stage: trim(f.stage.text), Method: strings.ToUpper(trim(f.method.text)), Path: trim(f.path.text)},
		Cost:    f.cost.whole("Type what a call takes; 0 for nothing.", 0, limiter.MaxRequests),
		Settle:  f.settle.text != "", Mode: policy.Mode(f.mode.text),
		SettleMax: f.settleMax(),
		PerKey:    f.perKey.limits(), PerIP: f.perIP.limits(), Shared: f.shared.limits(), SharedLease: f.lease.lease(),
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
	if strings.TrimSpace(f.most.text) == "" {
		return 0
	}
	return f.most.whole("", 1, limiter.MaxRequests)
}

func (f *ruleForm) errors() int {
	n := wrongs(f.name, f.api, f.stage, f.method, f.path, f.cost, f.settle, f.most, f.mode, f.lease)
	for _, l := range f.lists() {
		n += l.errors()
	}
	return n
}

func (f *ruleForm) setError(e policy.FieldError, next *policy.Set) bool {
	i := ruleIndex(next, strings.TrimSpace(f.name.text))
	for j, r := range next.Routes { // of two with one name, the one that was typed
		if r.Name == strings.TrimSpace(f.name.text) && (f.old == "" || j == ruleIndex(next, f.name.text)) {
			i = j
		}
	}
	if f.old == "" {
		i = len(next.Routes) - 1
	}
	at := fmt.Sprintf("routes[%d].", i)
	fields := map[string]*input{
		at + "name": &f.name, at + "pattern.api": &f.api, at + "pattern.stage": &f.stage, at + "pattern.method": &f.method,
		at + "pattern.path": &f.path, at + "pattern": &f.path, at + "cost": &f.cost, at + "mode": &f.mode,
		at + "sharedLease": &f.lease, at + "settle": &f.settle, at + "settleMax": &f.most,
	}
	if in := fields[e.Field]; in != nil {
		in.wrong = sentence(e.Message)
		return true
	}
	if strings.HasSuffix(e.Field, ".pattern") { // this rule is the earlier one of a tie
		f.path.wrong = sentence(e.Message)
		return true
	}
	return f.perKey.setError(e, at+"perKey") || f.perIP.setError(e, at+"perIP") || f.shared.setError(e, at+"shared")
}

func (f *ruleForm) heading() (text, name string) {
	if f.old == "" {
		return "Create a route rule", ""
	}
	return "Route rule", f.old
}

func (f *ruleForm) view(*policy.Set) templates.Form {
	path := text("path", "Path", "/orders/{id}", routing.MaxPathLen, f.path)
	path.Hint = "As in API Gateway: {name} is one segment, {name+} or * at the end one or more. Empty for any."
	method := text("method", "Method", "any", routing.MaxMethodLen, f.method)
	method.Hint = "GET covers HEAD unless a rule names HEAD. Empty or ANY for every method."
	settle := templates.FormField{ID: "settle", Label: "The backend settles the true cost afterwards", Kind: templates.CheckField,
		Field: field(f.settle)}
	most := text("settleMax", "Settlement maximum", "10 times the cost", 15, f.most)
	most.Hint = "The most that limits shared by several callers are charged. The caller's own limits take the rest."
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "rule", Value: f.old}},
		Fields: []templates.FormField{
			text("name", "Name", "search", policy.MaxNameLen, f.name),
			method,
			path,
			text("api", "API id", "any", routing.MaxAPILen, f.api),
			text("stage", "Stage", "any", routing.MaxStageLen, f.stage),
			text("cost", "Cost of a call", "1", 15, f.cost),
			choice("mode", "Mode of the limits below", modeOptions(), f.mode),
			settle,
			most,
		},
		Lists: []templates.LimitList{
			f.perKey.view("Limits of each caller", "On the calls of this rule alone, beside the limits of the caller's plan. Empty for none."),
			f.perIP.view("Limits of each client address", "On the calls of this rule alone. Empty for none."),
			f.shared.view("Limits of all callers together", "On the calls of this rule alone. Empty for none."),
		},
		After: []templates.FormField{leaseField("lease", "Lease of the limits of all callers together", f.lease)},
	}
}

func (f *ruleForm) done() string { return "Saved the route rule " + clip(f.name.text, maxName) + "." }

func ruleEdit(f *ruleForm) setEdit { return setEdit{form: f, path: "/policies/rules"} }

func (d *dashboard) showNewRule(w http.ResponseWriter, r *http.Request) {
	d.showSetForm(w, r, ruleEdit(newRuleForm("")))
}

func (d *dashboard) showRule(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("rule")
	if name == "" {
		d.fail(w, r, problem{status: http.StatusBadRequest})
		return
	}
	d.showSetForm(w, r, ruleEdit(newRuleForm(name)))
}

func (d *dashboard) saveRule(w http.ResponseWriter, r *http.Request) {
	if d.parseForm(w, r) {
		d.saveSetForm(w, r, ruleEdit(newRuleForm(r.PostForm.Get("rule"))))
	}
}

func deleteRuleEdit(name string) setEdit {
	a := &setAction{text: "Delete the route rule", submit: "Delete", said: "The route rule is deleted.", danger: true}
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

func (d *dashboard) showDeleteRule(w http.ResponseWriter, r *http.Request) {
	d.showSetForm(w, r, deleteRuleEdit(r.URL.Query().Get("rule")))
}

func (d *dashboard) deleteRule(w http.ResponseWriter, r *http.Request) {
	d.saveSetForm(w, r, deleteRuleEdit(r.URL.Query().Get("rule")))
}

func costWords(cost int64) string {
	if cost == 0 {
		return "free"
	}
	return strconv.FormatInt(cost, 10)
}
