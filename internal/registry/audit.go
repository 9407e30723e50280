package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/changes"
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

// auditKept is how many changes Valkey has for the audit: those before are read one by one.
const auditKept = 10_000

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
