package app

import (
	"context"
	"errors"
	"strconv"

	"tidegate/functions/admin/list"
	"tidegate/internal/crossing"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// AlertQuery selects alerts: calls that took a limit to one of its thresholds.
type AlertQuery struct {
	Key string `query:"key" maxLength:"200" doc:"Only limits on this key or caller: its id, or the name of a key"`
	list.Paging
	KeyName string // of Key, if it is an existing key; Alerts sets it
}

// Alert is a crossed threshold, with the caller's record as it is now.
type Alert struct {
	crossing.Event

	Record policy.Key `json:"-"` // without an ID if there is none
}

// Alerts returns the calls of the last 30 days that reached a threshold, newest first.
func Alerts(ctx context.Context, keys *Registry, log *crossing.Store,
	q *AlertQuery) (list.Page[Alert], error) {
	set, err := keys.Set(ctx)
	if err != nil {
		return list.Page[Alert]{}, err
	}
	k, err := keys.resolve(ctx, set, &q.Key)
	if err != nil {
		return list.Page[Alert]{}, err
	}
	q.KeyName = k.Name
	found, err := log.List(ctx, crossing.Query{Subject: q.Key, After: q.After, Count: q.Count})
	if errors.Is(err, crossing.ErrCursor) {
		err = list.ErrCursor
	}
	if err != nil {
		return list.Page[Alert]{}, err
	}
	known, err := Records(ctx, keys, set, found.Events, func(e crossing.Event) string { return e.KeyID })
	page := list.Of(found.Events, found.Next,
		func(e *crossing.Event) Alert { return Alert{*e, known[e.KeyID]} })
	if found.Unreadable > 0 {
		page.Notes = append(page.Notes,
			"Alerts that cannot be read, skipped: "+strconv.FormatInt(found.Unreadable, 10)+".")
	}
	if found.Dropped > 0 {
		page.Notes = append(page.Notes, "About "+limits.Number(found.Dropped)+
			" more alerts of callers without an API key, yesterday and today, are not listed.")
	}
	return page, err
}
