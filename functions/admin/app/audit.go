package app

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/list"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// AuditQuery selects changes of the log.
type AuditQuery struct {
	Subject string `query:"subject" maxLength:"100" doc:"Only changes of this record: a key by its id or name, a plan or a route by its name (or as plan NAME, route NAME), policy, token:ID, or the id of a group. A name that no key has now selects as name does"`
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
	Part    string // the plan or route that Subject names; Audits sets it
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
	changes, err := r.auditSubject(ctx, q, &find)
	if err != nil {
		return none, err
	}
	found, err := r.searchAudit(ctx, find, changes)
	if err == nil && changes == nil && find.Subject == q.Subject && q.Key.ID == "" &&
		len(found.Entries) == 0 &&
		found.Next == 0 {
		find.Subject, find.Named = "", q.Subject
		found, err = r.searchAudit(ctx, find, nil)
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

// auditSubject sets the record that the query names. If that is a plan or a route, it returns
// whether an entry of the policy changes it; else nil.
func (r *Registry) auditSubject(ctx context.Context, q *AuditQuery, find *registry.AuditQuery) (
	func(registry.AuditEntry) bool, error) {
	if q.Subject == "" || q.Subject == PolicyRecord || strings.HasPrefix(q.Subject, "token:") {
		find.Subject = q.Subject
		return nil, nil
	}
	set, err := r.Set(ctx)
	if err != nil {
		return nil, err
	}
	part, changes := policyPart(set, q.Subject)
	found, err := r.ResolveKeys(ctx, set, q.Subject)
	one := len(found.Keys) == 1
	switch {
	case err != nil:
		return nil, err
	case part != "" && (!one || !isNamed(found.Keys[0], q.Subject)):
		q.Part, find.Subject = part, PolicyRecord
		return changes, nil
	case one:
		q.Key = found.Keys[0]
		q.Subject = q.Key.ID
		find.Subject = q.Key.ID
	case len(found.Keys) > 1:
		q.Choices, q.More = found.Keys, found.More
		return nil, &list.InvalidError{
			Name:    "subject",
			Message: "several keys match this name. Choose one, or enter an id",
		}
	case IsID(q.Subject):
		find.Subject = q.Subject
	default:
		find.Named = q.Subject
	}
	return nil, nil
}

// isNamed reports whether a text is the whole id or name of a key.
func isNamed(k policy.Key, text string) bool { return k.ID == text || strings.EqualFold(k.Name, text) }

// policyPart returns the plan or route that a text names: "plan free", or only "free"; and
// whether an entry of the policy changes it, under any name.
func policyPart(set *policy.Set, text string) (string, func(registry.AuditEntry) bool) {
	named := func(kind, name string) bool {
		return strings.EqualFold(text, name) || strings.EqualFold(text, kind+" "+name)
	}
	for _, p := range set.Plans {
		if named("plan", p.Name) {
			return "plan " + p.Name, changesPart(func(s *policy.Set) any {
				found, _ := s.PlanByNumber(p.Number)
				return found
			})
		}
	}
	for _, route := range set.Routes {
		if named("route", route.Name) {
			return "route " + route.Name, changesPart(func(s *policy.Set) any {
				i := slices.IndexFunc(s.Routes, func(l limits.Route) bool { return l.ID == route.ID })
				if i < 0 {
					return nil
				}
				return s.Routes[i]
			})
		}
	}
	return "", nil
}

// changesPart reports whether an entry of the policy changes what part returns of a set.
func changesPart(part func(*policy.Set) any) func(registry.AuditEntry) bool {
	return func(e registry.AuditEntry) bool {
		state := func(text json.RawMessage) any {
			var set policy.Set
			_ = json.Unmarshal(text, &set) // an absent state has no plan and no route
			return part(&set)
		}
		return len(e.Subjects) > 0 &&
			!reflect.DeepEqual(state(e.Subjects[0].Before), state(e.Subjects[0].After))
	}
}

// searchAudit reads pages until one has entries that match.
func (r *Registry) searchAudit(ctx context.Context, q registry.AuditQuery,
	matches func(registry.AuditEntry) bool) (registry.AuditPage, error) {
	for began := time.Now(); ; {
		found, err := r.Audit(ctx, q)
		if err != nil {
			return found, err
		}
		if matches != nil {
			found.Entries = slices.DeleteFunc(found.Entries,
				func(e registry.AuditEntry) bool { return !matches(e) })
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
