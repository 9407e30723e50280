package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/groups"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

const (
	recentEntries = 6   // audit entries on a key's page
	maxFact       = 600 // characters of a fact
)

// key returns the key whose id is in the request's path.
func (d *dashboard) key(r *http.Request) (policy.Key, error) {
	id := r.PathValue("id")
	if !app.IsID(id) {
		return policy.Key{}, policy.ErrNotFound
	}
	return d.Keys.Get(r.Context(), id)
}

// keyAndSet returns the key of the request and the policy set. An unreadable key has only
// an id, a name and a status.
func (d *dashboard) keyAndSet(r *http.Request) (*policy.Set, policy.Key, error) {
	key, err := d.key(r)
	if errors.Is(err, policy.ErrUnreadable) {
		id := r.PathValue("id")
		key, err = policy.Key{ID: id, Name: id, Status: policy.Unreadable}, nil
	}
	if err != nil {
		return nil, policy.Key{}, page.Failed("get key", err)
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return nil, policy.Key{}, page.Failed("read policy", err)
	}
	return set, key, nil
}

func (d *dashboard) showKey(w http.ResponseWriter, r *http.Request) error {
	set, key, err := d.keyAndSet(r)
	if err != nil {
		return err
	}
	view, err := d.keyPage(r, set, key)
	if err != nil {
		return page.Failed("read key", err)
	}
	return d.RenderLive(w, r, templates.KeyLive(view), templates.Key(view))
}

func (d *dashboard) keyPage(r *http.Request, set *policy.Set, k policy.Key) (templates.KeyPage, error) {
	ctx := r.Context()
	s, survey, err := d.Keys.Survey(ctx, set, k)
	if err != nil {
		return templates.KeyPage{}, err
	}
	recent := d.History(ctx, k.ID, k.Version)
	row := d.keyRow(s)
	at := chart.ReadPeriod(r.URL.Query(), time.Now())
	p := templates.KeyPage{
		Page:      d.Page(r, row.Name),
		Trail:     d.planTrail(set, k),
		Live:      d.Live(r, row.Address, at.Values(), asOf([]app.Subject{s})),
		Range:     at.Range(row.Address, page.LiveSeconds(r)),
		Key:       row,
		Facts:     d.keyFacts(k, s.Effective.Plan),
		Why:       keyReasons(s),
		Recent:    d.audit.Table(recent[:min(recentEntries, len(recent))]),
		Audit:     d.Path("/audit?subject=" + url.QueryEscape(k.ID)),
		Explain:   d.Path("/explain?key=" + url.QueryEscape(k.ID)),
		AllAlerts: page.Address(d.Path("/alerts"), url.Values{"key": {k.ID}}),
	}
	if p.Notes, err = d.keyNotes(ctx, k, s); err != nil {
		return templates.KeyPage{}, err
	}
	p.Live.Outage = wording.Outage([]policy.Plan{s.Effective.Plan})
	p.Page.Chart = d.ChartScript()
	p.Response = responseTo(survey.Refused, plainCall(survey.Result))
	series, err := d.Records.Caller(ctx, k.ID, at.Recorded())
	if err != nil {
		return templates.KeyPage{}, err
	}
	denied, err := d.denials.Recent(ctx, k.ID)
	if err != nil {
		return templates.KeyPage{}, err
	}
	p.Live.Counted = page.Instant(series.Counted)
	p.Chart = d.drawCalls(ctx, series, at, page.Address(row.Address, page.WithLive(nil, p.Live.Seconds)),
		marked{recent, set.Version, s.Effective.Plan.Name, k.Group})
	p.Denials, p.AllDenials = denied.Table, denied.All
	p.Limits, p.Unused = wording.AllApplied(s, survey, denied.Latest, series.ByKind(), at.In())
	p.Facts = append(p.Facts, templates.Fact{Name: "Last call", Value: lastCall(series, at)})
	diagnosis, err := app.Diagnose(ctx, d.Records, s, survey)
	if err != nil {
		return templates.KeyPage{}, err
	}
	p.Diagnosis = wording.Diagnosis(diagnosis)
	switch note := stateNote(s, recent); {
	case note == "":
	case s.Status == policy.Revoked:
		p.Diagnosis.State += " " + note
	default:
		p.Diagnosis.State, p.Diagnosis.Wait = note, ""
	}
	p.Live.Summary = keySummary(row)
	if page.CanEdit(r) {
		p.Actions = d.keyActionLinks(s)
	}
	return p, nil
}

// plainCall returns the result for a call that falls under no route.
func plainCall(r enforce.Result) enforce.Result {
	r.Limits = slices.DeleteFunc(slices.Clone(r.Limits), func(l enforce.LimitState) bool {
		return l.On != "" || l.Unread || l.Unit != limits.Cost && l.Unit != limits.Calls
	})
	return r
}

// keyNotes returns what an operator must know of a key.
func (d *dashboard) keyNotes(ctx context.Context, k policy.Key, s app.Subject) (notes []string, err error) {
	if s.Status == policy.Unreadable {
		notes = append(notes,
			"Written by another Tidegate version. Its calls are denied. It can only be deleted.")
	}
	if hasPreviousSecret(k, s.At) {
		used, err := d.previousSecretUse(ctx, k)
		if err != nil {
			return nil, err
		}
		notes = append(notes, "The previous secret works until "+page.Instant(k.Grace).Text+". "+used)
	}
	return notes, nil
}

// stateNote says who banned or revoked a key, when and why; empty for other keys.
func stateNote(s app.Subject, newest []changes.Entry) string {
	text, action := "Revoked", registry.KeyRevoke
	switch {
	case s.Status == policy.Revoked:
	case s.Is(app.Banned):
		text, action = "Banned until "+page.Instant(s.Banned).Text, registry.KeyBan
	default:
		return ""
	}
	for _, e := range newest {
		if e.Action == action {
			text += " by " + page.Clip(e.By.Name, page.MaxName) + " on " + page.Instant(e.Time).Text
			if e.Reason != "" {
				text += ". Reason: " + strings.TrimSuffix(page.Clip(e.Reason, policy.MaxReasonLen), ".")
			}
			return text + "."
		}
	}
	return ""
}

// keySummary is the text that a screen reader announces after a refresh.
func keySummary(row templates.KeyRow) string {
	text := "not denied"
	if isBlocked(row) {
		text = "denied now"
	}
	for _, w := range row.Windows {
		text += ", " + w.Used + " of " + w.Of + " used"
	}
	return text
}

func (d *dashboard) keyFacts(k policy.Key, plan policy.Plan) []templates.Fact {
	clip := func(text string, n int) string { return wording.OrNone(page.Clip(text, n)) }
	expires := "never"
	if !k.Expires.IsZero() {
		expires = page.Instant(k.Expires).Text
	}
	facts := []templates.Fact{
		{Name: "Plan", Value: clip(k.Plan, page.MaxName)},
		{Name: "Environment", Value: clip(k.Env, page.MaxName)},
		{Name: "Tags", Value: clip(strings.Join(k.Tags, ", "), maxFact)},
		{Name: "Open routes", Value: page.Clip(openRoutes(k, plan), maxFact)},
		{Name: "Expires", Value: expires},
		{Name: "Version", Value: page.Number(k.Version)},
		{Name: "Created", Value: page.Instant(k.Created).Text},
		{Name: "Updated", Value: page.Instant(k.Updated).Text},
	}
	if k.Group != "" {
		facts = append(facts, templates.Fact{Name: "Group", Value: k.Group,
			Address: d.Path(groups.Path(k.Group))})
	}
	if k.Foreign {
		facts = append(facts, templates.Fact{Name: "Value", Value: "imported from another system"})
	}
	if k.Kind != policy.APIKey && k.Kind != "" {
		facts = append(facts, templates.Fact{Name: "Kind",
			Value: string(k.Kind) + ", no API key"})
	}
	return facts
}

// openRoutes names the routes that a key may call: those that both the key and its plan
// open.
func openRoutes(k policy.Key, plan policy.Plan) string {
	switch {
	case len(k.Opens) == 0:
		return policydoc.OpensText(plan.Opens)
	case len(plan.Opens) == 0:
		return policydoc.OpensText(k.Opens)
	}
	return policydoc.OpensText(k.Opens) + "; plan: " + policydoc.OpensText(plan.Opens)
}

// lastCall says when the last call of a period was.
func lastCall(s records.Series, at chart.Period) string {
	for _, p := range slices.Backward(s.Points) {
		if p.Calls() > 0 {
			return page.Instant(p.Start).Text
		}
	}
	return "none " + at.In()
}

// planTrail leads to the list of keys, and to the plan of a key.
func (d *dashboard) planTrail(set *policy.Set, k policy.Key) []templates.Choice {
	trail := d.keysTrail()
	if p, found := set.PlanByNumber(k.PlanNumber); found {
		trail = append(trail, templates.Choice{Text: "plan " + page.Clip(p.Name, page.MaxName),
			Address: d.Path("/policies/plans/" + strconv.Itoa(p.Number))})
	}
	return trail
}

// keyReasons says why other limits than those of the key's plan apply.
func keyReasons(s app.Subject) []string {
	if s.Override == nil && s.Effective.Override == nil && s.Kind == policy.APIKey {
		return nil
	}
	return limitReasons(s)
}

// limitReasons explains which limits apply to a caller, in sentences.
func limitReasons(s app.Subject) []string {
	plan := wording.OrNone(page.Clip(s.Effective.Plan.Name, page.MaxName))
	if o := s.Effective.Override; o != nil {
		text := "Override of plan " + plan
		if s.Effective.Source == "group" {
			text += " for the group " + s.Group
		}
		text += ". Reason: " + page.Clip(o.Reason, policy.MaxReasonLen) + "."
		if o.Until.IsZero() {
			return []string{text + " It never expires."}
		}
		return []string{text + " It expires on " + page.Instant(o.Until).Text + ", in " +
			page.Span(o.Until.Sub(s.At)) + "."}
	}
	switch {
	case s.Plan != "" || s.Kind == policy.APIKey:
		plan = "Plan: " + wording.OrNone(page.Clip(s.Plan, page.MaxName))
	case s.Kind == policy.Token:
		plan = "Plan: named by the token, otherwise " + plan + "."
	default:
		plan = "Plan: " + plan + ", the default for addresses."
	}
	reasons := []string{plan}
	if s.Override != nil {
		reasons = append(reasons, "An override ended on "+page.Instant(s.Override.Until).Text+": "+
			wording.Override(s.Override)+".")
	}
	return reasons
}

// keyActionLinks returns links to the actions that the state of the key allows.
func (d *dashboard) keyActionLinks(s app.Subject) (all templates.KeyActions) {
	link := func(text, action string) templates.Choice {
		return templates.Choice{Text: text, Address: d.keyPath(s.Key) + "/" + action}
	}
	all.Danger = []templates.Choice{link("Delete", "delete")}
	switch s.Status {
	case policy.Unreadable:
		return all
	case policy.Revoked:
		all.Shown = []templates.Choice{link("Restore", "unrevoke"), link("Edit", "edit")}
		return all
	case policy.Active:
	}
	limits := link("Override limits", "limits")
	limits.Current = true
	ban := link("Ban", "ban")
	if s.Is(app.Banned) {
		ban = link("Unban", "unban")
	}
	all.Shown = []templates.Choice{limits, ban}
	if s.Override != nil {
		all.Shown = []templates.Choice{limits, link("End override", "end"), ban}
	}
	all.More = []templates.Choice{link("Edit", "edit"), link("Reset counts", "reset")}
	if s.Kind == policy.APIKey {
		all.More = append(all.More, link("Rotate secret", "rotate"))
	}
	if hasPreviousSecret(s.Key, s.At) {
		all.More = append(all.More, link("Expire previous secret", "expire-secret"))
	}
	all.Danger = append([]templates.Choice{link("Revoke", "revoke")}, all.Danger...)
	return all
}

// keyPath returns the address of a key's page. An id needs no escaping.
func (d *dashboard) keyPath(k policy.Key) string { return d.Path("/keys/" + k.ID) }

// keysTrail leads back to the key list.
func (d *dashboard) keysTrail() []templates.Choice {
	return []templates.Choice{{Text: "Keys", Address: d.Path("/keys")}}
}

// keyTrail leads back to a key's page.
func (d *dashboard) keyTrail(k policy.Key) []templates.Choice {
	return append(d.keysTrail(),
		templates.Choice{Text: page.Clip(k.Name, page.MaxName), Address: d.keyPath(k)})
}

// redirectToKey redirects to a key's page, also from a dialog.
func (d *dashboard) redirectToKey(w http.ResponseWriter, r *http.Request, key policy.Key) error {
	return page.Leave(w, r, d.keyPath(key))
}
