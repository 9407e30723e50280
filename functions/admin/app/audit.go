package app

import (
	"context"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/list"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// AuditQuery selects changes of the log.
type AuditQuery struct {
	Subject string `query:"subject" maxLength:"100" doc:"Only changes of this record: a key by its id or name, policy, token:ID, or the id of a group. A name that no key has now selects as name does"`
	Action  string `query:"action" maxLength:"40" doc:"Only actions with this prefix" example:"key."`
	By      string `query:"by" maxLength:"400" doc:"Only changes by the actor with this name"`
	Name    string `query:"name" maxLength:"100" doc:"Only records that had this name at the time; case is ignored"`
	Change  string `query:"change" maxLength:"20" doc:"Only the change with this number"`
	list.Period
	list.Paging
	Key policy.Key // that Subject names, if it exists; Audits sets it
	// Choices are the keys whose names begin with Subject, if that is not clear; More says
	// that others do, too.
	Choices []policy.Key
	More    bool
}

// searchTime is how long one page of the audit searches for changes.
const searchTime = time.Second

// Audits returns changes, newest first.
func (r *Registry) Audits(ctx context.Context, q *AuditQuery) (list.Page[registry.AuditEntry], error) {
	var none list.Page[registry.AuditEntry]
	find := registry.AuditQuery{Named: q.Name, Action: q.Action, By: q.By, Count: q.Count}
	var err error
	if find.Since, find.Until, err = q.Bounds(time.Now()); err != nil {
		return none, err
	}
	if q.After != "" {
		if find.Before, err = strconv.ParseUint(q.After, 10, 64); err != nil || find.Before == 0 {
			return none, list.ErrCursor
		}
	}
	if q.Change != "" {
		number, err := strconv.ParseUint(q.Change, 10, 63)
		if err != nil {
			return none, &list.InvalidError{Name: "change", Message: "must be the number of a change"}
		}
		find.Before, find.Count = number+1, 1
	}
	if err := r.auditSubject(ctx, q, &find); err != nil {
		return none, err
	}
	found, err := r.searchAudit(ctx, find)
	if err == nil && find.Subject == q.Subject && q.Key.ID == "" && len(found.Entries) == 0 &&
		found.Next == 0 {
		find.Subject, find.Named = "", q.Subject
		found, err = r.searchAudit(ctx, find)
	}
	if err != nil {
		return none, err
	}
	found, next := bounded(found), ""
	if found.Next > 0 && q.Change == "" {
		next = strconv.FormatUint(found.Next, 10)
	}
	return list.Of(found.Entries, next, func(e *registry.AuditEntry) registry.AuditEntry { return *e }), nil
}

// auditSubject sets the record that the query names.
func (r *Registry) auditSubject(ctx context.Context, q *AuditQuery, find *registry.AuditQuery) error {
	if q.Subject == "" || q.Subject == PolicyRecord || strings.HasPrefix(q.Subject, "token:") {
		find.Subject = q.Subject
		return nil
	}
	set, err := r.Set(ctx)
	if err != nil {
		return err
	}
	found, err := r.ResolveKeys(ctx, set, q.Subject)
	switch {
	case err != nil:
		return err
	case len(found.Keys) == 1:
		q.Key = found.Keys[0]
		q.Subject = q.Key.ID
		find.Subject = q.Key.ID
	case len(found.Keys) > 1:
		q.Choices, q.More = found.Keys, found.More
		return &list.InvalidError{
			Name:    "subject",
			Message: "several keys match this name. Choose one, or enter an id",
		}
	case IsID(q.Subject):
		find.Subject = q.Subject
	default:
		find.Named = q.Subject
	}
	return nil
}

// searchAudit reads pages until one has entries.
func (r *Registry) searchAudit(ctx context.Context, q registry.AuditQuery) (registry.AuditPage, error) {
	for began := time.Now(); ; {
		found, err := r.Audit(ctx, q)
		if err != nil {
			return found, err
		}
		q.Before = found.Next
		if len(found.Entries) > 0 || found.Next == 0 || time.Since(began) > searchTime {
			return found, nil
		}
	}
}

// maxStates bounds the states in a page of changes, in bytes. A Lambda function can answer
// 4.5 MB without compression.
const maxStates = 3 << 20

// bounded returns the first entries of a page, whose states have up to maxStates bytes.
func bounded(page registry.AuditPage) registry.AuditPage {
	size := 0
	for i, e := range page.Entries {
		for _, s := range e.Subjects {
			size += len(s.Before) + len(s.After)
		}
		if i > 0 && size > maxStates {
			return registry.AuditPage{Entries: page.Entries[:i], Next: page.Entries[i-1].Number}
		}
	}
	return page
}
