package auditlog

import (
	"net/http"
	"strconv"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
)

// Rows of a file, and of each read that fills it.
const (
	maxCSVEntries = 2_000
	csvPage       = 500
)

// exportAudit sends the entries that the filter means, newest first, as far as one file
// goes.
func (d *Pages) exportAudit(w http.ResponseWriter, r *http.Request) {
	query, ok := readAuditQuery(r)
	if !ok {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	t := page.NewTable(
		"id", "time", "kind", "by", "action", "subject", "name", "version", "reason", "before",
		"after", "hash",
	)
	query.Count = csvPage
	rows := 0
	for {
		list, err := d.keys.Audit().List(r.Context(), query)
		if err != nil {
			d.failAudit(w, r, err)
			return
		}
		for _, e := range list.Entries {
			t.Row(entryCells(e)...)
			rows++
		}
		if query.After = list.Next; list.Next == "" || rows >= maxCSVEntries || t.Full() {
			break
		}
	}
	next := ""
	if query.After != "" {
		values := auditValues(query)
		values.Set("after", query.After)
		next = page.Address(d.Path("/audit.csv"), values)
	}
	t.Send(w, "tidegate-audit.csv", next)
}

func entryCells(e audit.Entry) []string {
	subject := e.Subject
	if subject == policyset.SetID {
		subject = "policy"
	}
	return []string{
		e.ID, page.Stamp(e.Time), e.By.Kind, e.By.Name, e.Action, subject, e.Name,
		strconv.FormatInt(e.Version, 10),
		e.Reason,
		string(e.Before), string(e.After), e.Hash,
	}
}
