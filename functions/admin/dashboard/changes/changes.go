// Package changes owns what pages that change something share: differences in words,
// links that undo a change, since when limits are in shadow, the form of an override,
// and filters of keys. The other dashboard packages import it. It writes nothing and knows
// no page.
package changes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Changes reads the audit for pages that change something or show changes. It is safe for
// concurrent use.
type Changes struct {
	renderer  *page.Renderer
	keys      *app.Registry
	mu        sync.Mutex
	known     map[string][]templates.Change // by number and id of an entry
	histories map[string][]Entry            // by subject and version
}

// New returns a Changes that reads the audit from keys.
func New(renderer *page.Renderer, keys *app.Registry) *Changes {
	return &Changes{renderer: renderer, keys: keys, known: map[string][]templates.Change{},
		histories: map[string][]Entry{}}
}

// Entry is a change of the audit with its differences in words.
type Entry struct {
	registry.AuditEntry

	Changes []templates.Change `json:"changes"` // of its first records
}

const (
	maxCached  = 500 // entries and histories
	maxHistory = 20  // newest changes of a subject
	shownKeys  = 3   // keys of a change of many whose differences are shown
	atOnce     = 16  // changes that are read at a time
)

// Describe adds the differences to entries. It reads the changes that it does not know yet.
func (c *Changes) Describe(ctx context.Context, entries []registry.AuditEntry) ([]Entry, error) {
	all := make([]Entry, len(entries))
	errs := make([]error, len(entries))
	slots := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for i, e := range entries {
		slots <- struct{}{}
		wait.Go(func() {
			all[i], errs[i] = c.describe(ctx, e)
			<-slots
		})
	}
	wait.Wait()
	return all, errors.Join(errs...)
}

func (c *Changes) describe(ctx context.Context, e registry.AuditEntry) (Entry, error) {
	id := strconv.FormatUint(e.Number, 10) + " " + e.ID
	c.mu.Lock()
	list, known := c.known[id]
	c.mu.Unlock()
	if known {
		return Entry{e, list}, nil
	}
	whole := e
	if e.Items > 0 && len(e.Subjects[0].Before)+len(e.Subjects[0].After) == 0 {
		var err error
		if whole, err = c.keys.AuditEntry(ctx, e.Number); err != nil {
			return Entry{AuditEntry: e}, err
		}
	}
	list = OfEntry(whole)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCached {
		clear(c.known)
	}
	c.known[id] = list
	return Entry{e, list}, nil
}

// History returns the newest changes of a subject, up to maxHistory. version is that of its
// last change. It returns none while the log cannot be read: pages work without them.
func (c *Changes) History(ctx context.Context, subject string, version int64) []Entry {
	id := subject + " " + strconv.FormatInt(version, 10)
	c.mu.Lock()
	entries, known := c.histories[id]
	c.mu.Unlock()
	if known {
		return entries
	}
	found, err := c.keys.Audit(ctx, registry.AuditQuery{Subject: subject, Count: maxHistory})
	if err == nil {
		entries, err = c.Describe(ctx, found.Entries)
	}
	if err != nil {
		c.renderer.Warn("read history", err)
		return nil
	}
	for i := range entries { // without the states, which may be large
		entries[i].Subjects = slices.Clone(entries[i].Subjects)
		for j := range entries[i].Subjects {
			entries[i].Subjects[j].Before, entries[i].Subjects[j].After = nil, nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.histories) >= maxCached {
		clear(c.histories)
	}
	c.histories[id] = entries
	return entries
}

// UndoOf returns the address that undoes the change which produced this version of a
// record; empty if the change cannot be undone.
func (c *Changes) UndoOf(action string, version int64) string {
	if version == 0 || app.Irreversible(action) != "" {
		return ""
	}
	return c.renderer.Path("/audit/" + strconv.FormatInt(version, 10) + "/undo")
}

// LastActor returns the name of the actor of the newest change of a subject; empty if the
// audit cannot be read.
func (c *Changes) LastActor(r *http.Request, subject string) string {
	found, err := c.keys.Audit(r.Context(), registry.AuditQuery{Subject: subject, Count: 1})
	if err != nil || len(found.Entries) == 0 {
		return ""
	}
	return page.Clip(found.Entries[0].By.Name, page.MaxName)
}

// OfKey returns the differences between two states of a key. It includes the effective
// limits unless set is nil.
func OfKey(set *policy.Set, before, after policy.Key) []templates.Change {
	var d differences
	d.add("name", before.Name, after.Name)
	d.add("tags", strings.Join(before.Tags, ", "), strings.Join(after.Tags, ", "))
	d.add("plan", before.Plan, after.Plan)
	d.add("group", before.Group, after.Group)
	d.add("open routes", policydoc.OpensText(before.Opens), policydoc.OpensText(after.Opens))
	d.add("status", string(before.Status), string(after.Status))
	d.add("override", overrideText(before.Override), overrideText(after.Override))
	d.add("billing day", before.Billing.String(), after.Billing.String())
	d.add("expires", timeText(before.Expires), timeText(after.Expires))
	d.add("banned until", timeText(before.Banned), timeText(after.Banned))
	d.add("previous secret valid until", timeText(before.Grace), timeText(after.Grace))
	if set != nil {
		now := time.Now()
		old, _ := set.Effective(before, now)
		current, _ := set.Effective(after, now)
		d.add("effective limits", policydoc.LimitsText(old.Limits), policydoc.LimitsText(current.Limits))
	}
	return d
}

func overrideText(o *policy.Override) string {
	if o == nil {
		return ""
	}
	text := wording.Override(o)
	if o.Reason != "" { // a preview needs none
		text += " (" + o.Reason + ")"
	}
	return text
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return page.Instant(t).Text
}

// OfPolicy returns the differences between two policy sets.
func OfPolicy(before, after *policy.Set) []templates.Change {
	var d differences
	for _, c := range policydoc.Diff(before, after) {
		d.add(c.What(), c.Before, c.After)
		d[len(d)-1].Of = c.Of
	}
	return d
}

// OfEntry returns the changes of the first records of an entry, as far as they can be read.
// Each names its key if there are several.
func OfEntry(e registry.AuditEntry) []templates.Change {
	var all []templates.Change
	for _, s := range e.Subjects[:min(len(e.Subjects), shownKeys)] {
		list := ofSubject(s)
		if e.Items > 1 {
			for i := range list {
				list[i].What = cmp.Or(page.Clip(s.Name, page.MaxName), s.Record) + ": " + list[i].What
			}
		}
		all = append(all, list...)
	}
	return all
}

func ofSubject(s registry.AuditSubject) []templates.Change {
	if s.Record == app.PolicyRecord {
		before, after := &policy.Set{}, &policy.Set{}
		if unmarshal(s.Before, before) && unmarshal(s.After, after) {
			return OfPolicy(before, after)
		}
		return nil
	}
	var before, after policy.Key
	if !app.IsID(s.Record) || !unmarshal(s.Before, &before) || !unmarshal(s.After, &after) {
		return nil // of a group or a token
	}
	return OfKey(nil, before, after)
}

// unmarshal decodes text into value and reports success. Empty text leaves value
// unchanged.
func unmarshal(text json.RawMessage, value any) bool {
	return len(text) == 0 || json.Unmarshal(text, value) == nil
}

// differences collects changes as text.
type differences []templates.Change

func (d *differences) add(what, before, after string) {
	if before != after {
		*d = append(*d, templates.Change{
			What:   what,
			Before: page.Clip(wording.OrNone(before), wording.MaxText),
			After:  page.Clip(wording.OrNone(after), wording.MaxText),
		})
	}
}
