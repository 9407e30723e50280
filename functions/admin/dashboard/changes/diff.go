package changes

import (
	"encoding/json"
	"strings"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

// differ collects what differs, each in words.
type differ []templates.Change

func (d *differ) note(what, before, after string) {
	if before != after {
		*d = append(*d, templates.Change{
			What:   what,
			Before: page.Clip(wording.OrNone(before), wording.MaxText),
			After:  page.Clip(wording.OrNone(after), wording.MaxText),
		})
	}
}

// OfKey lists what differs between two states of a key. Where the Set is known the
// limits that come of it are listed too.
func OfKey(set *policy.Set, before, after policy.Key) []templates.Change {
	var d differ
	d.note("name", before.Name, after.Name)
	d.note("tags", strings.Join(before.Tags, ", "), strings.Join(after.Tags, ", "))
	d.note("plan", before.Plan, after.Plan)
	d.note("group", before.Group, after.Group)
	d.note("open routes", policydoc.AllowText(before.Allow), policydoc.AllowText(after.Allow))
	d.note("status", string(before.Status), string(after.Status))
	d.note("override", overrideText(before.Override), overrideText(after.Override))
	d.note("expires", timeText(before.Expires), timeText(after.Expires))
	d.note("banned until", timeText(before.Banned), timeText(after.Banned))
	d.note("old secret good until", timeText(before.Grace), timeText(after.Grace))
	if set != nil {
		now := time.Now()
		was, _ := set.Effective(before, now)
		is, _ := set.Effective(after, now)
		d.note("limits in force", effectiveText(was), effectiveText(is))
	}
	return d
}

func effectiveText(e policy.Effective) string {
	switch e.Mode {
	case policy.Off:
		return "no limits"
	case policy.Shadow:
		return policydoc.LimitsText(e.Limits) + ", in shadow"
	case policy.Enforce:
	}
	return policydoc.LimitsText(e.Limits)
}

func overrideText(o *policy.Override) string {
	if o == nil {
		return ""
	}
	return wording.Override(o) + " (" + o.Reason + ")"
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return page.Instant(t).Text
}

// OfPolicy lists what differs between two Sets.
func OfPolicy(before, after *policy.Set) []templates.Change {
	var d differ
	for _, c := range policydoc.Diff(before, after) {
		d.note(c.What(), c.Before, c.After)
	}
	return d
}

// OfEntry lists what an entry of the audit changed.
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

// unmarshal leaves the value alone if there is nothing to read.
func unmarshal(text json.RawMessage, value any) bool {
	return len(text) == 0 || json.Unmarshal(text, value) == nil
}
