// Package changes owns what pages that change something share: differences in words,
// links that undo a change, since when limits are in shadow, the form of an override,
// and filters of keys. The other dashboard packages import it. It writes nothing and knows
// no page.
package changes

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

// Changes reads the audit log for pages that change something. It is safe for concurrent
// use.
type Changes struct {
	renderer *page.Renderer
	keys     *app.Registry
	cache    cache
}

// PreviewButton is the value of the form button that shows a preview.
const PreviewButton = "preview"

// New returns a Changes that reads the audit log from keys.
func New(renderer *page.Renderer, keys *app.Registry) *Changes {
	return &Changes{renderer: renderer, keys: keys}
}

// ChangesOf returns the changes of an audit entry.
func (c *Changes) ChangesOf(e audit.Entry) []templates.Change { return c.cache.of(e) }

// UndoOf returns the address that undoes the change which produced this version of a
// subject; empty if the change cannot be undone or the audit log cannot be read.
func (c *Changes) UndoOf(r *http.Request, subject string, version int64) string {
	list, err := c.keys.Audit().List(r.Context(), audit.Query{Subject: subject, Count: 5, KeepPacked: true})
	if err != nil {
		return ""
	}
	for _, e := range list.Entries {
		if e.Version == version && app.Irreversible(e.Opened()) == "" {
			return c.renderer.Path("/audit/" + e.ID + "/undo")
		}
	}
	return ""
}

// LastActor returns the name of the actor of the newest change of a subject; empty if the
// audit log has none or cannot be read.
func (c *Changes) LastActor(r *http.Request, subject string) string {
	list, err := c.keys.Audit().List(r.Context(), audit.Query{Subject: subject, Count: 1, KeepPacked: true})
	if err != nil || len(list.Entries) == 0 {
		return ""
	}
	return page.Clip(list.Entries[0].By.Name, page.MaxName)
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

// OfEntry returns the changes of an audit entry; nil if they cannot be read.
func OfEntry(e audit.Entry) []templates.Change {
	if e.Subject == policyset.SetID {
		before, after := &policy.Set{}, &policy.Set{}
		if unmarshal(e.Before, before) && unmarshal(e.After, after) {
			return OfPolicy(before, after)
		}
		return nil
	}
	if e.Subject == token.Subject || e.Subject == audit.LoginSubject ||
		strings.HasPrefix(e.Action, audit.OfJobs) {
		return nil
	}
	var before, after policy.Key
	if !unmarshal(e.Before, &before) || !unmarshal(e.After, &after) {
		return nil
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

// Bounds of the cache.
const (
	maxCached        = 500 // entries
	maxCachedChanges = 20  // changes of one entry; most have one
)

// cache keeps the changes of policy entries, which are immutable. Without it, a page of
// 50 entries would decode two sets of up to 1 MB for each, at every refresh (from 2 s).
type cache struct {
	mu    sync.Mutex
	known map[string][]templates.Change // by id and hash
	last  [2]decodedSet                 // before and after of the last decoded entry
}

// decodedSet is a policy set with its JSON text.
type decodedSet struct {
	text json.RawMessage
	set  *policy.Set
}

// of returns the changes of an entry, which may be packed.
func (c *cache) of(e audit.Entry) []templates.Change {
	if e.Subject != policyset.SetID {
		return OfEntry(e.Opened())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := e.ID + " " + e.Hash
	if changes, known := c.known[id]; known {
		return changes
	}
	changes := c.compare(e.Opened())
	if len(c.known) >= maxCached || c.known == nil {
		c.known = map[string][]templates.Change{}
	}
	if len(changes) <= maxCachedChanges {
		c.known[id] = changes
	}
	return changes
}

func (c *cache) compare(e audit.Entry) []templates.Change {
	before, after := c.decode(e.Before), c.decode(e.After)
	if before.set == nil || after.set == nil {
		return nil
	}
	c.last = [2]decodedSet{before, after}
	return OfPolicy(before.set, after.set)
}

// decode decodes a set. It first looks among the sets of the last entry, since successive
// entries share a set. The set is nil if it cannot be decoded.
func (c *cache) decode(text json.RawMessage) decodedSet {
	for _, d := range c.last {
		if d.set != nil && bytes.Equal(d.text, text) {
			return d
		}
	}
	set := &policy.Set{}
	if !unmarshal(text, set) {
		return decodedSet{}
	}
	return decodedSet{text, set}
}
