package usage

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// packLog sorts groups of denials into parcels, in order of their slots.
func packLog(groups []pendingGroup, totals keyspace.Bucket) []parcel {
	bucketOf := func(g *pendingGroup) keyspace.Bucket {
		if g.subject == "" {
			return totals
		}
		return keyspace.BucketOf(g.subject)
	}
	slices.SortStableFunc(groups, func(a, b pendingGroup) int {
		return cmp.Or(cmp.Compare(bucketOf(&a), bucketOf(&b)), cmp.Compare(a.minute, b.minute))
	})
	var parcels []parcel
	for from := 0; from < len(groups); {
		to := from + 1
		p := parcel{bucket: bucketOf(&groups[from]), hour: groups[from].minute / minutesPerHour}
		for to < len(groups) && to-from < maxParcel && bucketOf(&groups[to]) == p.bucket &&
			groups[to].minute/minutesPerHour == p.hour {
			to++
		}
		p.groups = groups[from:to]
		parcels = append(parcels, p)
		from = to
	}
	return parcels
}

func (p *parcel) logKeys() []string {
	keys := make([]string, 0, 1+len(p.groups))
	log := logName(p.bucket, p.hour)
	keys = append(keys, log)
	for i := range p.groups {
		key := log
		if id := p.groups[i].subject; id != "" {
			key = hoursName(p.bucket, id, p.hour/hoursPerDay)
		}
		keys = append(keys, key)
	}
	return keys
}

// logArgs writes the groups as denials.lua reads them.
func (p *parcel) logArgs() []string {
	args := make([]string, 0, 8*len(p.groups))
	for i := range p.groups {
		g := &p.groups[i]
		args = append(args, g.field(), g.class(), strconv.FormatInt(g.minute%minutesPerHour, 10),
			strconv.Itoa(g.used))
		for j := range g.used {
			args = append(args, g.occurrences[j].encode())
		}
	}
	return args
}

func (g *group) class() string {
	switch {
	case g.subject == "":
		return "p"
	case g.registered:
		return "r"
	default:
		return "u"
	}
}

// acknowledgeLog is acknowledge of groups of denials.
func (r *Recorder) acknowledgeLog(p *parcel, result valkey.ValkeyResult, report *Report) {
	left, err := parseLeft(result, len(p.groups))
	unknown := isUnknownScript(err)
	r.withoutLogScript[p.bucket] = unknown
	switch {
	case err == nil:
		for i, calls := range left {
			if calls > 0 {
				r.pending.leaveOut(p.groups[i].group, calls)
			}
		}
	case unknown || notExecuted(err):
		if !unknown {
			report.note(err)
		}
		for i := range p.groups {
			g := &p.groups[i]
			for _, o := range g.occurrences[:g.used] {
				r.pending.addDenial(g.group, o)
			}
		}
	default:
		report.note(err)
	}
}

// parseLeft reads what denials.lua returns: the calls of each group that it left out.
func parseLeft(result valkey.ValkeyResult, groups int) ([]int64, error) {
	message, err := result.ToMessage()
	if err != nil {
		return nil, err
	}
	if !message.IsArray() {
		_, err = message.AsInt64()
		return nil, err
	}
	left, err := message.AsIntSlice()
	if err == nil && len(left) != groups {
		err = fmt.Errorf("%d numbers: %w", len(left), errReply)
	}
	return left, err
}
