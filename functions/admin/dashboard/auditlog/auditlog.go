// Package auditlog serves the pages of the audit log: the list of changes with its CSV
// export, the form that reverts a change, and the integrity check. Package dashboard
// mounts it; other pages list entries with Rows. It changes keys and policies only to
// revert an entry, through package app.
package auditlog

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

// Pages serves the pages of the audit log.
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
		{Pattern: "GET /audit", Role: auth.Viewer, Handle: d.showAudit},
		{Pattern: "GET /audit.csv", Role: auth.Viewer, Handle: d.exportAudit, Deadline: auth.Slow},
		{Pattern: "GET /audit/verify", Role: auth.Viewer, Handle: d.verifyAudit, Deadline: auth.Long},
		{Pattern: "GET /audit/{entry}/revert", Role: auth.Editor, Handle: d.showRevert},
		{Pattern: "POST /audit/{entry}/revert", Role: auth.Editor, Handle: d.revert, Resumes: true,
			Deadline: auth.Slow},
		{Pattern: "POST /audit/{entry}/undo", Role: auth.Editor, Handle: d.undo, Deadline: auth.Slow},
	}
}

const entriesPerPage = 50

// auditActions are the filters by action. A value is a prefix of the action's name.
var auditActions = []templates.Option{
	{Value: "", Text: "all"},
	{Value: audit.OfPolicy, Text: "policy changes"},
	{Value: audit.OfKeys, Text: "key changes"},
	{Value: audit.KeyOverride, Text: "overrides changed"},
	{Value: audit.KeyCreate, Text: "keys created"},
	{Value: audit.KeyAdopt, Text: "callers registered"},
	{Value: audit.KeyEdit, Text: "keys edited"},
	{Value: audit.KeyRevoke, Text: "keys revoked"},
	{Value: audit.KeyRotate, Text: "secrets rotated"},
	{Value: audit.KeyExpire, Text: "previous secrets expired"},
	{Value: audit.KeyBan, Text: "keys banned"},
	{Value: audit.KeyUnban, Text: "keys unbanned"},
	{Value: audit.KeyReset, Text: "counts reset"},
	{Value: audit.KeyRevert, Text: "keys reverted"},
	{Value: audit.KeyDelete, Text: "keys deleted"},
	{Value: audit.OfJobs, Text: "bulk jobs"},
	{Value: audit.OfTokens, Text: "machine tokens"},
	{Value: audit.Login, Text: "logins"},
}

func (d *Pages) showAudit(w http.ResponseWriter, r *http.Request) error {
	return d.renderAudit(w, r, nil)
}

func (d *Pages) renderAudit(w http.ResponseWriter, r *http.Request, verified *templates.Verified) error {
	f, ok := readFilter(r)
	if !ok {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if app.LooksLikeSecret(f.typed) { // no page repeats a secret, even one in its address
		d.Flash(r, "You pasted a whole secret. Enter a name or an id.", "")
		return page.Redirect(w, r, d.Path("/audit"))
	}
	p := templates.AuditPage{Page: d.Page(r, "Audit"), Verified: verified}
	var list audit.Page
	status := http.StatusUnprocessableEntity
	if f.problem == "" {
		var err error
		if list, err = d.list(r.Context(), &f); err != nil {
			return listProblem(err)
		}
		status = http.StatusOK
	}
	path, values := d.Path("/audit"), f.values()
	p.Filter, p.Choices = d.filterView(&f), f.choices
	p.Entries = d.Rows(r, list.Entries)
	if f.Fold {
		if err := d.foldJobs(r, list.Entries, p.Entries); err != nil {
			return page.Failed("read jobs", err)
		}
	}
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
	return d.Render(w, r, status, templates.Audit(p))
}

func emptyAudit(f filter, list audit.Page) templates.Empty {
	switch {
	case list.Next != "":
		return templates.Empty{Heading: "No changes on this page",
			Advice: "No match among the latest entries. The next page searches older ones."}
	case f.typed != "" && f.key.ID == "" && f.Subject != policyset.SetID:
		return templates.Empty{Heading: "No changes found",
			Advice: "No key has this id or name, and no entry in this period mentions it."}
	}
	return templates.Empty{Heading: "No changes found",
		Advice: "Changes to keys and policies appear here."}
}

// Rows returns entries as rows of a table.
func (d *Pages) Rows(r *http.Request, entries []audit.Entry) []templates.Entry {
	rows := make([]templates.Entry, len(entries))
	for i, e := range entries {
		rows[i] = templates.Entry{
			ID: e.ID, At: page.Instant(e.Time), By: page.Clip(e.By.Name, page.MaxName),
			Address: d.subjectPath(e), Reason: page.Clip(e.Reason, 300), Changes: d.ChangesOf(e),
		}
		text, subject := sentence(e, rows[i].Changes)
		rows[i].Lead, rows[i].Tail, _ = strings.Cut(text, "%")
		if rows[i].Subject = subject; !strings.Contains(text, "%") {
			rows[i].Subject = ""
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

// foldJobs makes the rows of entries of bulk jobs rows of the jobs.
func (d *Pages) foldJobs(r *http.Request, entries []audit.Entry, rows []templates.Entry) error {
	var ids []string
	for _, e := range entries {
		if id := e.BulkJob(); id != "" {
			ids = append(ids, id)
		}
	}
	jobs, err := d.keys.Jobs(r.Context(), ids)
	for i, e := range entries {
		for _, j := range jobs {
			if j.ID != e.BulkJob() {
				continue
			}
			rows[i] = templates.Entry{
				ID: e.ID, At: page.Instant(e.Time), By: page.Clip(j.Actor().Name, page.MaxName),
				Subject: page.Clip(j.Title(), page.MaxName), Address: d.Path("/jobs/" + j.ID),
				Reason: page.Clip(j.Reason, 300),
				Result: wording.JobState(j) + ". " + wording.JobResult(j) + ".",
				Job:    page.Address(d.Path("/audit"), map[string][]string{"job": {j.ID}}),
			}
			if page.CanEdit(r) && j.Undoable() {
				rows[i].Undo = d.Path("/jobs/" + j.ID + "/undo")
			}
		}
	}
	return err
}

// undoable reports whether the entry ends a job that can be undone.
func undoable(e audit.Entry) bool {
	var j app.Job
	return e.Action == audit.JobEnd && json.Unmarshal(e.After, &j) == nil && j.Undoable()
}

func listProblem(err error) error {
	if errors.Is(err, audit.ErrPosition) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	return page.Failed("read audit", err)
}

// subjectWords names the subject of an entry.
func subjectWords(e audit.Entry) string {
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

// exportAudit sends the entries that match the filter as CSV, newest first, including
// those that only the journal has. The last row of a full file, and a Link header, lead
// to the next file.
func (d *Pages) exportAudit(w http.ResponseWriter, r *http.Request) error {
	f, ok := readFilter(r)
	if !ok || f.problem != "" || app.LooksLikeSecret(f.typed) {
		return page.Problem{Status: http.StatusBadRequest}
	}
	t := page.NewTable(
		"id", "time", "kind", "by", "action", "subject", "name", "version", "reason", "before",
		"after", "hash",
	)
	f.Count, f.MaxBytes, f.Fold = page.CSVRows, page.CSVStates, false
	for {
		list, err := d.list(r.Context(), &f)
		if err != nil {
			return listProblem(err)
		}
		for _, e := range list.Entries {
			t.Row(entryCells(e)...)
		}
		if f.After = list.Next; list.Next == "" || t.Ends() {
			break
		}
	}
	next := ""
	if f.After != "" {
		values := f.values()
		values.Set("after", f.After)
		next = page.Address(d.Path("/audit.csv"), values)
	}
	t.Send(w, "tidegate-audit.csv", next)
	return nil
}

func entryCells(e audit.Entry) []string {
	subject := e.Subject
	if subject == policyset.SetID {
		subject = "policy"
	}
	return []string{
		e.ID, page.Stamp(e.Time), e.By.Kind, e.By.Name, e.Action, subject, e.Name,
		strconv.FormatInt(e.Version, 10), e.Reason, string(e.Before), string(e.After), e.Hash,
	}
}

// verifyAudit checks every audit chain.
func (d *Pages) verifyAudit(w http.ResponseWriter, r *http.Request) error {
	v, err := d.keys.Audit().Verify(r.Context())
	if err != nil {
		return page.Failed("verify audit", err)
	}
	return d.renderAudit(w, r, verifiedText(v))
}

// verifiedText describes the result of a check.
func verifiedText(v audit.Verified) *templates.Verified {
	if v.Good() {
		return &templates.Verified{
			Good: true, Text: "All " + page.Number(v.Entries) +
				" entries are intact and in order.",
		}
	}
	var problems []string
	if n := int64(len(v.Broken)); n > 0 {
		problems = append(problems, page.Number(n)+" of "+page.Number(v.Entries)+
			" entries were altered, or follow one that was altered or removed")
	}
	if n := int64(len(v.Cut)); n > 0 {
		text := " audit chains are incomplete"
		if n == 1 {
			text = " audit chain is incomplete"
		}
		problems = append(problems, page.Number(n)+text)
	}
	if n := int64(len(v.Unread)); n > 0 {
		text := " audit chains could not be read"
		if n == 1 {
			text = " audit chain could not be read"
		}
		problems = append(problems, "older entries of "+page.Number(n)+text)
	}
	text := &templates.Verified{Text: strings.Join(problems, "; ") + ":", Broken: slices.Clone(v.Broken)}
	for _, c := range v.Cut {
		text.Broken = append(text.Broken, cutText(c))
	}
	return text
}

// cutText describes where entries are missing from a chain.
func cutText(c audit.Cut) string {
	after := "after " + c.Last
	if c.Last == "" {
		after = "chain " + page.Number(int64(c.Bucket))
	}
	if c.Missing == 0 {
		return after + ": head missing or altered"
	}
	return after + ": " + page.Number(c.Missing) + " missing"
}
