package dashboard

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// differ collects what differs, each in words.
type differ []templates.Change

func (d *differ) note(what, before, after string) {
	if before != after {
		*d = append(*d, templates.Change{What: what, Before: clip(orDash(before), maxChange), After: clip(orDash(after), maxChange)})
	}
}

const maxChange = 400 // characters of one side of a change

func orDash(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// keyChanges tells what differs between two states of a key. Where the Set is known the limits that come of it are told too.
func keyChanges(set *policy.Set, before, after policy.Key) []templates.Change {
	var d differ
	d.note("name", before.Name, after.Name)
	d.note("tags", strings.Join(before.Tags, ", "), strings.Join(after.Tags, ", "))
	d.note("plan", before.Plan, after.Plan)
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
		return limitsWords(e.Limits) + ", in shadow"
	case policy.Enforce:
	}
	return limitsWords(e.Limits)
}

func overrideText(o *policy.Override) string {
	if o == nil {
		return ""
	}
	return overrideWords(o) + " (" + o.Reason + ")"
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return instant(t).Text
}

// setChanges tells what differs between two Sets.
func setChanges(before, after *policy.Set) []templates.Change {
	var d differ
	for _, p := range before.Plans {
		q, kept := after.Numbered(p.Number)
		if !kept {
			d.note("plan "+p.Name, planText(p), "deleted")
			continue
		}
		d.plan(p, q)
	}
	for _, q := range after.Plans {
		if _, known := before.Numbered(q.Number); !known || q.Number == 0 {
			d.note("plan "+q.Name, "", planText(q))
		}
	}
	d.routes(before.Routes, after.Routes)
	d.note("limits of each address", scopeText(before.PerIP), scopeText(after.PerIP))
	d.note("limits of all callers together", scopeText(before.Global), scopeText(after.Global))
	d.note("refused addresses", prefixText(before.Deny), prefixText(after.Deny))
	d.note("admitted addresses", prefixText(before.Allow), prefixText(after.Allow))
	d.note("exempt addresses", prefixText(before.Exempt), prefixText(after.Exempt))
	d.note("plan of tokens", before.TokenPlan, after.TokenPlan)
	d.note("plan of addresses", before.AddressPlan, after.AddressPlan)
	d.note("bans", bansText(before.Bans), bansText(after.Bans))
	return d
}

func (d *differ) plan(p, q policy.Plan) {
	about := "plan " + q.Name
	d.note(about+": name", p.Name, q.Name)
	d.note(about+": limits", limitsWords(p.Limits), limitsWords(q.Limits))
	d.note(about+": mode", modeText(p.Mode), modeText(q.Mode))
	d.note(about+": when the store is away", degradedText(p), degradedText(q))
	d.note(about+": candidate", limitsWords(p.Candidate), limitsWords(q.Candidate))
}

func (d *differ) routes(before, after []policy.Route) {
	named := map[string]policy.Route{}
	for _, r := range after {
		named[r.Name] = r
	}
	for _, r := range before {
		q, kept := named[r.Name]
		delete(named, r.Name)
		if !kept {
			d.note("route "+r.Name, routeText(r), "deleted")
			continue
		}
		d.note("route "+r.Name, routeText(r), routeText(q))
	}
	for _, r := range after {
		if _, added := named[r.Name]; added {
			d.note("route "+r.Name, "", routeText(r))
		}
	}
}

func planText(p policy.Plan) string {
	text := limitsWords(p.Limits) + "; " + modeText(p.Mode) + "; " + degradedText(p)
	if len(p.Candidate) > 0 {
		text += "; candidate " + limitsWords(p.Candidate)
	}
	return text
}

func modeText(m policy.Mode) string {
	if m == "" {
		return string(policy.Enforce)
	}
	return string(m)
}

func degradedText(p policy.Plan) string {
	switch p.Degraded {
	case policy.Open:
		return "open: calls pass uncounted"
	case policy.Local:
		return fmt.Sprintf("local: each environment admits %d %%", p.Share)
	case policy.Closed:
	}
	return "closed: calls are denied"
}

func routeText(r policy.Route) string {
	parts := []string{r.Pattern.String(), "cost " + number(r.Cost)}
	if r.Settle {
		parts = append(parts, "settled after")
	}
	for _, l := range []struct {
		what   string
		limits []limiter.Limit
	}{{"each caller", r.PerKey}, {"each address", r.PerIP}, {"all together", r.Shared}} {
		if len(l.limits) > 0 {
			parts = append(parts, l.what+" "+limitsWords(l.limits))
		}
	}
	if r.Mode != "" && r.Mode != policy.Enforce {
		parts = append(parts, string(r.Mode))
	}
	return strings.Join(parts, "; ")
}

func scopeText(s policy.Scope) string {
	if len(s.Limits) == 0 {
		return ""
	}
	return limitsWords(s.Limits) + "; " + modeText(s.Mode)
}

func prefixText(list []netip.Prefix) string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}

func bansText(b *policy.Bans) string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("%s denied calls in %s ban for %s, then twice as long, up to %s", number(b.Denials),
		limiter.ShortWindow(time.Duration(b.Window)), limiter.ShortWindow(time.Duration(b.Base)), limiter.ShortWindow(time.Duration(b.Cap)))
}

// entryChanges tells what an entry of the audit changed.
func entryChanges(e audit.Entry) []templates.Change {
	if e.Subject == policy.SetID {
		before, after := &policy.Set{}, &policy.Set{}
		if unmarshal(e.Before, before) && unmarshal(e.After, after) {
			return setChanges(before, after)
		}
		return nil
	}
	var before, after policy.Key
	if !unmarshal(e.Before, &before) || !unmarshal(e.After, &after) {
		return nil
	}
	return keyChanges(nil, before, after)
}

// unmarshal leaves the value alone if there is nothing to read.
func unmarshal(text json.RawMessage, value any) bool {
	return len(text) == 0 || json.Unmarshal(text, value) == nil
}
