package schema

import (
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
)

// Window is how a limit stands now.
type Window struct {
	Limit     policydoc.Limit `json:"limit"`
	Text      string          `json:"text" doc:"The limit in words" example:"100 per 10 seconds"`
	Used      int64           `json:"used"`
	Remaining int64           `json:"remaining"`
	Resets    *time.Time      `json:"resets,omitempty" doc:"When the window is empty if nobody calls; absent when it is"`
	NextFree  *time.Time      `json:"nextFree,omitempty" doc:"When the next call passes; absent when it does now"`
}

// WindowOf returns how a limit stood at an instant.
func WindowOf(u limiter.Usage, now time.Time) Window {
	return Window{
		Limit: policydoc.LimitOf(u.Limit), Text: policydoc.LimitText(u.Limit),
		Used: u.Used(), Remaining: u.Remaining,
		Resets: After(now, u.Reset), NextFree: After(now, u.RetryAfter),
	}
}

// WindowsOf returns how the limits of a decision stood when it was made.
func WindowsOf(d limiter.Decision) []Window {
	all := make([]Window, len(d.Limits))
	for i, u := range d.Limits {
		all[i] = WindowOf(u, d.Now)
	}
	return all
}
