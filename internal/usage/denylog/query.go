package denylog

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
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

// Entry is one entry of the log.
type Entry struct {
	Denial
	Time    time.Time // to the millisecond, by the clock of the environment
	Subject string    // id of the caller; empty for a caller that Valkey could not verify
	// Calls is 1, or more if the entry stands for later calls of the same kind and
	// minute.
	Calls int64
}

// Query says which denials to list. Zero fields match every denial.
type Query struct {
	OnTrial                           bool // read the log of limits on trial
	Subject, Plan, Group, Rule, Limit string
	Route                             string // as RouteOf names it
	Request                           string // id of the call
	Cause                             cause.Cause
	From, To                          time.Time // required; From is at most Retention ago
	After                             string    // cursor of a Page; empty for the first page
	Count                             int       // of a page, 1 to MaxPage
}

// AnyTrial is the name of every cause of the log of limits on trial.
const AnyTrial = "would-block"

// SetCause chooses the log and the cause by the name of a cause, AnyTrial, or "" for all
// denials. It reports whether there is such a name.
func (q *Query) SetCause(name string) bool {
	q.Cause = cause.Named(name)
	q.OnTrial = name == AnyTrial || q.Cause.OnTrial()
	return name == "" || q.OnTrial || q.Cause != 0
}

// CauseName returns the name that chooses the log and the cause.
func (q *Query) CauseName() string {
	if q.OnTrial && q.Cause == 0 {
		return AnyTrial
	}
	return q.Cause.String()
}

// Page is a page of the denial log, newest first.
type Page struct {
	Denials []Entry
	Next    string // cursor of the page that follows; empty on the last one
	// Unreadable is the number of kinds of entries that were skipped, because they cannot
	// be decoded, in the hours that were read.
	Unreadable int64
}

const (
	// Retention is how long the denial log keeps an entry.
	Retention = 24 * time.Hour
	// MaxPage is the longest page.
	MaxPage = 500
	// searchTime is how long Read searches. It then returns what it has found.
	searchTime = 200 * time.Millisecond

	secondsPerHour = 3600
)

// ErrCursor means that a Query's After is not a cursor of a Page.
var ErrCursor = errors.New("denylog: not a cursor")

// Name returns the key of a bucket's log in an hour since 1970: of denials, or of what
// limits on trial would have denied.
func Name(b keyspace.Bucket, hour int64, onTrial bool) string {
	name := "usage-l"
	if onTrial {
		name = "usage-w"
	}
	return b.Name(name + strconv.FormatInt(hour, 10))
}

// Read returns the denials that follow the cursor, newest first. It reads the log hour by
// hour, one flush each, or for one caller all hours in one flush. After 200 ms it returns
// what it has found, with a cursor.
func Read(ctx context.Context, client valkey.Client, q Query) (Page, error) {
	at, err := parsePlace(q.After)
	if err != nil {
		return Page{}, err
	}
	count := min(max(q.Count, 1), MaxPage)
	began := time.Now()
	var page Page
	for hour, err := range hoursFrom(ctx, client, q, at) {
		if err != nil {
			return Page{}, err
		}
		page.Denials = append(page.Denials, hour.denials...)
		page.Unreadable += hour.unreadable
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

// All iterates over the denials of a query, newest first. It holds those of one hour in
// memory at a time.
func All(ctx context.Context, client valkey.Client, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for hour, err := range hoursFrom(ctx, client, q, place{ms: maxPlace}) {
			if err != nil {
				yield(Entry{}, err)
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

// OfSubject returns every denial of one caller, newest first, in one flush.
func OfSubject(ctx context.Context, client valkey.Client, q Query) (Page, error) {
	var page Page
	for hour, err := range hoursFrom(ctx, client, q, place{ms: maxPlace}) {
		if err != nil {
			return Page{}, err
		}
		page.Denials = append(page.Denials, hour.denials...)
		page.Unreadable += hour.unreadable
	}
	return page, nil
}

// place is a position in the log: after everything newer than ms, and after the first
// skip entries of that millisecond.
type place struct {
	ms   int64 // since 1970
	skip int
}

const maxPlace = 1 << 52 // ms of the start of the log

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

// placeAfter returns the place after a page that began at another place.
func placeAfter(page []Entry, began place) place {
	p := place{ms: page[len(page)-1].Time.UnixMilli()}
	for i := len(page) - 1; i >= 0 && page[i].Time.UnixMilli() == p.ms; i-- {
		p.skip++
	}
	if p.ms == began.ms {
		p.skip += began.skip
	}
	return p
}

// hourOfLog is the denials of one hour that match a query.
type hourOfLog struct {
	start   time.Time
	denials []Entry
	last    bool // whether it is the oldest hour of the query
	// unreadable is the number of fields that cannot be decoded
	unreadable int64
}

// hoursFrom iterates over the hours of a query after a place, newest first.
func hoursFrom(ctx context.Context, client valkey.Client, q Query, at place) iter.Seq2[hourOfLog, error] {
	buckets := keyspace.All()
	if q.Subject != "" {
		buckets = []keyspace.Bucket{keyspace.BucketOf(q.Subject)}
	}
	newest := min(q.To.Add(-1).Unix(), at.ms/1000) / secondsPerHour
	oldest := q.From.Unix() / secondsPerHour
	perFlush := int64(1) // hours
	if q.Subject != "" {
		perFlush = newest - oldest + 1
	}
	return func(yield func(hourOfLog, error) bool) {
		for hour := newest; hour >= oldest; hour -= perFlush {
			hours, err := readHours(ctx, client, q, buckets, hour, max(hour-perFlush+1, oldest))
			if err != nil {
				yield(hourOfLog{}, fmt.Errorf("denial log: %w", err))
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

// rest returns the denials after the place.
func (p place) rest(denials []Entry) []Entry {
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

// readHours reads hours of some buckets in one flush, newest first.
func readHours(ctx context.Context, client valkey.Client, q Query, buckets []keyspace.Bucket,
	newest, oldest int64) ([]hourOfLog, error) {
	var commands valkey.Commands
	for hour := newest; hour >= oldest; hour-- {
		for _, b := range buckets {
			commands = append(commands, client.B().Hgetall().Key(Name(b, hour, q.OnTrial)).Build())
		}
	}
	hours := make([]hourOfLog, newest-oldest+1)
	for i, result := range client.DoMulti(ctx, commands...) {
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
			if hours[n].add(q, field, value) != nil { // one bad field must not hide the others
				hours[n].unreadable++
			}
		}
	}
	for i := range hours {
		slices.SortStableFunc(hours[i].denials, newestFirst)
	}
	return hours, nil
}

func newestFirst(a, b Entry) int {
	return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Subject, b.Subject),
		cmp.Compare(a.Request, b.Request), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Calls, b.Calls))
}

// add adds the denials of a kind that match the query.
func (h *hourOfLog) add(q Query, field, value string) error {
	k, err := ParseKind(field)
	if err == nil && k.Cause.String() == "" { // of a later version
		err = errLog
	}
	if err != nil || !q.matches(&k) {
		return err
	}
	occurrences, err := ParseOccurrences(value)
	if err != nil {
		return err
	}
	for _, o := range occurrences {
		at := h.start.Add(time.Duration(o.At) * time.Millisecond)
		if at.Before(q.From) || !at.Before(q.To) || q.Request != "" && q.Request != o.Request {
			continue
		}
		h.denials = append(h.denials, Entry{
			Time: at, Subject: k.Subject, Calls: o.Calls, Denial: Denial{
				Cause: k.Cause, Plan: k.Plan, Group: k.Group, Limit: k.Limit, Rule: k.Rule, Method: k.Method,
				Path: k.Path, API: k.API, Stage: k.Stage, Network: o.Network, RetryAfter: o.RetryAfter,
				Request: o.Request, Reason: k.Reason,
			},
		})
	}
	return nil
}

func (q *Query) matches(k *Kind) bool {
	same := func(want, got string) bool { return want == "" || clip(want) == got }
	return same(q.Subject, k.Subject) && same(q.Plan, k.Plan) && same(q.Rule, k.Rule) &&
		same(q.Group, k.Group) && same(q.Limit, k.Limit) && (q.Cause == 0 || q.Cause == k.Cause) &&
		(q.Route == "" || q.Route == RouteOf(k.Method, k.Path))
}
