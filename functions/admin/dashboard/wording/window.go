package wording

import (
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// Window is how a limit stands now.
func Window(u limiter.Usage) templates.Window {
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
	case u.NearlyUsedUp():
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
