package api

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

func windowOf(u limiter.Usage, now time.Time) Window {
	return Window{
		Limit: policydoc.LimitOf(u.Limit), Text: policydoc.LimitText(u.Limit),
		Used: u.Used(), Remaining: u.Remaining,
		Resets: after(now, u.Reset), NextFree: after(now, u.RetryAfter),
	}
}

func windowsOf(d limiter.Decision) []Window {
	all := make([]Window, len(d.Limits))
	for i, u := range d.Limits {
		all[i] = windowOf(u, d.Now)
	}
	return all
}

func after(now time.Time, d time.Duration) *time.Time {
	if d <= 0 {
		return nil
	}
	t := now.Add(d).UTC()
	return &t
}

// given is a time, or nil for none.
func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// timeOf is the inverse of given.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
