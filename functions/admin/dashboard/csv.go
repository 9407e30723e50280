package dashboard

import (
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tidegate/functions/admin/app"
	"tidegate/internal/audit"
	"tidegate/internal/policyset"
)

// Bounds of a file: an answer of a function is held in memory, and may have 6 MB.
const (
	maxCSVKeys    = 10_000
	maxCSVEntries = 2_000
	csvPage       = 500
	maxCSVBytes   = 4 << 20
)

// Spreadsheets take a cell that begins with one of these for a formula, in their full and
// small widths too.
const formulaStarts = "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"

// cellEnds may end a cell within a text, depending on the spreadsheet's separator. The
// file's own commas are safe, since a text with one is quoted.
const cellEnds = ";\t\r\n"

// plainCell keeps what people typed from being run as a formula by a spreadsheet. An
// apostrophe goes before each part that would begin one, whatever separates cells there.
func plainCell(text string) string {
	if !strings.ContainsAny(text, formulaStarts+"\t\r\n") {
		return text
	}
	var b strings.Builder
	if text != "" && strings.ContainsRune("\t\r\n", rune(text[0])) { // which some drop
		b.WriteByte('\'')
	}
	for text != "" {
		end := strings.IndexAny(text, cellEnds) + 1
		if end == 0 {
			end = len(text)
		}
		if startsFormula(text) {
			b.WriteByte('\'')
		}
		b.WriteString(text[:end])
		text = text[end:]
	}
	return b.String()
}

// startsFormula looks behind what a spreadsheet may trim or take for quotes.
func startsFormula(text string) bool {
	text = strings.TrimLeftFunc(text, func(c rune) bool {
		return c == '"' || c == '\ufeff' || !strings.ContainsRune(cellEnds, c) && (unicode.IsSpace(c) || unicode.IsControl(c))
	})
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune(formulaStarts, first)
}

// table is a CSV file in the making.
type table struct {
	*csv.Writer
	text strings.Builder
}

func newTable(columns ...string) *table {
	t := &table{}
	t.Writer = csv.NewWriter(&t.text)
	t.row(columns...)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = plainCell(c)
	}
	_ = t.Write(cells) // a Builder takes everything
	t.Flush()
}

// full reports whether the file may not grow.
func (t *table) full() bool { return t.text.Len() > maxCSVBytes }

// send answers with the file. next is the cursor behind its last row; empty when nothing
// is left out.
func (t *table) send(w http.ResponseWriter, name, next string) {
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	if next != "" {
		h.Set("Link", "<"+next+`>; rel="next"`)
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(t.text.String())) // fails only when nobody listens any more
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// exportKeys sends the keys that the filter means, as far as one file goes; a Link header
// leads to the rest.
func (d *dashboard) exportKeys(w http.ResponseWriter, r *http.Request) {
	query, ok := readKeysQuery(r)
	if !ok {
		d.fail(w, r, problem{status: http.StatusBadRequest})
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.failStore(w, r, "read policy", err)
		return
	}
	t := newTable("id", "name", "plan", "status", "state", "env", "tags", "limits", "used", "override until", "override reason", "expires",
		"banned until",
		"created", "updated", "version")
	next, rows := query.after, 0
	for {
		list, err := app.FindKeys(r.Context(), d.Keys, set, query.KeyFilter, next, csvPage)
		if err != nil {
			d.failStore(w, r, "export keys", err)
			return
		}
		for _, s := range list.Subjects {
			t.row(keyCells(s)...)
			rows++
		}
		if next = list.Next; next == "" || rows >= maxCSVKeys || t.full() {
			break
		}
	}
	if next != "" {
		values := filterValues(query.KeyFilter)
		values.Set("after", next)
		next = address(d.path("/keys.csv"), values)
	}
	t.send(w, "tidegate-keys.csv", next)
}

func keyCells(s app.Subject) []string {
	var states, used []string
	for _, b := range badges(s) {
		states = append(states, b.Text)
	}
	for _, u := range s.Now.Limits {
		used = append(used, strconv.FormatInt(u.Used(), 10))
	}
	until, reason := "", ""
	if s.Override != nil {
		until, reason = stamp(s.Override.Until), s.Override.Reason
	}
	return []string{
		s.ID, s.Name, s.Plan, string(s.Status), strings.Join(states, "; "), s.Env, strings.Join(s.Tags, ", "), limitsWords(s.Effective.Limits),
		strings.Join(used, "; "), until, reason, stamp(s.Expires), stamp(s.BannedUntil), stamp(s.Created), stamp(s.Updated),
		strconv.FormatInt(s.Version, 10),
	}
}

// exportAudit sends the entries that the filter means, newest first, as far as one file
// goes.
func (d *dashboard) exportAudit(w http.ResponseWriter, r *http.Request) {
	query, ok := readAuditQuery(r)
	if !ok {
		d.fail(w, r, problem{status: http.StatusBadRequest})
		return
	}
	t := newTable("id", "time", "kind", "by", "action", "subject", "name", "version", "reason", "before", "after", "hash")
	query.Count = csvPage
	rows := 0
	for {
		list, err := d.Keys.Audit().List(r.Context(), query)
		if err != nil {
			d.failAudit(w, r, err)
			return
		}
		for _, e := range list.Entries {
			t.row(entryCells(e)...)
			rows++
		}
		if query.After = list.Next; list.Next == "" || rows >= maxCSVEntries || t.full() {
			break
		}
	}
	next := ""
	if query.After != "" {
		values := auditValues(query)
		values.Set("after", query.After)
		next = address(d.path("/audit.csv"), values)
	}
	t.send(w, "tidegate-audit.csv", next)
}

func entryCells(e audit.Entry) []string {
	subject := e.Subject
	if subject == policyset.SetID {
		subject = "policy"
	}
	return []string{
		e.ID, stamp(e.Time), e.By.Kind, e.By.Name, e.Action, subject, e.Name, strconv.FormatInt(e.Version, 10), e.Reason,
		string(e.Before), string(e.After), e.Hash,
	}
}
