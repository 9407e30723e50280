// Package auditlog serves the pages of the audit, which is the log of changes: the list
// with its CSV export, and the form that undoes a change. Package dashboard mounts it;
// other pages list entries with Rows. It edits only to undo a change, through package app.
package auditlog

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/groups"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Pages serves the pages of the audit.
type Pages struct {
	*page.Renderer
	*changes.Changes
	keys *app.Registry
}

// New returns the pages; r renders them.
func New(r *page.Renderer, shared *changes.Changes, keys *app.Registry) *Pages {
	return &Pages{Renderer: r, Changes: shared, keys: keys}
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /audit", Role: auth.Viewer, Handle: d.showAudit, Deadline: auth.Slow},
		{Pattern: "GET /audit.csv", Role: auth.Viewer, Handle: d.exportAudit, Deadline: auth.Long},
	}
}

const entriesPerPage = 50

// auditActions are the filters by action. A value is a prefix of the action's name.
var auditActions = []templates.Option{
	{Value: "", Text: "all"},
	{Value: registry.OfPolicy, Text: "policy changes"},
	{Value: registry.OfKeys, Text: "key changes"},
	{Value: registry.KeyOverride, Text: "overrides changed"},
	{Value: registry.KeyCreate, Text: "keys created"},
	{Value: registry.KeyAdopt, Text: "callers registered"},
	{Value: registry.KeyEdit, Text: "keys edited"},
	{Value: registry.KeyRevoke, Text: "keys revoked"},
	{Value: registry.KeyRotate, Text: "secrets rotated"},
	{Value: registry.KeyExpire, Text: "previous secrets expired"},
	{Value: registry.KeyBan, Text: "keys banned"},
	{Value: registry.KeyUnban, Text: "keys unbanned"},
	{Value: registry.KeyReset, Text: "counts reset"},
	{Value: registry.KeyDelete, Text: "keys deleted"},
	{Value: registry.KeyRevert, Text: "key changes undone"},
	{Value: registry.OfTokens, Text: "machine tokens"},
}

func (d *Pages) showAudit(w http.ResponseWriter, r *http.Request) error {
	f, ok := readFilter(r)
	if !ok {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if app.LooksLikeSecret(f.typed) { // no page repeats a secret, even one in its address
		d.Flash(r, "You pasted a whole secret. Enter a name or an id.", "")
		return page.Redirect(w, r, d.Path("/audit"))
	}
	p := templates.AuditPage{Page: d.Page(r, "Audit")}
	var list registry.AuditPage
	status := http.StatusUnprocessableEntity
	if f.problem == "" {
		var err error
		if list, err = d.list(r.Context(), &f); err != nil {
			return page.Failed("read audit", err)
		}
		entries, err := d.Describe(r.Context(), list.Entries)
		if err != nil {
			return page.Failed("read changes", err)
		}
		p.Entries, status = d.Rows(r, entries), http.StatusOK
	}
	path, values := d.Path("/audit"), f.values()
	p.Filter, p.Choices = d.filterView(&f), f.choices
	p.Export = page.Address(d.Path("/audit.csv"), values)
	p.Empty = emptyAudit(f, list)
	if f.before != "" {
		p.First = page.Address(path, values)
	}
	if list.Next > 0 {
		values.Set("before", strconv.FormatUint(list.Next, 10))
		p.Next = page.Address(path, values)
	}
	return d.Render(w, r, status, templates.Audit(p))
}

func emptyAudit(f filter, list registry.AuditPage) templates.Empty {
	switch {
	case list.Next > 0:
		return templates.Empty{Heading: "No changes on this page",
			Advice: "No match among the latest changes. The next page searches older ones."}
	case f.typed != "" && f.key.ID == "" && f.Subject != app.PolicyRecord:
		return templates.Empty{Heading: "No changes found",
			Advice: "No key has this id or name, and no change in this period mentions it."}
	}
	return templates.Empty{Heading: "No changes found",
		Advice: "Changes to keys and policies appear here."}
}

// Rows returns entries as rows of a table.
func (d *Pages) Rows(r *http.Request, entries []changes.Entry) []templates.Entry {
	rows := make([]templates.Entry, len(entries))
	for i, e := range entries {
		text, subject := sentence(e)
		lead, tail, named := strings.Cut(text, "%")
		row := templates.Entry{
			Number: page.Number(int64(e.Number)), At: page.Instant(e.Time), By: page.Clip(e.By.Name,
				page.MaxName),
			Lead: lead, Tail: tail, Reason: page.Clip(e.Reason, 300), Changes: e.Changes,
		}
		if named {
			row.Subject = subject
		}
		switch subjects, more := SubjectsOf(e.AuditEntry); {
		case !named:
		case len(subjects) == 1:
			row.Address = d.path(e, subjects[0])
		default:
			for _, s := range subjects {
				row.Of = append(row.Of, templates.Choice{Text: subjectName(s), Address: d.subjectPath(s)})
			}
			if more > 0 {
				row.More = "and " + page.Number(more) + " more"
			}
		}
		if page.CanEdit(r) && app.Irreversible(e.Action) == "" {
			row.Undo = d.undoPath(e.Number)
		}
		rows[i] = row
	}
	return rows
}

func (d *Pages) undoPath(number uint64) string {
	return d.Path("/audit/" + strconv.FormatUint(number, 10) + "/undo")
}

// subjectName names a record.
func subjectName(s registry.AuditSubject) string {
	if s.Record == app.PolicyRecord {
		return "Policies"
	}
	return page.Clip(cmp.Or(s.Name, s.Record), page.MaxName)
}

// path returns the page of the only record that an entry is about: of the policies, that of
// the group whose override or billing day it changes.
func (d *Pages) path(e changes.Entry, s registry.AuditSubject) string {
	group, found := strings.CutPrefix(ownerOf(e.Changes), "group ")
	if found && s.Record == app.PolicyRecord {
		return d.Path(groups.Path(group))
	}
	return d.subjectPath(s)
}

func (d *Pages) subjectPath(s registry.AuditSubject) string {
	switch {
	case s.Record == app.PolicyRecord:
		return d.Path("/policies")
	case strings.HasPrefix(s.Record, tokenPrefix):
		return d.Path("/settings")
	case isGroup(s):
		return d.Path(groups.Path(s.Name))
	}
	return d.Path("/keys/" + s.Record)
}

// exportAudit sends the changes that match the filter as CSV, newest first. The last row of
// a full file, and a Link header, lead to the next file.
func (d *Pages) exportAudit(w http.ResponseWriter, r *http.Request) error {
	f, ok := readFilter(r)
	if !ok || f.problem != "" || app.LooksLikeSecret(f.typed) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	t := page.NewTable("number", "id", "time", "kind", "by", "action", "items", "records", "names",
		"changes", "reason")
	f.Count = page.CSVRows
	next := ""
	for {
		list, err := d.list(r.Context(), &f)
		if err != nil {
			return page.Failed("read audit", err)
		}
		entries, err := d.Describe(r.Context(), list.Entries)
		if err != nil {
			return page.Failed("read changes", err)
		}
		for _, e := range entries {
			t.Row(entryCells(e)...)
		}
		if f.Before = list.Next; list.Next == 0 {
			break
		}
		if t.Ends() {
			values := f.values()
			values.Set("before", strconv.FormatUint(list.Next, 10))
			next = page.Address(d.Path("/audit.csv"), values)
			break
		}
	}
	t.Send(w, "tidegate-audit.csv", next)
	return nil
}

func entryCells(e changes.Entry) []string {
	var records, names, changed []string
	for _, s := range e.Subjects {
		records, names = append(records, s.Record), append(names, s.Name)
	}
	for _, c := range e.Changes {
		changed = append(changed, c.What+": "+c.Before+" → "+c.After)
	}
	return []string{
		strconv.FormatUint(e.Number, 10), e.ID, page.Stamp(e.Time), e.By.Kind, e.By.Name, e.Action,
		strconv.Itoa(e.Items), strings.Join(records, " "), jsonList(names), strings.Join(changed, "; "),
		e.Reason,
	}
}

// jsonList returns names, which may have spaces, as JSON.
func jsonList(names []string) string {
	text, err := json.Marshal(names)
	if err != nil {
		return ""
	}
	return string(text)
}
