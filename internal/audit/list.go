package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/store/keyspace"
)

// Query asks for a page of entries, newest first.
type Query struct {
	Subject string // only this subject's
	Named   string // only of subjects that had this name then, whatever the case
	Action  string // only actions that start with it
	By      string // only this actor's name
	Job     string // only changes of this bulk job
	// only entries that Valkey took then or later; the Previous of the oldest may be
	// empty. Zero for all
	Since time.Time
	After string // the Next of the page before; empty for the newest
	Count int    // 1 to 500; 0 means 50
	Heads bool   // leave Before and After to Entry.Opened
	Older bool   // go on with the journal's, where Valkey has no older ones
}

// Page is an answer to a Query.
type Page struct {
	Entries []Entry
	Next    string // empty on the last page
}

// ErrPosition means that Query.After is not a position in the audit.
var ErrPosition = errors.New("not a position in the audit; start from the newest entry")

const (
	defaultCount = 50
	maxCount     = 500
	minEach      = 8 // entries that are read of each of many chains
	// entries that are read together of one chain, at most: of a subject first as many as
	// are asked for, then twice as many
	eachOfOne = 500
	// entries that a query of many chains looks at, so that one that matches little ends;
	// Next goes on from there
	maxLooked = 2_500
	// likewise of one chain, where most are passed over unread; maxLooked in the journal
	maxOfOne = 20_000
)

// List returns a page of entries. It reads a few entries of every chain in one flush, and
// again while the page is not full; with a Subject, of its chain alone. An entry that is
// none of ours has an ID, a Time and Hashes alone. It fails with ErrOlderAway when the
// page would begin with an entry that only the journal has.
func (l *Log) List(ctx context.Context, q Query) (Page, error) {
	at, err := parsePosition(q.After)
	if err != nil {
		return Page{}, err
	}
	count := min(max(q.Count, 0), maxCount)
	if count == 0 {
		count = defaultCount
	}
	buckets := keyspace.All()
	if q.Subject != "" {
		buckets = []keyspace.Bucket{keyspace.BucketOf(q.Subject)}
	}
	each, most := count, maxOfOne
	if q.Subject == "" {
		each, most = min(count, max(minEach, count/64)), maxLooked
	}
	r := reader{log: l, buckets: buckets}
	needle := q.needle()
	var page Page
	for looked := 0; looked < most; {
		entries, more, err := r.read(ctx, q, at, each)
		if errors.Is(err, ErrOlderAway) && len(page.Entries) > 0 {
			break
		}
		if err != nil {
			return Page{}, err
		}
		if r.older {
			most = maxLooked
		}
		for i, found := range entries {
			at = found.at
			if e, matches := q.match(found, needle); matches {
				page.Entries = append(page.Entries, e)
			}
			if len(page.Entries) == count {
				if more || i+1 < len(entries) {
					page.Next = at.String()
				}
				return page, nil
			}
		}
		if !more {
			return page, nil
		}
		if looked += each * len(buckets); q.Subject != "" {
			each = min(2*each, eachOfOne)
		}
	}
	page.Next = at.String()
	return page, nil
}

// start is the stream id at which the oldest entries may be.
func (q Query) start() string {
	if q.Since.IsZero() {
		return "-"
	}
	return strconv.FormatInt(max(0, q.Since.UnixMilli()), 10)
}

// needle is a text that every stored entry that matches has, so that most others are
// passed over without being decoded. Empty when any will do.
func (q Query) needle() string {
	wanted, before := cmp.Or(q.Subject, q.Job, q.By), ""
	if wanted == "" {
		wanted, before = q.Action, `"a":`
	}
	if wanted == "" {
		return ""
	}
	text, _ := json.Marshal(wanted) // as in the body
	return before + strings.TrimSuffix(string(text), `"`)
}

// match decodes an entry that has the needle and matches.
func (q Query) match(found stored, needle string) (e Entry, matches bool) {
	if !strings.Contains(found.found[0].FieldValues["e"], needle) {
		return Entry{}, false
	}
	if e = decode(found.bucket, found.found); !q.matches(e) {
		return Entry{}, false
	}
	if !q.Heads {
		e = e.Opened()
	}
	return e, true
}

func (q Query) matches(e Entry) bool {
	return (q.Subject == "" || e.Subject == q.Subject) &&
		(q.Named == "" || strings.EqualFold(e.Name, q.Named)) && strings.HasPrefix(e.Action, q.Action) &&
		(q.By == "" || e.By.Name == q.By) && (q.Job == "" || e.Job == q.Job)
}

// Get returns the entry with this id.
func (l *Log) Get(ctx context.Context, id string) (Entry, bool, error) {
	p, err := parsePosition(id)
	if err != nil || id == "" {
		return Entry{}, false, ErrPosition
	}
	bucket := keyspace.Bucket(p.bucket)
	at, after := fmt.Sprintf("%d-%d", p.ms, p.sequence), position{p.ms, p.sequence + 1, p.bucket}
	for _, older := range []bool{false, true} {
		r := reader{log: l, buckets: []keyspace.Bucket{bucket}, older: older}
		chains, err := r.chains(ctx, Query{Older: true}, after, 1)
		if err != nil {
			return Entry{}, false, err
		}
		c := chains[0]
		if c.oldest > 0 && c.found[0].ID == at {
			return decode(bucket, c.found).Opened(), true, nil
		}
		if c.oldest > 0 || !c.more {
			break
		}
	}
	return Entry{}, false, nil
}

// reaches reports whether the query may want an entry that a stream lacks.
func (q Query) reaches(t Trimmed) bool {
	return t.First > 0 && !q.before(positionOf(t.ID+"-0"))
}

// before reports whether a position is before the time that is asked for.
func (q Query) before(p position) bool {
	return !q.Since.IsZero() && time.UnixMilli(int64(p.ms)).Before(q.Since.Truncate(time.Millisecond))
}
