package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

const auditPerPage = 50

// auditActions are what the list can be narrowed to: the beginnings of actions.
var auditActions = []templates.Option{
	{Value: "", Text: "all"},
	{Value: "policy.", Text: "the policies"},
	{Value: "key.", Text: "all of keys"},
	{Value: "key.override", Text: "overrides"},
	{Value: "key.create", Text: "created"},
	{Value: "key.adopt", Text: "adopted"},
	{Value: "key.edit", Text: "edited"},
	{Value: "key.revoke", Text: "revoked"},
	{Value: "key.rotate", Text: "rotated"},
	{Value: "key.ban", Text: "banned"},
	{Value: "key.unban", Text: "unbanned"},
	{Value: "key.reset", Text: "reset"},
	{Value: "key.revert", Text: "reverted"},
	{Value: "key.delete", Text: "deleted"},
	{Value: "token.", Text: "machine tokens"},
	{Value: "login", Text: "logins"},
}

// newest asks for the newest entry of a subject.
func newest(subject string) audit.Query { return audit.Query{Subject: subject, Count: 1} }

func readAuditQuery(r *http.Request) (audit.Query, bool) {
	q := r.URL.Query()
	a := audit.Query{Subject: q.Get("subject"), Action: q.Get("what"), By: q.Get("by"), After: q.Get("after"), Count: auditPerPage}
	return a, len(a.Subject) <= 64 && len(a.Action) <= 40 && len(a.By) <= 400 && len(a.After) <= 100
}

func auditValues(q audit.Query) url.Values {
	return url.Values{"subject": {q.Subject}, "what": {q.Action}, "by": {q.By}}
}

func (d *dashboard) showAudit(w http.ResponseWriter, r *http.Request) { d.renderAudit(w, r, nil) }

func (d *dashboard) renderAudit(w http.ResponseWriter, r *http.Request, verified *templates.Verified) {
	query, ok := readAuditQuery(r)
	if !ok {
		d.fail(w, r, problem{status: http.StatusBadRequest})
		return
	}
	list, err := d.Keys.Audit().List(r.Context(), query)
	if err != nil {
		d.failAudit(w, r, err)
		return
	}
	path, values := d.path("/audit"), auditValues(query)
	p := templates.AuditPage{
		Page:    d.page(r, "Audit"),
		Filter:  templates.AuditFilter{Action: path, Subject: clip(query.Subject, 64), What: query.Action, Whats: auditActions, By: clip(query.By, 200)},
		Entries: d.entryRows(r, list.Entries),
		Empty: templates.Empty{Heading: "Nothing here",
			Advice: "Every change of a key or of the policies is told here, in the same step in which it is made."},
		Export: address(d.path("/audit.csv"), values),
		Verify: address(d.path("/audit/verify"), values), Verified: verified,
	}
	if list.Next != "" {
		p.Empty = templates.Empty{Heading: "Nothing yet", Advice: "Nothing among the latest entries fits. The next page looks at those before."}
	}
	if address("", values) != "" {
		p.Filter.Clear = path
	}
	if query.After != "" {
		p.First = address(path, values)
	}
	if list.Next != "" {
		values.Set("after", list.Next)
		p.Next = address(path, values)
	}
	d.render(w, r, http.StatusOK, templates.Audit(p))
}

func (d *dashboard) entryRows(r *http.Request, entries []audit.Entry) []templates.Entry {
	rows := make([]templates.Entry, len(entries))
	for i, e := range entries {
		rows[i] = templates.Entry{
			ID: e.ID, At: instant(e.Time), By: clip(e.By.Name, maxName), What: clip(e.Action, maxInput), Subject: subjectWords(e), Address: d.subjectPath(e),
			Reason: clip(e.Reason, 300), Changes: d.told.of(e),
		}
		if e.Version > 0 {
			rows[i].Version = number(e.Version)
		}
		if e.Subject != policyset.SetID && (len(e.Before) == 0 || len(e.After) == 0) {
			rows[i].Changes = slices.DeleteFunc(rows[i].Changes, func(c templates.Change) bool { return c.What == "name" || c.What == "status" })
		}
		if canEdit(r) && app.Irreversible(e) == "" {
			rows[i].Revert = d.path("/audit/" + e.ID + "/revert")
		}
	}
	return rows
}

// verifyPatience bounds a check of the chains, which reads them whole.
const verifyPatience = 20 * time.Second

// verifyAudit reads every chain. It takes longer than other requests may.
func (d *dashboard) verifyAudit(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), verifyPatience)
	defer cancel()
	v, err := d.Keys.Audit().Verify(ctx)
	if err != nil {
		d.failStore(w, r, "verify audit", err)
		return
	}
	d.renderAudit(w, r, verifiedWords(v))
}

func verifiedWords(v audit.Verified) *templates.Verified {
	if v.Good() {
		return &templates.Verified{Good: true, Text: "All " + number(v.Entries) + " entries are as they were written, in their order."}
	}
	var wrong []string
	if n := int64(len(v.Broken)); n > 0 {
		wrong = append(wrong, number(n)+" of "+number(v.Entries)+" entries were altered, or stand behind one that was altered or taken out")
	}
	if n := int64(len(v.Cut)); n > 0 {
		wrong = append(wrong, number(n)+" of the chains lack their newest entries or their head")
	}
	words := &templates.Verified{Text: strings.Join(wrong, "; ") + ":", Broken: slices.Clone(v.Broken)}
	for _, c := range v.Cut {
		words.Broken = append(words.Broken, cutWords(c))
	}
	return words
}

// cutWords says where a chain was cut.
func cutWords(c audit.Cut) string {
	after := "after " + c.Last
	if c.Last == "" {
		after = "chain " + number(int64(c.Bucket))
	}
	if c.Missing == 0 {
		return after + ": no head that fits"
	}
	return after + ": " + number(c.Missing) + " missing"
}

func (d *dashboard) failAudit(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, audit.ErrPosition) {
		d.fail(w, r, problem{status: http.StatusBadRequest})
		return
	}
	d.failStore(w, r, "read audit", err)
}
