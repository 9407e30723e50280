package dashboard

import (
	"net/http"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	routing "tidegate/internal/route"
	"tidegate/web/templates"
)

// explainForm is a call to explain as it was typed.
type explainForm struct {
	key, api, stage, method, path, address form.Input
}

func readExplainForm(r *http.Request) explainForm {
	v := r.URL.Query()
	f := explainForm{
		key: form.Typed(v, "key", 100), api: form.Typed(v, "api", routing.MaxAPILen),
		stage:  form.Typed(v, "stage", routing.MaxStageLen),
		method: form.Typed(v, "method", routing.MaxMethodLen), path: form.Typed(v, "path", 2000),
		address: form.Typed(v, "address", form.MaxInput),
	}
	if f.method.Text == "" {
		f.method.Text = http.MethodGet
	}
	if f.path.Text == "" {
		f.path.Text = "/"
	}
	return f
}

// call returns the call that was typed, and notes what is wrong with it.
func (f *explainForm) call() enforce.Call {
	trim := strings.TrimSpace
	c := enforce.Call{Route: routing.Call{API: trim(f.api.Text), Stage: trim(f.stage.Text),
		Method: strings.ToUpper(trim(f.method.Text)),
		Path:   trim(f.path.Text)}}
	if !strings.HasPrefix(c.Route.Path, "/") {
		f.path.Error = "A path begins with a slash, such as /orders/7."
	}
	if text := trim(f.address.Text); text != "" {
		var ok bool
		if c.Address, c.Network, ok = app.ParseAddress(text); !ok {
			f.address.Error = "Enter an address such as 203.0.113.7 or 2001:db8::1."
		}
	}
	return c
}

func (d *dashboard) showExplain(w http.ResponseWriter, r *http.Request) {
	f := readExplainForm(r)
	p := templates.ExplainPage{Page: d.Page(r, "Explain")}
	status := http.StatusOK
	if strings.TrimSpace(f.key.Text) != "" {
		var err error
		if status, err = d.explain(r, &f, &p); err != nil {
			d.FailStore(w, r, "explain", err)
			return
		}
	}
	p.Form = f.view(d.Path("/search"))
	d.Render(w, r, status, templates.Explain(p))
}

// explain answers what was asked, or notes what is wrong with the question.
func (d *dashboard) explain(r *http.Request, f *explainForm, p *templates.ExplainPage) (int, error) {
	call := f.call()
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return 0, err
	}
	k, err := d.explained(r, set, f, p)
	switch {
	case err != nil:
		return 0, err
	case form.CountErrors(f.key, f.path, f.address) > 0:
		return http.StatusUnprocessableEntity, nil
	case k.ID == "":
		return http.StatusOK, nil
	}
	e, err := d.Checker.Explain(r.Context(), set, k, call)
	if err != nil {
		return 0, err
	}
	p.Answer = d.explanation(set, k, e)
	return http.StatusOK, nil
}

// explained returns the key that was typed. When several have such a name, it offers
// them. It refuses a whole secret, which would be in the address.
func (d *dashboard) explained(r *http.Request, set *policy.Set, f *explainForm,
	p *templates.ExplainPage) (policy.Key, error) {
	found, err := d.Keys.ResolveKeys(r.Context(), set, f.key.Text)
	switch {
	case err != nil:
		return policy.Key{}, err
	case found.Secret:
		f.key = form.Input{Error: "You pasted a whole secret. Its id is enough. Consider rotating the key."}
		if len(found.Keys) > 0 {
			f.key.Text = found.Keys[0].ID
		}
	case len(found.Keys) == 0:
		f.key.Error = "No key has this id or name."
	case len(found.Keys) > 1:
		p.Choices = page.KeyChoices(found.Keys, found.More, func(k policy.Key) string {
			query := r.URL.Query()
			query.Set("key", k.ID)
			return page.Address(d.Path("/explain"), query)
		})
	case found.Keys[0].Status == policy.Unreadable:
		f.key.Error = "This key was written by another Tidegate version."
	default:
		return found.Keys[0], nil
	}
	return policy.Key{}, nil
}

func (f *explainForm) view(action string) templates.ExplainForm {
	return templates.ExplainForm{
		Action: action, Hidden: templates.Hidden{Name: "on", Value: "explain"},
		Errors: form.CountErrors(f.key, f.path, f.address),
		Fields: []templates.FormField{
			form.TextField("key", "Key: name, id or secret", "", 100, f.key),
			form.TextField("method", "Method", "GET", routing.MaxMethodLen, f.method),
			form.TextField("path", "Path", "/", 2000, f.path),
			form.TextField("api", "API id", "any", routing.MaxAPILen, f.api),
			form.TextField("stage", "Stage", "any", routing.MaxStageLen, f.stage),
			form.TextField("address", "Client address", "unknown", form.MaxInput, f.address),
		},
	}
}

func (d *dashboard) explanation(set *policy.Set, k policy.Key, e enforce.Explanation) *templates.Explanation {
	c := e.Result
	x := &templates.Explanation{
		Name: page.Clip(k.Name, page.MaxName), Address: d.keyPath(k), Verdict: verdictWords(e),
		Allowed:  c.Allowed,
		Response: responseTo(e),
		Why:      whyWords(app.NewSubject(set, k, decisionNone, c.BannedUntil, c.Now)),
	}
	for _, m := range e.Matches {
		rule := set.Routes[m.Index]
		x.Rules = append(x.Rules, templates.RuleMatch{
			Name: page.Clip(rule.Name, page.MaxName), Pattern: rule.Pattern.String(), Won: m.Won,
			Reason: m.Reason,
		})
	}
	switch {
	case len(e.Matches) == 0:
		x.Cost = "No route rule matches. The call costs 1; key, address and global limits apply."
	default:
		x.Cost = "The call costs " + wording.Cost(c.Cost) + "."
	}
	for _, l := range c.Limits {
		x.Limits = append(x.Limits, templates.AppliedRow{
			Scope: wording.Scope(l.Scope), Mode: string(l.Mode), Window: wording.Window(l.Usage),
		})
	}
	if candidate := e.Effective.Plan.Candidate; len(candidate) > 0 && c.Source == "plan" {
		x.Candidate = "Candidate limits, not enforced: " + policydoc.LimitsText(candidate) + "."
	}
	return x
}

func verdictWords(e enforce.Explanation) string {
	c := e.Result
	switch {
	case e.Refused != "":
		return "refused: " + e.Refused
	case !c.BannedUntil.IsZero():
		return "denied: banned until " + page.Instant(c.BannedUntil).Text
	case e.Exempt:
		return "allowed: exempt address, nothing counted"
	case c.Allowed && c.Cost == 0:
		return "allowed: the call costs nothing"
	case c.Allowed && !c.WouldAllow:
		return "allowed in shadow mode; enforced, it would be denied"
	case c.Allowed:
		return "allowed"
	}
	if wait := c.RetryAfter(); wait > 0 {
		return "denied: unblocks in " + page.Span(wait) + ", at " +
			page.Instant(c.Now.Add(wait)).Text
	}
	return "denied: the call costs " + strconv.FormatInt(c.Cost, 10) + ", more than a limit ever has"
}

var decisionNone limiter.Decision // for a key whose figures do not matter
