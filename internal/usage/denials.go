package usage

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/store/keyspace"
)

// LoggedDenial is an entry of the denial log.
type LoggedDenial struct {
	Denial
	Time    time.Time // to the millisecond, by the clock of the environment
	Subject string    // id of the caller; empty for one that Valkey could not verify
	// Calls is 1, or more when the entry stands for later calls of the same minute that
	// differ in nothing but time, network, Retry-After and request.
	Calls int64
}

// DenialQuery says which denials to list. Zero fields mean all.
type DenialQuery struct {
	Subject, Plan, Group, Rule, Limit string
	Cause                             cause.Cause
	From, To                          time.Time // From is at most LogKept ago; both required
	After                             string    // cursor
	Count                             int       // of a page, 1 to MaxDenials
}

// DenialPage is a part of the denial log, newest first.
type DenialPage struct {
	Denials []LoggedDenial
	Next    string // cursor of the page that follows; empty on the last one
}

const (
	// LogKept is how long the denial log keeps an entry.
	LogKept = 24 * time.Hour
	// MaxDenials is the longest page.
	MaxDenials = 500
	// searchTime is after how long a search for a page ends with what it found.
	searchTime = 200 * time.Millisecond
)

// Denials returns the denials that follow the cursor, newest first. It reads the log hour
// by hour, one flush each, and of one caller all at once. After 200 ms it returns what it
// has found, with a cursor.
func (r *Reader) Denials(ctx context.Context, q DenialQuery) (DenialPage, error) {
	at, err := parsePlace(q.After)
	if err != nil {
		return DenialPage{}, err
	}
	count := min(max(q.Count, 1), MaxDenials)
	began := time.Now()
	var page DenialPage
	for hour, err := range r.denialHours(ctx, q, at) {
		if err != nil {
			return DenialPage{}, err
		}
		page.Denials = append(page.Denials, hour.denials...)
		if len(page.Denials) > count {
			page.Denials = page.Denials[:count]
			page.Next = placeAfter(page.Denials, at).cursor()
			break
		}
		if !hour.last && time.Since(began) > searchTime {
			page.Next = place{hour.start.UnixMilli() - 1, 0}.cursor()
			break
		}
	}
	return page, nil
}

// EveryDenial goes through the denials of a query, newest first. It holds those of one
// hour in memory at a time.
func (r *Reader) EveryDenial(ctx context.Context, q DenialQuery) iter.Seq2[LoggedDenial, error] {
	return func(yield func(LoggedDenial, error) bool) {
		for hour, err := range r.denialHours(ctx, q, place{ms: maxPlace}) {
			if err != nil {
				yield(LoggedDenial{}, err)
				return
			}
			for _, d := range hour.denials {
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// place is a place in the log: before everything older than ms, and before what is as old
// except for the first of them that skip counts.
type place struct {
	ms   int64
	skip int
}

const maxPlace = 1 << 52

func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", p.ms, p.skip))
}

func parsePlace(cursor string) (place, error) {
	if cursor == "" {
		return place{ms: maxPlace}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return place{}, ErrCursor
	}
	first, second, _ := strings.Cut(string(text), ".")
	ms, msErr := strconv.ParseInt(first, 10, 64)
	skip, skipErr := strconv.Atoi(second)
	if msErr != nil || skipErr != nil || ms < 0 || ms > maxPlace || skip < 0 {
		return place{}, ErrCursor
	}
	return place{ms, skip}, nil
}

// placeAfter returns the place behind a page that began at another.
func placeAfter(page []LoggedDenial, began place) place {
	p := place{ms: page[len(page)-1].Time.UnixMilli()}
	for i := len(page) - 1; i >= 0 && page[i].Time.UnixMilli() == p.ms; i-- {
		p.skip++
	}
	if p.ms == began.ms {
		p.skip += began.skip
	}
	return p
}

// hourOfDenials is what a query finds in one hour.
type hourOfDenials struct {
	start   time.Time
	denials []LoggedDenial
	last    bool
}

// denialHours reads the hours of a query from a place on, newest first.
func (r *Reader) denialHours(ctx context.Context, q DenialQuery, at place) iter.Seq2[hourOfDenials, error] {
	buckets := keyspace.All()
	if q.Subject != "" {
		buckets = []keyspace.Bucket{keyspace.BucketOf(q.Subject)}
	}
	newest := min(q.To.Add(-1).Unix(), at.ms/1000) / secondsPerHour
	oldest := q.From.Unix() / secondsPerHour
	together := int64(1)
	if q.Subject != "" {
		together = newest - oldest + 1
	}
	return func(yield func(hourOfDenials, error) bool) {
		for hour := newest; hour >= oldest; hour -= together {
			hours, err := r.denialsOf(ctx, q, buckets, hour, max(hour-together+1, oldest))
			if err != nil {
				yield(hourOfDenials{}, fmt.Errorf("usage: denials: %w", err))
				return
			}
			for _, found := range hours {
				found.denials = at.rest(found.denials)
				found.last = found.start.Unix()/secondsPerHour == oldest
				if !yield(found, nil) {
					return
				}
			}
		}
	}
}

// rest returns the denials from the place on.
func (p place) rest(denials []LoggedDenial) []LoggedDenial {
	skip := p.skip
	for i := range denials {
		ms := denials[i].Time.UnixMilli()
		if ms < p.ms || ms == p.ms && skip == 0 {
			return denials[i:]
		}
		if ms == p.ms {
			skip--
		}
	}
	return nil
}

// denialsOf reads hours of some buckets in one flush, newest first.
func (r *Reader) denialsOf(ctx context.Context, q DenialQuery, buckets []keyspace.Bucket,
	newest, oldest int64) ([]hourOfDenials, error) {
	var commands valkey.Commands
	for hour := newest; hour >= oldest; hour-- {
		for _, b := range buckets {
			commands = append(commands, r.client.B().Hgetall().Key(logName(b, hour)).Build())
		}
	}
	hours := make([]hourOfDenials, newest-oldest+1)
	for i, result := range r.client.DoMulti(ctx, commands...) {
		n := int64(i / len(buckets))
		hours[n].start = time.Unix((newest-n)*secondsPerHour, 0).UTC()
		log, err := result.AsStrMap()
		if err != nil {
			return nil, err
		}
		for field, value := range log {
			if field == "" || strings.HasPrefix(field, counterField) {
				continue
			}
			if err := hours[n].add(q, field, value); err != nil {
				return nil, err
			}
		}
	}
	for i := range hours {
		slices.SortStableFunc(hours[i].denials, newestFirst)
	}
	return hours, nil
}

func newestFirst(a, b LoggedDenial) int {
	return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Subject, b.Subject),
		cmp.Compare(a.Request, b.Request), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Path, b.Path))
}

// add adds the denials of a group that the query means.
func (h *hourOfDenials) add(q DenialQuery, field, value string) error {
	g, err := parseGroup(field)
	if err != nil || !q.matches(&g) {
		return err
	}
	occurrences, err := parseOccurrences(value)
	if err != nil {
		return err
	}
	for _, o := range occurrences {
		at := h.start.Add(time.Duration(o.at) * time.Millisecond)
		if at.Before(q.From) || !at.Before(q.To) {
			continue
		}
		h.denials = append(h.denials, LoggedDenial{
			Time: at, Subject: g.subject, Calls: o.calls, Denial: Denial{
				Cause: g.cause, Plan: g.plan, Group: g.keyGroup, Limit: g.limit, Rule: g.rule,
				Method: g.method, Path: g.path,
				API: g.api, Stage: g.stage, Network: o.network, RetryAfter: o.retryAfter, Request: o.request,
			},
		})
	}
	return nil
}

func (q *DenialQuery) matches(g *group) bool {
	same := func(want, got string) bool { return want == "" || clip(want) == got }
	return same(q.Subject, g.subject) && same(q.Plan, g.plan) && same(q.Rule, g.rule) &&
		same(q.Group, g.keyGroup) && same(q.Limit, g.limit) && (q.Cause == 0 || q.Cause == g.cause)
}
