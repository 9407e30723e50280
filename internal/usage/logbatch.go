package usage

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/denylog"
)

// packLog sorts kinds of denials into parcels, in order of their slots.
func packLog(kinds []pendingKind, totals keyspace.Bucket) []parcel {
	bucketOf := func(k *pendingKind) keyspace.Bucket {
		if k.Subject == "" {
			return totals
		}
		return keyspace.BucketOf(k.Subject)
	}
	slices.SortStableFunc(kinds, func(a, b pendingKind) int {
		return cmp.Or(cmp.Compare(bucketOf(&a), bucketOf(&b)), cmp.Compare(a.Minute, b.Minute))
	})
	var parcels []parcel
	for from := 0; from < len(kinds); {
		to := from + 1
		p := parcel{bucket: bucketOf(&kinds[from]), hour: kinds[from].Minute / minutesPerHour}
		for to < len(kinds) && to-from < maxParcel && bucketOf(&kinds[to]) == p.bucket &&
			kinds[to].Minute/minutesPerHour == p.hour {
			to++
		}
		p.kinds = kinds[from:to]
		parcels = append(parcels, p)
		from = to
	}
	return parcels
}

func (p *parcel) logKeys() []string {
	keys := make([]string, 0, 1+len(p.kinds))
	log := denylog.Name(p.bucket, p.hour)
	keys = append(keys, log)
	for i := range p.kinds {
		key := log
		if id := p.kinds[i].Subject; id != "" {
			key = hoursName(p.bucket, id, p.hour/hoursPerDay)
		}
		keys = append(keys, key)
	}
	return keys
}

// logArgs writes the kinds as denials.lua reads them.
func (p *parcel) logArgs() []string {
	args := make([]string, 0, 8*len(p.kinds))
	for i := range p.kinds {
		k := &p.kinds[i]
		args = append(args, k.Field(), k.class(), strconv.FormatInt(k.Minute%minutesPerHour, 10),
			strconv.Itoa(k.used))
		for j := range k.used {
			args = append(args, k.occurrences[j].Encode())
		}
	}
	return args
}

func (k *pendingKind) class() string {
	switch {
	case k.Subject == "":
		return "p"
	case k.Registered:
		return "r"
	default:
		return "u"
	}
}

// acknowledgeLog is acknowledge of kinds of denials.
func (r *Recorder) acknowledgeLog(p *parcel, result valkey.ValkeyResult, report *Report) {
	left, err := parseLeft(result, len(p.kinds))
	switch {
	case err == nil:
		for i, calls := range left {
			if calls > 0 {
				r.pending.leaveOut(p.kinds[i].Kind, calls)
			}
		}
	case notExecuted(err):
		report.note(err)
		for i := range p.kinds {
			k := &p.kinds[i]
			for _, o := range k.occurrences[:k.used] {
				r.pending.addDenial(k.Kind, o)
			}
		}
	default:
		report.note(err)
	}
}

// parseLeft reads what denials.lua returns: the calls of each kind that it left out.
func parseLeft(result valkey.ValkeyResult, kinds int) ([]int64, error) {
	message, err := result.ToMessage()
	if err != nil {
		return nil, err
	}
	if !message.IsArray() {
		_, err = message.AsInt64()
		return nil, err
	}
	left, err := message.AsIntSlice()
	if err == nil && len(left) != kinds {
		err = fmt.Errorf("%d numbers: %w", len(left), errReply)
	}
	return left, err
}
