// Package auditlog serves the pages of the audit, which is the log of changes: the list
// with its CSV export, and the form that undoes a change. Package dashboard mounts it;
// other pages list entries by Table. It edits only to undo a change, through package app.
package auditlog

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/groups"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/table"
	"tidegate/functions/admin/list"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Pages serves the pages of the audit.
type Pages struct {
	*page.Renderer
	*changes.Changes
	keys    *app.Registry
	columns []table.Column[changes.Entry]
}

// New returns the pages; r renders them.
func New(r *page.Renderer, shared *changes.Changes, keys *app.Registry) *Pages {
	d := &Pages{Renderer: r, Changes: shared, keys: keys}
	d.columns = d.newColumns()
	return d
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /audit", Role: auth.Viewer, Handle: d.list().Show, Deadline: auth.Slow},
		{Pattern: "GET /audit.csv", Role: auth.Viewer, Handle: d.list().Export, Deadline: auth.Long},
	}
}

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

// list returns the list of changes.
func (d *Pages) list() *table.Of[app.AuditQuery, changes.Entry] {
	return &table.Of[app.AuditQuery, changes.Entry]{
		Renderer: d.Renderer, Path: "/audit", Title: "Audit", File: "audit", Caption: "Changes, newest first",
		Read: func(ctx context.Context, q *app.AuditQuery) (list.Page[changes.Entry], error) {
			found, err := d.keys.Audits(ctx, q)
			if err != nil {
				return list.Page[changes.Entry]{}, err
			}
			entries, err := d.Describe(ctx, found.Items)
			return list.Page[changes.Entry]{Items: entries, Next: found.Next}, err
		},
		Columns: func(*app.AuditQuery) []table.Column[changes.Entry] { return d.columns },
		Ranges: []templates.Option{
			{Value: "", Text: "All time"}, {Value: "today", Text: "Today, UTC"},
			{Value: "yesterday", Text: "Yesterday, UTC"}, {Value: "7d", Text: "Last 7 days"},
		},
		Filters: func(_ context.Context, q *app.AuditQuery) ([]templates.Filter, error) {
			return []templates.Filter{
				{Name: "subject", Label: "Of", Hint: "Key, plan, route or policy", Shown: q.Key.Name},
				{Name: "action", Label: "Change", Options: auditActions},
				{Name: "by", Label: "By", Hint: "Actor"},
				{Name: "change", Label: "Number"},
			}, nil
		},
		Empty: emptyAudit,
		Add: func(_ *http.Request, v *templates.List, q *app.AuditQuery, _ *list.Page[changes.Entry]) error {
			v.Search, v.On = d.Path("/search"), "audit"
			switch {
			case q.Choices != nil:
				values := list.Values(q)
				v.Choices = page.KeyChoices(q.Choices, q.More, func(k policy.Key) string {
					values.Set("subject", k.ID)
					return page.Address(d.Path("/audit"), values)
				})
			case q.Key.ID != "":
				v.Above = templates.Parts(templates.Text("Changes of"),
					templates.Link(page.Clip(q.Key.Name, page.MaxName), d.Path("/keys/"+q.Key.ID)))
			case q.Part != "":
				v.Above = templates.Text("Changes of " + page.Clip(q.Part, page.MaxName))
			}
			return nil
		},
	}
}

func emptyAudit(q *app.AuditQuery, found *list.Page[changes.Entry]) templates.Empty {
	switch {
	case found.Next != "":
		return templates.Empty{Heading: "No changes on this page",
			Advice: "No match among the latest changes. The next page searches older ones."}
	case q.Subject != "" && q.Key.ID == "" && q.Part == "" && q.Subject != app.PolicyRecord:
		return templates.Empty{Heading: "No changes found",
			Advice: "No key, plan or route has this name, and no change in this period mentions it."}
	}
	return templates.Empty{Heading: "No changes found",
		Advice: "Changes to keys and policies appear here."}
}

// Table returns entries as a table, for the page of their subject.
func (d *Pages) Table(entries []changes.Entry) templates.Table {
	return table.Rows("Changes, newest first", d.columns, entries, nil)
}

func (d *Pages) newColumns() []table.Column[changes.Entry] {
	return []table.Column[changes.Entry]{
		{Head: "Time", Cell: func(e *changes.Entry) templ.Component { return templates.At(e.Time) }},
		{Head: "Actor", Class: "narrow", Cell: func(e *changes.Entry) templ.Component {
			return templates.Text(page.Clip(e.By.Name, page.MaxName))
		}},
		{Head: "Action", Cell: d.action},
		{Head: "Changes", Cell: d.changes},
		{Cell: func(e *changes.Entry) templ.Component {
			text := Words(*e) + ", " + page.Instant(e.Time).Text
			if app.Irreversible(e.Action) != "" {
				return templates.Text("")
			}
			return table.ForEditors(templates.LabelledLink("Undo", "Undo: "+text, d.undoPath(e.Number)))
		}},
	}
}

// action says what an entry did, with a link to its subject.
func (d *Pages) action(e *changes.Entry) templ.Component {
	text, subject := sentence(*e)
	lead, tail, named := strings.Cut(text, "%")
	address := ""
	if subjects, _ := SubjectsOf(e.AuditEntry); named && len(subjects) == 1 {
		address = d.path(*e, subjects[0])
	}
	return templates.Sentence(lead, subject, address, tail, "#"+page.Number(int64(e.Number)))
}

// changes shows the differences, the first of several subjects, and the reason.
func (d *Pages) changes(e *changes.Entry) templ.Component {
	var of []templates.Choice
	more := ""
	if subjects, others := SubjectsOf(e.AuditEntry); len(subjects) > 1 {
		for _, s := range subjects {
			of = append(of, templates.Choice{Text: subjectName(s), Address: d.subjectPath(s)})
		}
		if others > 0 {
			more = "and " + page.Number(others) + " more"
		}
	}
	return templates.EntryChanges(of, more, e.Changes, page.Clip(e.Reason, 300))
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
