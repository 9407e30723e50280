package registry

import (
	"context"
	"encoding/json"
	"time"
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
}

// AuditPage is an answer to an AuditQuery.
type AuditPage struct {
	Entries []AuditEntry
	Next    uint64 // the Before of the next page; 0 on the last
}

// AuditEntry is a change.
type AuditEntry struct {
	Number   uint64         `json:"number"`
	ID       string         `json:"id"`
	Time     time.Time      `json:"time"`
	Action   string         `json:"action"`
	By       Actor          `json:"by"`
	Reason   string         `json:"reason,omitempty"`
	Items    int            `json:"items"`          // how many records it changes
	Void     uint64         `json:"void,omitempty"` // the change that this one says is nothing
	Subjects []AuditSubject `json:"subjects"`       // in a page the first 10, without states
}

// AuditSubject is a record that a change changes. Before and After are filled in by Change,
// and in a page of one Subject.
type AuditSubject struct {
	Record string          `json:"record"`
	Name   string          `json:"name,omitempty"`
	Before json.RawMessage `json:"before,omitempty"` // absent if it was created
	After  json.RawMessage `json:"after,omitempty"`  // absent if it was deleted
}

// Audit returns a page of changes.
func (s *Store) Audit(ctx context.Context, q AuditQuery) (AuditPage, error) { panic("todo") }

// Change returns one change with the states of its records. It fails with
// policy.ErrNotFound.
func (s *Store) Change(ctx context.Context, number uint64) (AuditEntry, error) { panic("todo") }

// LogStatus is the state of the log and its view.
type LogStatus struct {
	Newest  uint64 `json:"newest"`            // number of the newest change
	Lowest  uint64 `json:"lowest"`            // position of the bucket that is farthest behind; 0 if one is lost
	Behind  int    `json:"behind"`            // buckets that are not at the newest change
	Away    int    `json:"away"`              // buckets that do not answer
	Marks   int    `json:"marks"`             // marks that are not stored yet
	Damaged uint64 `json:"damaged,omitempty"` // the change that is missing or damaged; 0 for none
	Problem error  `json:"-"`                 // why edits are refused: changes.ErrStore, ErrAhead or a *DamagedError; nil
}

// LogStatus returns the state of the log. An error of the store or the log is its Problem.
func (s *Store) LogStatus(ctx context.Context) LogStatus { panic("todo") }
