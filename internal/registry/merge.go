package registry

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// merge puts what next changes of base into current, part by part. It fails with
// ErrConflict if next and current changed a part of base in different ways.
func merge(base, next, current *policy.Set) (*policy.Set, error) {
	m := merger{}
	merged := &policy.Set{
		Version: current.Version,
		Plans: mergeList(&m, base.Plans, next.Plans, current.Plans,
			func(p policy.Plan) string { return strconv.Itoa(p.Number) }),
		Limits: mergeList(&m, base.Limits, next.Limits, current.Limits, limitID),
		Routes: mergeList(&m, base.Routes, next.Routes, current.Routes,
			func(r limits.Route) string { return r.ID }),
		Deny:        mergeOne(&m, base.Deny, next.Deny, current.Deny),
		Allow:       mergeOne(&m, base.Allow, next.Allow, current.Allow),
		Exempt:      mergeOne(&m, base.Exempt, next.Exempt, current.Exempt),
		TokenPlan:   mergeOne(&m, base.TokenPlan, next.TokenPlan, current.TokenPlan),
		AddressPlan: mergeOne(&m, base.AddressPlan, next.AddressPlan, current.AddressPlan),
		NextNumber:  max(next.NextNumber, current.NextNumber),
	}
	merged.GroupOverrides = mergeMap(&m, base.GroupOverrides, next.GroupOverrides, current.GroupOverrides)
	merged.GroupBilling = mergeMap(&m, base.GroupBilling, next.GroupBilling, current.GroupBilling)
	if m.conflict {
		return nil, policy.ErrConflict
	}
	return merged, nil
}

// merger records whether a part was changed in different ways.
type merger struct{ conflict bool }

// same reports whether two values are the same in a record.
func same(a, b any) bool {
	first, err := json.Marshal(a)
	if err != nil {
		return false
	}
	second, err := json.Marshal(b)
	return err == nil && bytes.Equal(first, second)
}

// mergeOne merges a value that is one part.
func mergeOne[T any](m *merger, base, next, current T) T {
	switch {
	case same(base, next):
		return current
	case same(base, current), same(next, current):
		return next
	}
	m.conflict = true
	return current
}

// mergeMap merges values by name. No value is the zero value.
func mergeMap[T any](m *merger, base, next, current map[string]T) map[string]T {
	merged := map[string]T{}
	for _, all := range []map[string]T{base, next, current} {
		for id := range all {
			value := mergeOne(m, pointer(base, id), pointer(next, id), pointer(current, id))
			if value != nil {
				merged[id] = *value
			}
		}
	}
	if len(merged) == 0 {
		return nil
	}
	return merged
}

func pointer[T any](values map[string]T, id string) *T {
	if value, found := values[id]; found {
		return &value
	}
	return nil
}

// mergeList merges values by their ids: those of next in its order, with those that only
// current has behind the one that they follow there. A list in which an id is there twice is
// one part.
func mergeList[T any](m *merger, base, next, current []T, id func(T) string) []T {
	if same(base, current) {
		return next
	}
	if same(base, next) {
		return current
	}
	all := make([]map[string]T, 3)
	for i, list := range [][]T{base, next, current} {
		all[i] = map[string]T{}
		for _, value := range list {
			all[i][id(value)] = value
		}
		if len(all[i]) < len(list) {
			return mergeOne(m, base, next, current)
		}
	}
	values := mergeMap(m, all[0], all[1], all[2])
	var order []string
	for _, value := range next {
		order = append(order, id(value))
	}
	for i, value := range current {
		if slices.Contains(order, id(value)) {
			continue
		}
		at := 0
		if i > 0 {
			at = slices.Index(order, id(current[i-1])) + 1
		}
		order = slices.Insert(order, at, id(value))
	}
	var merged []T
	for _, key := range order {
		if value, found := values[key]; found {
			merged = append(merged, value)
			delete(values, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		merged = append(merged, values[key])
	}
	return merged
}

// limitID names a limit of the policy by what it counts.
func limitID(l limits.Limit) string {
	l.Requests, l.Notify, l.Shadow, l.CountDenied = 0, nil, false, false
	return l.String()
}
