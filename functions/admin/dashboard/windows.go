package dashboard

import (
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// maxName bounds a name on a page.
const maxName = 100

// keyRow is a key and what a call of it would get now.
func (d *dashboard) keyRow(s app.Subject, query string) templates.KeyRow {
	row := templates.KeyRow{
		ID:       s.ID,
		Name:     clip(s.Name, maxName),
		Address:  d.path("/keys/"+s.ID) + query,
		Plan:     clip(s.Plan, maxName),
		Badges:   badges(s),
		Readable: s.Status != policy.Unreadable,
	}
	for _, tag := range s.Tags {
		row.Tags = append(row.Tags, clip(tag, policy.MaxTagLen))
	}
	for _, u := range s.Now.Limits {
		row.Windows = append(row.Windows, window(u))
	}
	return row
}

func window(u limiter.Usage) templates.Window {
	share := app.Percent(u.Used(), u.Limit.Requests)
	w := templates.Window{
		Limit:      policydoc.Rate(u.Limit),
		Marks:      policydoc.Marks(u.Limit),
		Counted:    countedWords(u.Limit),
		Used:       number(u.Used()),
		Of:         number(u.Limit.Requests),
		Remaining:  number(u.Remaining),
		Share:      strconv.Itoa(int(share)),
		Level:      "free",
		Resets:     "empty",
		RetryAfter: "now",
	}
	switch {
	case u.Remaining <= 0:
		w.Level, w.Note = "full", "full"
	case share >= app.NearShare:
		w.Level, w.Note = "near", strconv.Itoa(int(share))+" %"
	}
	if u.Reset > 0 {
		w.Resets = span(u.Reset)
	}
	if u.RetryAfter > 0 {
		w.RetryAfter = span(u.RetryAfter)
	}
	return w
}

// countedWords says how a limit counts: "exact, denied calls count".
func countedWords(l limiter.Limit) string {
	marks := policydoc.Marks(l)
	if l.Algorithm == limiter.Log {
		marks = append([]string{policydoc.Algorithm(l.Algorithm)}, marks...)
	}
	return strings.Join(marks, ", ")
}
