package dashboard

import (
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// keyRow is a key and what a call of it would get now.
func (d *dashboard) keyRow(s app.Subject, query string) templates.KeyRow {
	row := templates.KeyRow{
		ID:       s.ID,
		Name:     page.Clip(s.Name, page.MaxName),
		Address:  d.Path("/keys/"+s.ID) + query,
		Plan:     page.Clip(s.Plan, page.MaxName),
		Badges:   badges(s),
		Readable: s.Status != policy.Unreadable,
	}
	for _, tag := range s.Tags {
		row.Tags = append(row.Tags, page.Clip(tag, policy.MaxTagLen))
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
		Used:       page.Number(u.Used()),
		Of:         page.Number(u.Limit.Requests),
		Remaining:  page.Number(u.Remaining),
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
	w.ResetsLeft, w.RetryLeft = secondsLeft(u.Reset), secondsLeft(u.RetryAfter)
	if u.Reset > 0 {
		w.Resets = page.Span(u.Reset)
	}
	if u.RetryAfter > 0 {
		w.RetryAfter = page.Span(u.RetryAfter)
	}
	return w
}

// secondsLeft is what a script counts down.
func secondsLeft(d time.Duration) string {
	return strconv.FormatFloat(max(d, 0).Seconds(), 'f', 3, 64)
}

// countedWords says how a limit counts: "exact, denied calls count".
func countedWords(l limiter.Limit) string {
	marks := policydoc.Marks(l)
	if l.Algorithm == limiter.Log {
		marks = append([]string{policydoc.Algorithm(l.Algorithm)}, marks...)
	}
	return strings.Join(marks, ", ")
}
