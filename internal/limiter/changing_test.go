package limiter

import (
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"
)

// changing is a random history of one subject whose limits change.
type changing struct {
	ledger
	model, blind Model         // blind gets no looks
	client       valkey.Client // nil to use the model only
	take, look   *valkey.Lua
	key          string
	plans        [2][]Limit
	former       [][]Limit
	current      int     // the plan of the next call
	override     []Limit // in force until expiry
	expiry       int64
	all          map[Limit]int64 // every limit so far
	log          []string
}

var (
	countWindows = rapid.OneOf(rapid.SampledFrom([]time.Duration{time.Second, 2 * time.Second,
		5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute,
		30 * time.Minute,
		time.Hour}), rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(1_000, 3_600_000).Draw(t, "ms")) * time.Millisecond
	}))
	countRequests = rapid.OneOf(smallRequests, smallRequests, rapid.Int64Range(1, 300))
)

func drawChanging(t *rapid.T) Limit {
	l := Limit{Requests: countRequests.Draw(t, "requests"), Window: countWindows.Draw(t, "window"),
		Algorithm: rapid.SampledFrom(Algorithms()).Draw(t, "algorithm"),
		Calls:     rapid.IntRange(0, 4).Draw(t, "calls") == 0,
		Shadow:    rapid.IntRange(0, 5).Draw(t, "shadow") == 0}
	switch {
	case l.Algorithm == Log:
		l.CountDenied = rapid.IntRange(0, 3).Draw(t, "count denied") == 0
		if rapid.IntRange(0, 2).Draw(t, "grouped") == 0 {
			l.Slots, l.Requests = MinSlots, rapid.Int64Range(1, 900).Draw(t, "requests")
		}
	case l.Algorithm == FixedWindow && rapid.Bool().Draw(t, "by calendar"):
		l.Window, l.Calendar = 0, rapid.SampledFrom([]Calendar{Minute, Hour, Day}).Draw(t, "calendar")
		l.Zone = rapid.SampledFrom([]string{"", "Europe/Berlin", "Asia/Kathmandu"}).Draw(t, "zone")
	}
	return l
}

func (h *changing) drawPlan(t *rapid.T, most int) []Limit {
	return rapid.SliceOfN(rapid.Custom(drawChanging), 1, most).Draw(t, "limits")
}

// limits returns the limits in force and those that only count.
func (h *changing) limits() (limits, counted []Limit) {
	if h.override != nil && h.now >= h.expiry {
		h.override = nil
	}
	if h.override != nil {
		return h.override, h.plans[h.current]
	}
	return h.plans[h.current], nil
}

// set replaces the current plan, unless a state could have too many parts.
func (h *changing) set(plan []Limit) {
	if h.count(plan) {
		h.former = append(h.former, h.plans[h.current])
		h.plans[h.current] = plan
	}
}

// count notes limits. It reports false if the state could have too many parts.
func (h *changing) count(limits []Limit) bool {
	parts := names(limits, nil)
	for id := range h.all {
		parts[id] = 0
	}
	if len(parts) > maxParts {
		return false
	}
	h.all = parts
	return true
}

// edit changes the current plan.
func (h *changing) edit(t *rapid.T) {
	plan := slices.Clone(h.plans[h.current])
	l := &plan[rapid.IntRange(0, len(plan)-1).Draw(t, "which")]
	switch rapid.IntRange(0, 7).Draw(t, "edit") {
	case 0:
		l.Requests = countRequests.Draw(t, "requests")
	case 1:
		if l.Calendar == NoCalendar {
			l.Window = countWindows.Draw(t, "window")
		}
	case 2:
		l.CountDenied = l.Algorithm == Log && !l.CountDenied
	case 3, 4:
		l.Shadow = !l.Shadow
	case 5:
		plan = h.drawPlan(t, 4)
	case 6:
		*l = drawChanging(t)
	default: // an undo, or the other plan's list
		h.former = append(h.former, h.plans[1-h.current])
		plan = rapid.SampledFrom(h.former).Draw(t, "former")
	}
	h.set(plan)
}

// change makes an edit, begins or ends an override, or changes the plan.
func (h *changing) change(t *rapid.T) {
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0, 1:
		h.edit(t)
	case 2, 3:
		if h.override != nil {
			h.override = nil
			return
		}
		if override := h.drawPlan(t, 2); h.count(override) {
			h.override, h.expiry = override, forever
			if rapid.Bool().Draw(t, "expires") {
				h.expiry = h.now + rapid.Int64Range(0, 2*h.window(t)).Draw(t, "expiry")
			}
		}
	default:
		h.current = 1 - h.current
	}
}

// window draws a window of a list.
func (h *changing) window(t *rapid.T) int64 {
	list := rapid.SampledFrom([][]Limit{h.plans[h.current], h.plans[1-h.current], h.override}).Draw(t, "of")
	if len(list) == 0 {
		list = h.plans[0]
	}
	return rapid.SampledFrom(list).Draw(t, "limit").Span().Microseconds()
}

func (h *changing) advance(t *rapid.T) {
	w := h.window(t)
	switch rapid.IntRange(0, 9).Draw(t, "move") {
	case 0:
		h.move(h.now + w)
	case 1:
		h.move(h.now + w - 1)
	case 2:
		h.move(h.now + rapid.Int64Range(0, 3*w).Draw(t, "far"))
	case 3:
		h.move(h.now - rapid.Int64Range(0, min(w/5, 1_000_000)).Draw(t, "back"))
	default:
		h.move(h.now + rapid.Int64Range(0, w/3).Draw(t, "forward"))
	}
}
