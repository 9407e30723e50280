package crossing

import (
	"cmp"
	"context"
	_ "embed" // the script
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
	// Kept is how long a report is listed, unless its bucket has 128 others and no
	// subject has more of them.
	Kept = 30 * 24 * time.Hour
	// MaxPage is the longest page.
	MaxPage = 500
)

var (
	// ErrCursor means that a cursor is not one of a page before.
	ErrCursor   = errors.New("crossing: not a cursor")
	errNoClient = errors.New("no connection to Valkey")
)

// Query says which reports to list.
type Query struct {
	Subject string // of limits on this alone; empty for all
	After   string // cursor
	Count   int    // of a page, 1 to MaxPage
}

// Page is a part of the reports, newest first.
type Page struct {
	Events []Event
	Next   string // cursor of the page that follows; empty on the last one
}

// Store is what the dashboard and its API have of crossings.
type Store struct {
	client valkey.Client
	log    *Log
}

// NewStore returns a Store whose lines go where a logger writes.
func NewStore(client valkey.Client, lines *slog.Logger) *Store {
	return &Store{client: client, log: NewLog(lines)}
}

// Report reports what a reservation or its settlement crossed, at once.
func (s *Store) Report(ctx context.Context, call Call, crossings []enforce.Crossing) {
	if len(crossings) > 0 {
		s.log.Note(call, crossings)
		s.log.Send(ctx, s.client)
	}
}

// List returns the reports that follow the cursor, in one flush.
func (s *Store) List(ctx context.Context, q Query) (Page, error) {
	client := s.client
	newest, skip, err := parseCursor(q.After)
	if err != nil {
		return Page{}, err
	}
	count := min(max(q.Count, 1), MaxPage)
	buckets := keyspace.All()
	if q.Subject != "" {
		buckets = []keyspace.Bucket{keyspace.BucketOf(q.Subject)}
	}
	read := int64(count + skip + 1)
	if q.Subject != "" {
		read = -1 // others share the bucket's list
	}
	oldest := strconv.FormatInt(time.Now().Add(-Kept).UnixMilli(), 10)
	commands := make(valkey.Commands, len(buckets))
	for i, b := range buckets {
		commands[i] = client.B().Zrevrangebyscore().Key(listName(b)).Max(newest).Min(oldest).Limit(0,
			read).Build()
	}
	var events []Event
	for _, result := range client.DoMulti(ctx, commands...) {
		reports, err := result.AsStrSlice()
		if err != nil {
			return Page{}, fmt.Errorf("crossing: list: %w", err)
		}
		if events, err = appendEvents(events, reports, q.Subject); err != nil {
			return Page{}, err
		}
	}
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.mark(), b.mark()))
	})
	events = events[min(skip, len(events)):]
	if len(events) <= count {
		return Page{Events: events}, nil
	}
	page := Page{Events: events[:count]}
	page.Next = cursorAfter(page.Events, newest, skip)
	return page, nil
}

func appendEvents(events []Event, reports []string, subject string) ([]Event, error) {
	for _, report := range reports {
		var e Event
		if err := json.Unmarshal([]byte(report), &e); err != nil {
			return nil, fmt.Errorf("crossing: list: %w", err)
		}
		if subject == "" || e.Subject == subject {
			events = append(events, e)
		}
	}
	return events, nil
}

// cursorAfter says where a page ends: the millisecond of its last report, and how many of
// that millisecond came before.
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

// maxSkip is how many reports of one millisecond a cursor may pass over.
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

//go:embed crossing.lua
var crossingLua string

var script = valkey.NewLuaScript(crossingLua)

// store enters the event into the list, unless it was reported before.
func (e *Event) store(ctx context.Context, client valkey.Client) (news int64, err error) {
	if client == nil {
		return 0, fmt.Errorf("crossing: %w", errNoClient)
	}
	report, err := json.Marshal(e)
	if err != nil {
		return 0, fmt.Errorf("crossing: %w", err)
	}
	b := keyspace.BucketOf(e.Subject)
	class := "u"
	if e.registered {
		class = "r"
	}
	keys := []string{b.Name("usage-x" + e.mark()), listName(b), countName(b, e.Time)}
	args := []string{class, string(report), strconv.FormatInt(e.Time.UnixMilli(), 10),
		strconv.FormatInt(max(leastMark, e.Resets.Sub(e.Time)).Milliseconds(), 10)}
	news, err = script.Exec(ctx, client, keys, args).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("crossing: %w", err)
	}
	return news, nil
}

func listName(b keyspace.Bucket) string { return b.Name("usage-crossings") }

func countName(b keyspace.Bucket, at time.Time) string {
	return b.Name("usage-y" + strconv.FormatInt(at.Unix()/int64(24*time.Hour/time.Second), 10))
}
