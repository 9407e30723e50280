package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/groups"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// key returns the key that the request's path names.
func (d *dashboard) key(r *http.Request) (policy.Key, error) {
	id := r.PathValue("id")
	if !app.IsID(id) {
		return policy.Key{}, policy.ErrNotFound
	}
	return d.Keys.Get(r.Context(), id)
}

// keyAndSet returns the key that the request is about and the Set, or answers the
// request. A key that cannot be read has its id and status alone.
func (d *dashboard) keyAndSet(w http.ResponseWriter, r *http.Request) (*policy.Set, policy.Key, bool) {
	key, err := d.key(r)
	if errors.Is(err, policy.ErrUnreadable) {
		key, err = policy.Key{ID: r.PathValue("id"), Name: r.PathValue("id"), Status: policy.Unreadable}, nil
	}
	if err != nil {
		d.FailStore(w, r, "get key", err)
		return nil, policy.Key{}, false
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return nil, policy.Key{}, false
	}
	return set, key, true
}

func (d *dashboard) showKey(w http.ResponseWriter, r *http.Request) {
	set, key, ok := d.keyAndSet(w, r)
	if !ok {
		return
	}
	view, err := d.keyPage(r, set, key)
	if err != nil {
		d.FailStore(w, r, "read key", err)
		return
	}
	d.Remember(w, r)
	d.RenderLive(w, r, templates.KeyLive(view), templates.Key(view))
}

const recentEntries = 10 // of the audit on a key's page

func (d *dashboard) keyPage(r *http.Request, set *policy.Set, k policy.Key) (templates.KeyPage, error) {
	ctx := r.Context()
	subjects, err := app.Subjects(ctx, d.Keys, set, []policy.Key{k})
	if err != nil {
		return templates.KeyPage{}, err
	}
	s := subjects[0]
	newest, all, err := d.historyOf(ctx, k)
	if err != nil {
		return templates.KeyPage{}, err
	}
	row, at := d.keyRow(s, ""), chart.ReadPeriod(page.View(r), time.Now())
	p := templates.KeyPage{
		Page:    d.Page(r, row.Name),
		Live:    d.Live(r, d.keyPath(k), at.Values(), asOf([]app.Subject{s})),
		Range:   at.Range(d.keyPath(k), page.LiveSeconds(r)),
		Key:     row,
		Facts:   d.keyFacts(k, s.Effective.Plan),
		Why:     whyWords(s),
		Notes:   d.keyNotes(s),
		Recent:  d.audit.Rows(r, newest[:min(recentEntries, len(newest))]),
		Audit:   d.Path("/audit?subject=" + url.QueryEscape(k.ID)),
		Explain: d.Path("/explain?key=" + url.QueryEscape(k.ID)),
	}
	if hasOldSecret(k, s.At) {
		used, err := d.oldSecretUsed(ctx, k)
		if err != nil {
			return templates.KeyPage{}, err
		}
		p.Notes = append(p.Notes, "The old secret works until "+page.Instant(k.Grace).Text+". "+used)
	}
	p.Page.Chart = d.ChartScript()
	if p.Response, err = d.responseNow(ctx, set, k); err != nil {
		return templates.KeyPage{}, err
	}
	points, note, err := d.callsOf(ctx, k.ID, at)
	if err != nil {
		return templates.KeyPage{}, err
	}
	p.Play = d.playAddress(s.Effective.Limits, at, points)
	drawn := chart.TimeSeries{Step: at.Step, Note: note,
		SelectIn: page.Address(d.keyPath(k), page.WithLive(nil, p.Live.Seconds))}
	if p.Chart, err = d.draw(ctx, drawn, at, points, k.ID, all); err != nil {
		return templates.KeyPage{}, err
	}
	recent, err := d.denials.Recent(ctx, k.ID)
	if err != nil {
		return templates.KeyPage{}, err
	}
	p.Denials, p.Refused, p.AllDenials = recent.Rows, recent.Refused, recent.All
	p.AllAlerts = page.Address(d.Path("/alerts"), url.Values{"key": {k.ID}})
	p.Live.Summary = keySummary(row)
	if page.CanEdit(r) {
		p.Actions = d.keyLinks(s)
	}
	return p, nil
}

// historyOf returns the newest entries of a key in the audit, and all of them where these
// are all. Each change raises the version by one, so the search ends with the entry of the
// key's creation and need not read the rest of the audit.
func (d *dashboard) historyOf(ctx context.Context, k policy.Key) (newest, all []audit.Entry, err error) {
	count := maxMarks
	if k.Version > 0 {
		count = int(min(k.Version, maxMarks))
	}
	found, err := d.Keys.Audit().List(ctx, audit.Query{Subject: k.ID, Count: count})
	if err == nil && (found.Next == "" || int64(count) == k.Version) {
		all = append(all, found.Entries...)
	}
	return found.Entries, all, err
}

// keySummary is what a screen reader says of each change.
func keySummary(row templates.KeyRow) string {
	words := "not blocked"
	for _, b := range row.Badges {
		if b.State == "blocked" {
			words = "blocked now"
		}
	}
	for _, w := range row.Windows {
		words += ", " + w.Used + " of " + w.Of + " used"
	}
	return words
}

// openRoutes names the routes that a key may call: those that both lists open.
func openRoutes(k policy.Key, plan policy.Plan) string {
	switch {
	case len(k.Allow) == 0:
		return policydoc.AllowText(plan.Allow)
	case len(plan.Allow) == 0:
		return policydoc.AllowText(k.Allow)
	}
	return policydoc.AllowText(k.Allow) + "; plan: " + policydoc.AllowText(plan.Allow)
}

func (d *dashboard) keyFacts(k policy.Key, plan policy.Plan) []templates.Fact {
	facts := []templates.Fact{
		{Name: "Plan", Value: wording.OrNone(page.Clip(k.Plan, page.MaxName))},
		{Name: "Environment", Value: wording.OrNone(page.Clip(k.Env, page.MaxName))},
		{Name: "Tags", Value: wording.OrNone(page.Clip(strings.Join(k.Tags, ", "), 600))},
		{Name: "Open routes", Value: page.Clip(openRoutes(k, plan), 600)},
		{Name: "Expires", Value: orNever(k.Expires)},
		{Name: "Version", Value: page.Number(k.Version)},
		{Name: "Created", Value: page.Instant(k.Created).Text},
		{Name: "Updated", Value: page.Instant(k.Updated).Text},
	}
	if k.Group != "" {
		facts = append(facts, templates.Fact{Name: "Group", Value: k.Group,
			Address: d.Path(groups.Path(k.Group))})
	}
	if k.Foreign {
		facts = append(facts, templates.Fact{Name: "Value", Value: "made by another system"})
	}
	if k.Kind != policy.APIKey && k.Kind != "" {
		facts = append(facts, templates.Fact{Name: "Kind",
			Value: "a caller that others vouch for: " + string(k.Kind)})
	}
	return facts
}

func orNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return page.Instant(t).Text
}

// whyWords says which limits hold, and why.
func whyWords(s app.Subject) []string {
	if s.Effective.Source == "override" {
		words := "Override of plan: " + wording.OrNone(
			page.Clip(s.Effective.Plan.Name, page.MaxName),
		) + ", because: " +
			page.Clip(s.Override.Reason, policy.MaxReasonLen) + "."
		if s.Override.Until.IsZero() {
			return []string{words + " It has no end.", modeWords(s.Effective.Mode)}
		}
		return []string{words + " It ends on " + page.Instant(s.Override.Until).Text + ", in " +
			page.Span(s.Override.Until.Sub(s.At)) + ".",
			modeWords(s.Effective.Mode)}
	}
	words := []string{fromPlan(s), modeWords(s.Effective.Mode)}
	if s.Override != nil {
		words = append(
			words, "An override ended on "+page.Instant(s.Override.Until).Text+": "+
				wording.Override(s.Override)+".",
		)
	}
	return words
}

// fromPlan says which plan holds. Callers that others vouch for may have none of their
// own.
func fromPlan(s app.Subject) string {
	meant := wording.OrNone(page.Clip(s.Effective.Plan.Name, page.MaxName))
	switch {
	case s.Plan != "" || s.Kind == policy.APIKey:
		return "Plan: " + wording.OrNone(page.Clip(s.Plan, page.MaxName))
	case s.Kind == policy.Token:
		return "Plan named by the token, otherwise: " + meant + "."
	}
	return "Plan for addresses: " + meant + "."
}

func modeWords(m policy.Mode) string {
	switch m {
	case policy.Shadow:
		return "Shadow: denials are recorded, every call passes."
	case policy.Off:
		return "Off: nothing is counted and every call passes."
	case policy.Enforce:
	}
	return "Every limit must allow a call."
}

func (d *dashboard) keyNotes(s app.Subject) []string {
	var notes []string
	if s.Status == policy.Unreadable {
		notes = append(notes,
			"Written by another Tidegate version. Its calls are denied. It can only be deleted.")
	}
	return notes
}

// keyPath is the address of a key's page. Ids are letters, digits, - and _.
func (d *dashboard) keyPath(k policy.Key) string { return d.Path("/keys/" + k.ID) }

// keyTrail leads back to a key's page.
func (d *dashboard) keyTrail(k policy.Key) []templates.Choice {
	return []templates.Choice{
		{Text: "Keys", Address: d.Path("/keys")},
		{Text: page.Clip(k.Name, page.MaxName), Address: d.keyPath(k)},
	}
}

// keyLinks are the changes that make sense for a key as it is.
func (d *dashboard) keyLinks(s app.Subject) []templates.Choice {
	link := func(text, what string) templates.Choice {
		return templates.Choice{Text: text, Address: d.keyPath(s.Key) + "/" + what}
	}
	if s.Status == policy.Unreadable {
		return []templates.Choice{link("Delete", "delete")}
	}
	if s.Status == policy.Revoked {
		return []templates.Choice{link("Edit", "edit"), link("Restore", "unrevoke"), link("Delete", "delete")}
	}
	limits := link("Override limits", "limits")
	limits.Current = true
	links := []templates.Choice{limits}
	if s.Override != nil {
		links = append(links, link("End override", "end"))
	}
	links = append(links, link("Edit", "edit"), link("Reset counts", "reset"))
	if s.Is(app.Banned) {
		links = append(links, link("Unban", "unban"))
	} else {
		links = append(links, link("Ban", "ban"))
	}
	if s.Kind == policy.APIKey {
		links = append(links, link("Rotate secret", "rotate"))
	}
	if hasOldSecret(s.Key, s.At) {
		links = append(links, link("Expire old secret", app.ExpireSecret))
	}
	return append(links, link("Revoke", "revoke"), link("Delete", "delete"))
}

// toKey shows the key's page.
func (d *dashboard) toKey(w http.ResponseWriter, r *http.Request, key policy.Key) {
	if page.IsRefresh(r) { // from a dialog, whose page is to go there
		w.Header().Set("HX-Redirect", d.keyPath(key))
		w.WriteHeader(http.StatusOK)
		return
	}
	http.Redirect(w, r, d.keyPath(key), http.StatusSeeOther)
}
