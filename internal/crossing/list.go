package crossing

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce"
	"tidegate/internal/store/keyspace"
)

const (
	// Retention is how long a report is listed. If a bucket has more than 128 reports,
	// the oldest of the subject with the most reports is removed earlier.
	Retention = 30 * 24 * time.Hour
	// MaxPage is the longest page.
	MaxPage = 500
)

// ErrCursor means that a text is not a cursor.
var ErrCursor = errors.New("crossing: not a cursor")

// Query says which reports to list.
type Query struct {
	Subject string // only of limits on this subject; empty for all
	After   string // Next of the page before; empty for the first page
	Count   int    // 1 to MaxPage
}

// Page is a page of reports, newest first.
type Page struct {
	Events []Event
	Next   string // cursor of the next page; empty on the last
	// Unreadable is the number of reports that were skipped, since they cannot be decoded.
	Unreadable int64
	// Dropped is about how many reports of callers without an API key found no room in the
	// bounds of yesterday and today, in UTC.
	Dropped int64
}

// Store lists and reports crossings for the dashboard and the API.
type Store struct {
	// Target is the ARN of the event bus or topic to which the lines are forwarded; empty
	// if nothing forwards them. Set it before the first use.
	Target string

	client valkey.Client
	log    *Log
}

// NewStore returns a Store that writes lines to a logger.
func NewStore(client valkey.Client, lines *slog.Logger) *Store {
	return &Store{client: client, log: NewLog(lines)}
}

// Report reports the crossings of a settlement immediately.
func (s *Store) Report(ctx context.Context, call Call, crossings []enforce.Crossing) {
	if len(crossings) > 0 {
		s.log.Note(call, crossings)
		s.log.Send(ctx, s.client)
	}
}

// TestPause is the least time between two tests.
const TestPause = time.Minute

// The errors of Test.
var (
	ErrNoTarget = errors.New("crossing: nothing forwards the lines of crossed limits")
	ErrTested   = errors.New("crossing: a test was sent less than a minute ago")
)

// Test writes the line of a made-up event, marked as a test by a person. It takes the way
// of every other line, and is not listed.
func (s *Store) Test(ctx context.Context, by string) error {
	if s.Target == "" {
		return ErrNoTarget
	}
	name := keyspace.BucketOf(testID).Name("usage-xtest")
	err := s.client.Do(ctx, s.client.B().Set().Key(name).Value("1").Nx().Px(TestPause).Build()).Error()
	switch {
	case valkey.IsValkeyNil(err):
		return ErrTested
	case err != nil:
		return fmt.Errorf("crossing: test: %w", err)
	}
	now := time.Now()
	e := Event{Time: now, KeyID: testID, KeyName: "Test of alerts by " + by, Who: whoCaller,
		Subject: testID, Limit: "100 per hour", Threshold: 100, Used: 100, Max: 100,
		Resets: now.Add(time.Hour)}
	s.log.lines.LogAttrs(ctx, slog.LevelInfo, Message, append(e.attrs(), slog.Bool("test", true))...)
	return nil
}

const testID = "test" // key and subject of a test; too short for an id

// List returns a page of reports. It reads them in one flush.
func (s *Store) List(ctx context.Context, q Query) (Page, error) {
	newest, skip, err := parseCursor(q.After)
	if err != nil {
		return Page{}, err
	}
	count := min(max(q.Count, 1), MaxPage)
	buckets, read := keyspace.All(), int64(count+skip+1)
	if q.Subject != "" { // reads all: other subjects share the bucket's list
		buckets, read = []keyspace.Bucket{keyspace.BucketOf(q.Subject)}, -1
	}
	oldest := strconv.FormatInt(time.Now().Add(-Retention).UnixMilli(), 10)
	commands := make(valkey.Commands, len(buckets))
	for i, b := range buckets {
		commands[i] = s.client.B().Zrevrangebyscore().Key(listName(b)).Max(newest).Min(oldest).Limit(0,
			read).Build()
	}
	var events []Event
	unreadable := int64(0)
	for _, result := range s.client.DoMulti(ctx, commands...) {
		reports, err := result.AsStrSlice()
		if err != nil {
			return Page{}, fmt.Errorf("crossing: list: %w", err)
		}
		var bad int64
		events, bad = appendEvents(events, reports, q.Subject)
		unreadable += bad
	}
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.mark(), b.mark()))
	})
	events = events[min(skip, len(events)):]
	page := Page{Events: events[:min(count, len(events))], Unreadable: unreadable}
	if page.Dropped, err = s.dropped(ctx, buckets); err != nil || len(events) <= count {
		return page, err
	}
	page.Next = cursorAfter(page.Events, newest, skip)
	return page, nil
}

// dropped returns the sum of the reports that found no room in buckets, yesterday and
// today.
func (s *Store) dropped(ctx context.Context, buckets []keyspace.Bucket) (int64, error) {
	now := time.Now()
	var commands valkey.Commands
	for _, b := range buckets {
		for _, at := range []time.Time{now.AddDate(0, 0, -1), now} {
			commands = append(commands, s.client.B().Hmget().Key(countName(b, at)).Field("dt", "du").Build())
		}
	}
	sum := int64(0)
	for _, result := range s.client.DoMulti(ctx, commands...) {
		counts, err := result.AsStrSlice()
		if err != nil {
			return 0, fmt.Errorf("crossing: count: %w", err)
		}
		for _, text := range counts {
			n, _ := strconv.ParseInt(text, 10, 64) // empty if there are none
			sum += n
		}
	}
	return sum, nil
}

// appendEvents appends the events of reports that are about a subject, and returns the
// number of reports that cannot be decoded.
func appendEvents(events []Event, reports []string, subject string) (all []Event, unreadable int64) {
	for _, report := range reports {
		var e Event
		if json.Unmarshal([]byte(report), &e) != nil {
			unreadable++
			continue
		}
		if subject == "" || e.Subject == subject {
			events = append(events, e)
		}
	}
	return events, unreadable
}

// cursorAfter returns the cursor after a page: the millisecond of its last report, and
// how many reports of that millisecond were shown up to there.
func cursorAfter(page []Event, newest string, skip int) string {
	last := page[len(page)-1].Time.UnixMilli()
	shown := 0
	for i := len(page) - 1; i >= 0 && page[i].Time.UnixMilli() == last; i-- {
		shown++
	}
	if newest == strconv.FormatInt(last, 10) {
		shown += skip
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", last, shown))
}

// maxSkip is how many reports of one millisecond a cursor may skip.
const maxSkip = 1 << 16

func parseCursor(cursor string) (newest string, skip int, err error) {
	if cursor == "" {
		return "+inf", 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", 0, ErrCursor
	}
	first, second, _ := strings.Cut(string(text), ".")
	ms, msErr := strconv.ParseInt(first, 10, 64)
	skip, skipErr := strconv.Atoi(second)
	if msErr != nil || skipErr != nil || ms < 0 || skip < 0 || skip > maxSkip {
		return "", 0, ErrCursor
	}
	return strconv.FormatInt(ms, 10), skip, nil
}
