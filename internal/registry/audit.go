package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// AuditQuery asks for a page of the audit, newest first.
type AuditQuery struct {
	Before  uint64 // only changes with a smaller number; 0 for the newest
	Count   int    // 1 to 500; 0 means 50
	Subject string // only of this record: the id of a key, "policy", "token:ID", policy.GroupID
	Action  string // only actions that begin with it
	By      string // only this actor's name
	Named   string // only with a record that had this name, ignoring case
	Since   time.Time
	Until   time.Time // excluded; zero for no bound
}

// AuditPage is an answer to an AuditQuery.
type AuditPage struct {
	Entries []AuditEntry
	Next    uint64 // the Before of the next page; 0 on the last
}

// AuditEntry is a change.
type AuditEntry struct {
	Number   uint64         `json:"number" doc:"From 1, without gaps"`
	ID       string         `json:"id"`
	Time     time.Time      `json:"time"`
	Action   string         `json:"action" example:"key.create"`
	By       Actor          `json:"by"`
	Reason   string         `json:"reason,omitempty"`
	Items    int            `json:"items" doc:"Number of records that it changes"`
	Void     uint64         `json:"void,omitempty" doc:"Number of the change that this one declares nothing"`
	Subjects []AuditSubject `json:"subjects" doc:"The records; in a list the first 10"`
}

// AuditSubject is a record that a change changes. Before and After are filled in by Change,
// and in a page of one Subject.
type AuditSubject struct {
	Record string          `json:"record" doc:"Id of a key or a group, token:ID, or policy"`
	Name   string          `json:"name,omitempty"`
	Before json.RawMessage `json:"before,omitempty" doc:"Record before the change; absent if it was created, and in a list without subject"`
	After  json.RawMessage `json:"after,omitempty" doc:"Record after the change; absent if it was deleted, and in a list without subject"`
}

// String names the record, for a person.
func (s AuditSubject) String() string {
	if s.Name == "" {
		return s.Record
	}
	return s.Record + " (" + s.Name + ")"
}

const (
	// auditRead is how many changes a page with a filter reads at a time.
	auditRead = 500
	// auditScanned is how many changes such a page looks at, at most. The next page
	// continues there.
	auditScanned = 2_500
	// historyRead is how many changes a page of one subject reads, at most: each is a read
	// of the log.
	historyRead = 200
	// clockSkew bounds how far the clocks of writers are apart.
	clockSkew = 10 * time.Minute
)

// Audit returns a page of changes. A page with a filter may have fewer entries than q.Count
// although another page follows.
func (s *Store) Audit(ctx context.Context, q AuditQuery) (AuditPage, error) {
	if q.Subject != "" {
		return s.history(ctx, q)
	}
	count, read := pageSize(q.Count), auditRead
	if q == (AuditQuery{Before: q.Before, Count: q.Count}) {
		read = count
	}
	var page AuditPage
	for before, scanned := q.Before, 0; scanned < auditScanned; scanned += read {
		entries, err := s.log.Recent(ctx, before, read)
		if err != nil {
			return AuditPage{}, fmt.Errorf("registry: audit: %w", err)
		}
		for _, found := range entries {
			before = found.Number
			e := pageEntry(found)
			if q.ended(e) {
				return page, nil
			}
			if q.matches(e) {
				page.Entries = append(page.Entries, e)
			}
			if len(page.Entries) == count && before > 1 {
				page.Next = before
				return page, nil
			}
		}
		if len(entries) == 0 || before <= 1 {
			return page, nil
		}
		page.Next = before
	}
	return page, nil
}

// pageEntry returns an entry without the states of its records.
func pageEntry(found changes.Entry) AuditEntry {
	e := AuditEntry{Number: found.Number, ID: found.ID, Time: found.Time, Action: found.Action,
		By: actorOf(found.By), Reason: found.Why, Items: found.Items, Void: found.Void,
		Subjects: []AuditSubject{}}
	for _, r := range found.Records {
		e.Subjects = append(e.Subjects, AuditSubject{Record: r.Record, Name: r.Name})
	}
	return e
}

// ended reports whether an entry and all before it are too old. An entry that is nothing
// has no time.
func (q AuditQuery) ended(e AuditEntry) bool {
	return !e.Time.IsZero() && e.Time.Before(q.Since.Add(-clockSkew))
}

func (q AuditQuery) matches(e AuditEntry) bool {
	named := func(s AuditSubject) bool { return strings.EqualFold(s.Name, q.Named) }
	return strings.HasPrefix(e.Action, q.Action) && (q.By == "" || e.By.Name == q.By) &&
		!e.Time.Before(q.Since) && (q.Until.IsZero() || e.Time.Before(q.Until)) &&
		(q.Named == "" || slices.ContainsFunc(e.Subjects, named))
}

// history returns a page of the changes of one record, with its states. It follows the
// numbers in the items of the changes.
func (s *Store) history(ctx context.Context, q AuditQuery) (AuditPage, error) {
	number, err := s.lastChange(ctx, q)
	if err != nil {
		return AuditPage{}, err
	}
	set, err := s.Set(ctx)
	if err != nil {
		set = &policy.Set{} // plans are named by their numbers then
	}
	var page AuditPage
	count := pageSize(q.Count)
	for read := 0; number > 0; read++ {
		if page.Next = number + 1; len(page.Entries) == count || read == historyRead {
			return page, nil
		}
		c, err := s.log.Change(ctx, number)
		if err != nil {
			return AuditPage{}, fmt.Errorf("registry: audit: %w", err)
		}
		e := fullEntry(set, c, q.Subject)
		if q.ended(e) {
			break
		}
		if number = 0; len(e.Subjects) > 0 {
			i := slices.IndexFunc(c.Items, func(i changes.Item) bool { return i.Record == q.Subject })
			number = c.Items[i].Last
		}
		if len(e.Subjects) > 0 && (q.Before == 0 || e.Number < q.Before) && q.matches(e) {
			page.Entries = append(page.Entries, e)
		}
	}
	page.Next = 0
	return page, nil
}

// lastChange returns the number of a record's last change before q.Before, or of a later
// one; 0 if there is none. The Next of a page follows the number of the next one.
func (s *Store) lastChange(ctx context.Context, q AuditQuery) (uint64, error) {
	if q.Before > 1 {
		c, err := s.log.Change(ctx, q.Before-1)
		is := func(i changes.Item) bool { return i.Record == q.Subject }
		if err == nil && slices.ContainsFunc(c.Items, is) {
			return c.Number, nil
		}
	}
	found, err := s.log.Records(ctx, q.Subject)
	if err != nil {
		return 0, fmt.Errorf("registry: audit: %w", err)
	}
	if found[0].Number > 0 {
		return found[0].Number, nil
	}
	// A record that was deleted: the newest entry that names it.
	for before, scanned := uint64(0), 0; scanned < auditKept; scanned += auditRead {
		entries, err := s.log.Recent(ctx, before, auditRead)
		if err != nil || len(entries) == 0 {
			return 0, err
		}
		for _, e := range entries {
			before = e.Number
			if slices.ContainsFunc(e.Records, func(n changes.Named) bool { return n.Record == q.Subject }) {
				return e.Number, nil
			}
		}
		if before <= 1 {
			break
		}
	}
	return 0, nil
}

// auditKept is how many changes Valkey has for the audit: those before are read one by one.
const auditKept = 10_000

// Change returns one change with the states of its records. It fails with
// policy.ErrNotFound, and with a *changes.DamagedError.
func (s *Store) Change(ctx context.Context, number uint64) (AuditEntry, error) {
	if number == 0 {
		return AuditEntry{}, policy.ErrNotFound
	}
	c, err := s.log.Change(ctx, number)
	if damaged, ok := errors.AsType[*changes.DamagedError](err); ok && damaged.Missing {
		return AuditEntry{}, policy.ErrNotFound
	}
	if err != nil {
		return AuditEntry{}, fmt.Errorf("registry: audit: %w", err)
	}
	set, err := s.Set(ctx)
	if err != nil {
		set = &policy.Set{}
	}
	return fullEntry(set, c, ""), nil
}

// fullEntry returns a change with the states of its records, or of one.
func fullEntry(set *policy.Set, c changes.Change, only string) AuditEntry {
	e := AuditEntry{Number: c.Number, ID: c.ID, Time: c.Time, Action: c.Action, By: actorOf(c.By),
		Reason: c.Why, Items: len(c.Items), Void: c.Voids(), Subjects: []AuditSubject{}}
	for _, i := range c.Items {
		if only != "" && i.Record != only {
			continue
		}
		e.Subjects = append(e.Subjects, AuditSubject{
			Record: i.Record,
			Name:   cmp.Or(nameOf(i.Record, i.After), nameOf(i.Record, i.Before)),
			Before: state(set, i.Record, i.Last, i.Before),
			After:  state(set, i.Record, c.Number, i.After),
		})
	}
	return e
}

// state returns what a page shows of a record: JSON without the hashes of secrets; nil if
// there is none. A plan has the name that it has now.
func state(set *policy.Set, record string, number uint64, content []byte) json.RawMessage {
	if len(content) == 0 {
		return nil
	}
	var shown any
	switch {
	case record == changes.Policy:
		if s, err := policyset.DecodeSet(number, content); err == nil {
			shown = s
		}
	case strings.HasPrefix(record, groupPrefix):
		reset, name := policyset.GroupReset(content)
		shown = groupState{Name: name, Reset: microseconds(reset)}
	case strings.HasPrefix(record, tokenPrefix):
		if t, _, err := decodeToken(record, content); err == nil {
			shown = t
		}
	default:
		k, _ := decodeKey(set, changes.Record{Name: record, Content: content, Number: number})
		shown = k.Key
	}
	text, err := json.Marshal(shown)
	if err != nil || shown == nil {
		return json.RawMessage(`{"status":"unreadable"}`)
	}
	return text
}

// groupState is what a page shows of a group's record.
type groupState struct {
	Name  string    `json:"name"`
	Reset time.Time `json:"reset,omitzero"`
}

func microseconds(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// LogStatus is the state of the log and its view.
type LogStatus struct {
	Newest  uint64 `json:"newest"`            // number of the newest change
	Lowest  uint64 `json:"lowest"`            // of the bucket that is farthest behind; 0 if one is lost
	Behind  int    `json:"behind"`            // buckets that are not at the newest change
	Away    int    `json:"away"`              // buckets that do not answer
	Marks   int    `json:"marks"`             // marks that are not stored yet
	Damaged uint64 `json:"damaged,omitempty"` // the change that is missing or damaged; 0 for none
	// Problem is why edits are refused: changes.ErrStore, ErrView, ErrAhead, ErrEmpty, a
	// *changes.DamagedError or a *changes.StrayError; nil if they are not.
	Problem error `json:"-"`
}

// LogStatus returns the state of the log. An error of the store or the log is its Problem.
func (s *Store) LogStatus(ctx context.Context) LogStatus {
	found, err := s.log.Status(ctx)
	status := LogStatus{Newest: found.Newest, Lowest: found.Lowest, Behind: found.Behind, Away: found.Away,
		Marks: found.Marks, Problem: err}
	if damaged, ok := errors.AsType[*changes.DamagedError](err); ok {
		status.Damaged = damaged.Number
	}
	return status
}
