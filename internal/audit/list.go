package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/store/keyspace"
)

// Query asks for a page of entries, newest first.
type Query struct {
	Subject string // only this subject's
	Named   string // only of subjects that had this name at the time, ignoring case
	Action  string // only actions that start with it
	By      string // only this actor's name
	Job     string // only changes of this bulk job
	// only entries that Valkey took at this time or later; zero for all. The Previous of
	// the oldest may be empty
	Since      time.Time
	After      string // the Next of the page before; empty for the newest
	Count      int    // 1 to 500; 0 means 50
	KeepPacked bool   // leave Before and After packed, for Entry.Opened
	Older      bool   // continue with entries that only the journal has
	Fold       bool   // only the newest entry on the page of each bulk job
	// MaxBytes bounds the unpacked states of a page; 0 for no bound. A page has at least
	// one entry, whatever its size.
	MaxBytes int
}

// Page is an answer to a Query.
type Page struct {
	Entries []Entry
	Next    string // empty on the last page
}

// ErrPosition means that a Query.After or an id is not a position in the audit log.
var ErrPosition = errors.New("not a position in the audit log; start from the newest entry")

const (
	defaultCount = 50
	maxCount     = 500
	minEach      = 8 // least number of entries per read of each of many chains
	// greatest number of entries per read of one chain: a query with a Subject begins
	// with its Count and doubles the number
	maxEach = 500
	// entries after which a query of many chains returns, although the page is not full;
	// its Next continues from there
	maxScanned = 2_500
	// the same for a query of one chain in Valkey, where most entries are skipped without
	// decoding them
	maxScannedOfOne = 20_000
	// the same with Fold, so that a job of some thousand keys takes no page of its own
	maxScannedFolded = 10_000
)

// List returns a page of entries. It reads some entries of every chain in one flush, or
// with a Subject only of the subject's chain, and repeats that until the page is full. An
// entry that cannot be decoded has only an ID, a Time and hashes. List fails with
// ErrOlderUnavailable if the page would begin with an entry that the journal does not
// return.
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
	each, limit := q.bounds(count)
	r := reader{log: l, buckets: buckets}
	needle, folded := q.needle(), map[string]bool{}
	var page Page
	size := 0 // bytes of the page's states
	for scanned := 0; scanned < limit; {
		entries, more, err := r.read(ctx, q, at, each)
		if errors.Is(err, ErrOlderUnavailable) && len(page.Entries) > 0 {
			break
		}
		if err != nil {
			return Page{}, err
		}
		if r.older {
			limit = maxScanned
		}
		for i, found := range entries {
			if e, matches := q.match(found, needle, folded); matches {
				if size += e.size(); q.MaxBytes > 0 && size > q.MaxBytes && len(page.Entries) > 0 {
					page.Next = at.String()
					return page, nil
				}
				page.Entries = append(page.Entries, e)
			}
			at = found.at
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
		if scanned += each * len(buckets); q.Subject != "" {
			each = min(2*each, maxEach)
		}
	}
	page.Next = at.String()
	return page, nil
}

// bounds returns the entries to begin to read of each chain, and the greatest number of all.
func (q Query) bounds(count int) (each, limit int) {
	each = min(count, max(minEach, count/64))
	switch {
	case q.Subject != "":
		return count, maxScannedOfOne
	case q.Fold:
		return each, maxScannedFolded
	}
	return each, maxScanned
}

// start returns the stream id before which no entry matches.
func (q Query) start() string {
	if q.Since.IsZero() {
		return "-"
	}
	return strconv.FormatInt(max(0, q.Since.UnixMilli()), 10)
}

// needle returns a text that the body of every matching entry contains, so that match
// skips most other entries without decoding them. It may be empty.
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

// match decodes an entry and reports whether it matches. folded has the jobs of which an
// entry matched before.
func (q Query) match(found stored, needle string, folded map[string]bool) (e Entry, matches bool) {
	if !strings.Contains(found.entries[0].FieldValues["e"], needle) {
		return Entry{}, false
	}
	if e = decode(found.bucket, found.entries); !q.matches(e) {
		return Entry{}, false
	}
	if job := e.BulkJob(); q.Fold && job != "" {
		if folded[job] {
			return Entry{}, false
		}
		folded[job] = true
	}
	if !q.KeepPacked {
		e = e.Opened()
	}
	return e, true
}

func (q Query) matches(e Entry) bool {
	return (q.Subject == "" || e.Subject == q.Subject) &&
		(q.Named == "" || strings.EqualFold(e.Name, q.Named)) && strings.HasPrefix(e.Action, q.Action) &&
		(q.By == "" || e.By.Name == q.By) && (q.Job == "" || e.Job == q.Job)
}

// Get returns the entry with this id. It reports false if there is none.
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
		if c.count > 0 && c.entries[0].ID == at {
			return decode(bucket, c.entries).Opened(), true, nil
		}
		if c.count > 0 || !c.more {
			break
		}
	}
	return Entry{}, false, nil
}

// reaches reports whether the query asks for entries that a stream lacks.
func (q Query) reaches(t Trimmed) bool {
	return t.First > 0 && !q.before(positionOf(t.ID+"-0"))
}

// before reports whether a position is before q.Since.
func (q Query) before(p position) bool {
	return !q.Since.IsZero() && time.UnixMilli(int64(p.ms)).Before(q.Since.Truncate(time.Millisecond))
}

// position is the position of an entry among those of all buckets. Positions are ordered
// newest first by milliseconds and sequence, then by bucket.
type position struct {
	ms, sequence uint64
	bucket       int
}

func (p position) String() string { return fmt.Sprintf("%d-%d-%d", p.ms, p.sequence, p.bucket) }

// Before returns the After of a query that begins with the newest entry that Valkey took
// before t. It treats times before 1970 as 1970.
func Before(t time.Time) string {
	return position{ms: uint64(max(1, t.UnixMilli())), bucket: keyspace.Buckets - 1}.String()
}

func positionOf(id string) position {
	p, _ := parsePosition(id) // idOf made the id
	return p
}

// parsePosition decodes a position. An empty text is the position before the newest
// entry.
func parsePosition(text string) (position, error) {
	if text == "" {
		return position{ms: math.MaxUint64, bucket: -1}, nil
	}
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return position{}, ErrPosition
	}
	var numbers [3]uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return position{}, ErrPosition
		}
		numbers[i] = n
	}
	if numbers[2] >= keyspace.Buckets {
		return position{}, ErrPosition
	}
	return position{numbers[0], numbers[1], int(numbers[2])}, nil
}

// older compares positions: negative if a comes first.
func older(a, b position) int {
	return cmp.Or(cmp.Compare(b.ms, a.ms), cmp.Compare(b.sequence, a.sequence),
		cmp.Compare(a.bucket, b.bucket))
}

// end returns the stream id at which the entries of a bucket after p begin, reading
// backwards.
func (p position) end(b keyspace.Bucket) string {
	switch {
	case p.bucket < 0:
		return "+"
	case int(b) > p.bucket:
		return fmt.Sprintf("%d-%d", p.ms, p.sequence)
	default:
		return fmt.Sprintf("(%d-%d", p.ms, p.sequence)
	}
}
