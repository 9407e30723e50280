package auditlog

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
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
	{Value: audit.OfJobs, Text: "bulk jobs"},
	{Value: audit.OfTokens, Text: "machine tokens"},
	{Value: audit.Login, Text: "logins"},
}

func (d *Pages) showAudit(w http.ResponseWriter, r *http.Request) { d.renderAudit(w, r, nil) }

func (d *Pages) renderAudit(w http.ResponseWriter, r *http.Request, verified *templates.Verified) {
	f, ok := readFilter(r)
	if !ok {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	if app.LooksLikeSecret(f.typed) { // never shown, though an address has it already
		d.Flash(r, "You pasted a whole secret. Enter a name or an id.", "")
		http.Redirect(w, r, d.Path("/audit"), http.StatusSeeOther)
		return
	}
	p := templates.AuditPage{Page: d.Page(r, "Audit"), Verified: verified}
	var list audit.Page
	status := http.StatusUnprocessableEntity
	if f.problem == "" {
		var err error
		if list, err = d.list(r.Context(), &f); err != nil {
			d.failAudit(w, r, err)
			return
		}
		status = http.StatusOK
	}
	path, values := d.Path("/audit"), f.values()
	p.Filter, p.Choices, p.Entries = d.filterView(&f), f.choices, d.Rows(r, list.Entries)
	p.Export = page.Address(d.Path("/audit.csv"), values)
	p.Verify = page.Address(d.Path("/audit/verify"), values)
	p.Empty = emptyAudit(f, list)
	if f.after != "" {
		p.First = page.Address(path, values)
	}
	if list.Next != "" {
		values.Set("after", list.Next)
		p.Next = page.Address(path, values)
	}
	d.Render(w, r, status, templates.Audit(p))
}

func emptyAudit(f filter, list audit.Page) templates.Empty {
	switch {
	case list.Next != "":
		return templates.Empty{Heading: "Nothing yet",
			Advice: "No match among the latest entries. The next page searches older ones."}
	case f.typed != "" && f.of.ID == "" && f.Subject != policyset.SetID:
		return templates.Empty{Heading: "Nothing here",
			Advice: "No key has this id or name, and no entry of the period had."}
	}
	return templates.Empty{Heading: "Nothing here", Advice: "Changes of keys and policies appear here."}
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
		if e.Job != "" {
			rows[i].Job = d.Path("/jobs/" + e.Job)
		}
		if page.CanEdit(r) && undoable(e) {
			rows[i].Undo = d.Path("/jobs/" + e.Subject + "/undo")
		}
		if page.CanEdit(r) && app.Irreversible(e) == "" {
			rows[i].Revert = d.Path("/audit/" + e.ID + "/revert")
		}
	}
	return rows
}

// undoable reports whether the entry is the end of a job that can be taken back.
func undoable(e audit.Entry) bool {
	var j app.Job
	return e.Action == audit.JobEnd && json.Unmarshal(e.After, &j) == nil && j.Undoable()
}

func (d *Pages) failAudit(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, audit.ErrPosition) {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	d.FailStore(w, r, "read audit", err)
}

// SubjectWords names the subject of an entry.
func SubjectWords(e audit.Entry) string {
	if e.Subject == policyset.SetID {
		return "the policies"
	}
	if e.Name != "" {
		return page.Clip(e.Name, page.MaxName)
	}
	return e.Subject
}

func (d *Pages) subjectPath(e audit.Entry) string {
	switch e.Subject {
	case policyset.SetID:
		return d.Path("/policies")
	case token.Subject, audit.LoginSubject:
		return d.Path("/settings")
	}
	if strings.HasPrefix(e.Action, audit.OfJobs) {
		return d.Path("/jobs/" + e.Subject)
	}
	return d.Path("/keys/" + e.Subject)
}
