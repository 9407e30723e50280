package auditlog

import (
	"net/http"
	"strconv"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
)

// exportAudit sends the entries that the filter means, newest first, those that the
// journal alone has too, as far as one file goes; its last row and a Link header lead to
// the rest.
func (d *Pages) exportAudit(w http.ResponseWriter, r *http.Request) {
	f, ok := readFilter(r)
	if !ok || f.problem != "" || app.LooksLikeSecret(f.typed) {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	t := page.NewTable(
		"id", "time", "kind", "by", "action", "subject", "name", "version", "reason", "before",
		"after", "hash",
	)
	f.Count = page.CSVRows
	for {
		list, err := d.list(r.Context(), &f)
		if err != nil {
			d.failAudit(w, r, err)
			return
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
