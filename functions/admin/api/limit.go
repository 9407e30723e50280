package api

import (
	"fmt"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
)

// Limit is at most so many requests in any window.
type Limit struct {
	Requests    int64  `json:"requests" minimum:"1" maximum:"1000000000"`
	Window      string `json:"window,omitempty" maxLength:"40" example:"10s" doc:"1ms to 366d; none with a calendar"`
	Algorithm   string `json:"algorithm,omitempty" enum:"log,counter,token-bucket,fixed-window" doc:"log, which is exact, when it is left out"`
	CountDenied bool   `json:"countDenied,omitempty" doc:"Denied calls count too; log only, not on limits that callers share"`
	Slots       int    `json:"slots,omitempty" minimum:"64" maximum:"100000" doc:"Bounds the memory of a log"`
	Calendar    string `json:"calendar,omitempty" enum:"minute,hour,day,month" doc:"Periods of the calendar in place of a window; fixed-window only"`
	Zone        string `json:"zone,omitempty" maxLength:"60" example:"Europe/Berlin" doc:"Time zone of the calendar; UTC when it is left out"`
}

func limitOf(l limiter.Limit) Limit {
	out := Limit{Requests: l.Requests, CountDenied: l.CountDenied, Slots: l.Slots,
		Calendar: l.Calendar.String(), Zone: l.Zone}
	if l.Window != 0 {
		out.Window = limiter.ShortWindow(l.Window)
	}
	if l.Algorithm != limiter.Log {
		out.Algorithm = l.Algorithm.String()
	}
	return out
}

func limitsOf(limits []limiter.Limit) []Limit {
	out := make([]Limit, len(limits))
	for i, l := range limits {
		out[i] = limitOf(l)
	}
	return out
}

// details collects what cannot be read of a body.
type details []Detail

func (d *details) add(location string, err error) {
	if err != nil {
		*d = append(*d, Detail{Location: "body." + location, Message: clip(err.Error())})
	}
}

// err is the answer to what was collected; nil when nothing is wrong.
func (d *details) err() error {
	if len(*d) == 0 {
		return nil
	}
	return unprocessable(*d...)
}

// limits reads a list that stands at a place of the body. Bounds are the store's to
// check.
func (d *details) limits(at string, in []Limit) []limiter.Limit {
	var all []limiter.Limit
	for i, l := range in {
		all = append(all, d.limit(fmt.Sprintf("%s[%d]", at, i), l))
	}
	return all
}

func (d *details) limit(at string, in Limit) (l limiter.Limit) {
	l = limiter.Limit{Requests: in.Requests, CountDenied: in.CountDenied, Slots: in.Slots, Zone: in.Zone}
	var err error
	if in.Window != "" {
		l.Window, err = limiter.ParseWindow(in.Window)
		d.add(at+".window", err)
	}
	if in.Algorithm != "" {
		l.Algorithm, err = limiter.ParseAlgorithm(in.Algorithm)
		d.add(at+".algorithm", err)
	}
	l.Calendar, err = limiter.ParseCalendar(in.Calendar)
	d.add(at+".calendar", err)
	return l
}

// Window is how a limit stands now.
type Window struct {
	Limit     Limit      `json:"limit"`
	Text      string     `json:"text" doc:"The limit in words" example:"100 per 10 seconds"`
	Used      int64      `json:"used"`
	Remaining int64      `json:"remaining"`
	Resets    *time.Time `json:"resets,omitempty" doc:"When the window is empty if nobody calls; absent when it is"`
	NextFree  *time.Time `json:"nextFree,omitempty" doc:"When the next call passes; absent when it does now"`
}

func windowOf(u limiter.Usage, now time.Time) Window {
	return Window{
		Limit: limitOf(u.Limit), Text: policydoc.Limit(u.Limit), Used: u.Used(), Remaining: u.Remaining,
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
