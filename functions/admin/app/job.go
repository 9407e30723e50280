package app

import (
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// Undo is what a Job does that takes back the changes of another.
const Undo = "undo"

// Job is a change of many keys, made in steps, since a function's request is short. It is
// stored after each of them, so anybody can go on with it. The audit has its start, its
// end, and its id in the entry of every key that it changed.
type Job struct {
	ID       string           `json:"id"`
	Do       string           `json:"do"` // of a KeyChange, or Undo
	Plan     string           `json:"plan,omitempty"`
	Override *policy.Override `json:"override,omitempty"`
	IDs      []string         `json:"ids,omitempty"`
	Filter   *KeyFilter       `json:"filter,omitempty"` // nil for IDs
	Undoes   string           `json:"undoes,omitempty"` // the job that Undo takes back
	Total    int64            `json:"total"`            // keys that were confirmed, which bounds the job
	By       audit.Actor      `json:"by"`
	Reason   string           `json:"reason"`
	Started  time.Time        `json:"started"`

	Ended    time.Time `json:"ended,omitzero"`
	Stopped  bool      `json:"stopped,omitempty"` // until somebody continues it
	Resumed  string    `json:"resumed,omitempty"` // the last stop after which it was continued
	Paused   string    `json:"paused,omitempty"`  // why the last step ended early; empty if it did not
	Done     int64     `json:"done"`              // keys that were changed
	Skipped  int64     `json:"skipped"`           // keys that were as they should be, or not active
	Failed   int64     `json:"failed"`            // keys that could not be changed
	Failures []Failure `json:"named,omitempty"`   // the first of those, at most maxNamed
	More     bool      `json:"more,omitempty"`    // it ended at Total; more keys match
	After    string    `json:"after,omitempty"`   // where the next step goes on

	stop string // the newest stop mark, as stored with the job
}

// Failure is a key that a job left as it was, and why.
type Failure struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// maxNamed is how many of the keys that could not be changed are named.
const maxNamed = 100

// Processed is how many keys the job has seen to.
func (j Job) Processed() int64 { return j.Done + j.Skipped + j.Failed }

// Over reports whether the job has ended.
func (j Job) Over() bool { return !j.Ended.IsZero() }

// Undoable reports whether there may be something that another job can take back. A key
// of a step that was done again counts as skipped; of an unfinished step nothing counts.
func (j Job) Undoable() bool {
	return j.Do != Reset && (j.Stopped || j.Over() && j.Processed() > 0)
}

// Title says what the job does and to how many keys.
func (j Job) Title() string { return JobTitle(j.Do, j.Plan, j.Total) }

// JobTitle says what a job does to a number of keys.
func JobTitle(do, plan string, keys int64) string {
	n := policydoc.Number(keys) + " keys"
	if keys == 1 {
		n = "1 key"
	}
	switch do {
	case Plan:
		if plan == "" {
			return "Change plan of " + n
		}
		return "Change plan of " + n + " to " + plan
	case Override:
		return "Override limits of " + n
	case EndOverride:
		return "End overrides of " + n
	case Reset:
		return "Reset counts of " + n
	case Undo:
		return "Undo changes of " + n
	}
	return "Revoke " + n
}

// change is what the job does to a key.
func (j Job) change() KeyChange { return KeyChange{Do: j.Do, Plan: j.Plan, Override: j.Override} }

// NeedsCount reports whether the change harms callers and cannot simply be taken back, so
// that on all keys of a filter it is to be confirmed with their number.
func (c KeyChange) NeedsCount() bool { return c.Do == Revoke || c.Do == Reset }

// edit is what the audit records of each key.
func (j Job) edit() Edit { return Edit{By: j.By, Reason: j.Reason, Job: j.ID} }
