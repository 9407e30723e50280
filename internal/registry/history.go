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
