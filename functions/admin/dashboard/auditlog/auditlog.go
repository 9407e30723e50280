package auditlog

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

const auditPerPage = 50

// auditActions are what the list can be narrowed to: the beginnings of actions.
var auditActions = []templates.Option{
	{Value: "", Text: "all"},
	{Value: audit.OfPolicy, Text: "the policies"},
	{Value: audit.OfKeys, Text: "all of keys"},
	{Value: audit.KeyOverride, Text: "overrides"},
	{Value: audit.KeyCreate, Text: "created"},
	{Value: audit.KeyAdopt, Text: "adopted"},
	{Value: audit.KeyEdit, Text: "edited"},
	{Value: audit.KeyRevoke, Text: "revoked"},
	{Value: audit.KeyRotate, Text: "rotated"},
	{Value: audit.KeyExpire, Text: "old secret expired"},
	{Value: audit.KeyBan, Text: "banned"},
	{Value: audit.KeyUnban, Text: "unbanned"},
	{Value: audit.KeyReset, Text: "reset"},
	{Value: audit.KeyRevert, Text: "reverted"},
	{Value: audit.KeyDelete, Text: "deleted"},
	{Value: audit.OfTokens, Text: "machine tokens"},
	{Value: audit.Login, Text: "logins"},
}

func readAuditQuery(r *http.Request) (audit.Query, bool) {
	q := r.URL.Query()
	a := audit.Query{Subject: q.Get("subject"), Action: q.Get("what"), By: q.Get("by"), After: q.Get("after"),
		Count: auditPerPage, Older: true}
	return a, len(a.Subject) <= 64 && len(a.Action) <= 40 && len(a.By) <= 400 && len(a.After) <= 100
}

func auditValues(q audit.Query) url.Values {
	return url.Values{"subject": {q.Subject}, "what": {q.Action}, "by": {q.By}}
}

func (d *Pages) showAudit(w http.ResponseWriter, r *http.Request) { d.renderAudit(w, r, nil) }

func (d *Pages) renderAudit(w http.ResponseWriter, r *http.Request, verified *templates.Verified) {
	query, ok := readAuditQuery(r)
	if !ok {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	list, err := d.keys.Audit().List(r.Context(), query)
	if err != nil {
		d.failAudit(w, r, err)
		return
	}
	path, values := d.Path("/audit"), auditValues(query)
	p := templates.AuditPage{
		Page: d.Page(r, "Audit"),
		Filter: templates.AuditFilter{
			Action: path, Subject: page.Clip(query.Subject, 64), What: query.Action, Whats: auditActions,
			By: page.Clip(query.By, 200),
		},
		Entries: d.Rows(r, list.Entries),
		Empty: templates.Empty{Heading: "Nothing here",
			Advice: "Changes of keys and policies appear here."},
		Export: page.Address(d.Path("/audit.csv"), values),
		Verify: page.Address(d.Path("/audit/verify"), values), Verified: verified,
	}
	if list.Next != "" {
		p.Empty = templates.Empty{Heading: "Nothing yet",
			Advice: "No match among the latest entries. The next page searches older ones."}
	}
	if page.Address("", values) != "" {
		p.Filter.Clear = path
	}
	if query.After != "" {
		p.First = page.Address(path, values)
	}
	if list.Next != "" {
		values.Set("after", list.Next)
		p.Next = page.Address(path, values)
	}
	d.Render(w, r, http.StatusOK, templates.Audit(p))
}

// Rows are entries as a table lists them.
func (d *Pages) Rows(r *http.Request, entries []audit.Entry) []templates.Entry {
	rows := make([]templates.Entry, len(entries))
	for i, e := range entries {
		rows[i] = templates.Entry{
			ID: e.ID, At: page.Instant(e.Time), By: page.Clip(e.By.Name, page.MaxName),
			What: page.Clip(e.Action, form.MaxInput), Subject: SubjectWords(e), Address: d.subjectPath(e),
			Reason: page.Clip(e.Reason, 300), Changes: d.ChangesOf(e),
		}
		if e.Version > 0 {
			rows[i].Version = page.Number(e.Version)
		}
		if e.Subject != policyset.SetID && (len(e.Before) == 0 || len(e.After) == 0) {
			rows[i].Changes = slices.DeleteFunc(rows[i].Changes, func(c templates.Change) bool {
				return c.What == "name" || c.What == "status"
			})
		}
		if page.CanEdit(r) && app.Irreversible(e) == "" {
			rows[i].Revert = d.Path("/audit/" + e.ID + "/revert")
		}
	}
	return rows
}

// verifyTimeout bounds a check of the chains, which reads them whole.
const verifyTimeout = 20 * time.Second

// verifyAudit reads every chain. It takes longer than other requests may.
func (d *Pages) verifyAudit(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), verifyTimeout)
	defer cancel()
	v, err := d.keys.Audit().Verify(ctx)
	if err != nil {
		d.FailStore(w, r, "verify audit", err)
		return
	}
	d.renderAudit(w, r, verifiedWords(v))
}

func verifiedWords(v audit.Verified) *templates.Verified {
	if v.Good() {
		return &templates.Verified{
			Good: true, Text: "All " + page.Number(v.Entries) +
				" entries are as they were written, in their order.",
		}
	}
	var wrong []string
	if n := int64(len(v.Broken)); n > 0 {
		wrong = append(
			wrong,
			page.Number(n)+" of "+page.Number(v.Entries)+" entries were altered,"+
				" or stand behind one that was altered or taken out",
		)
	}
	if n := int64(len(v.Cut)); n > 0 {
		text := " audit chains are incomplete"
		if n == 1 {
			text = " audit chain is incomplete"
		}
		wrong = append(wrong, page.Number(n)+text)
	}
	if n := int64(len(v.Unread)); n > 0 {
		wrong = append(wrong, "older entries of "+page.Number(n)+" of the chains could not be read")
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
		after = "chain " + page.Number(int64(c.Bucket))
	}
	if c.Missing == 0 {
		return after + ": no head that fits"
	}
	return after + ": " + page.Number(c.Missing) + " missing"
}

func (d *Pages) failAudit(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, audit.ErrPosition) {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	d.FailStore(w, r, "read audit", err)
}
