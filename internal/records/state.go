package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// List is a list of callers that are in a state until a time, as far as their last calls
// show. A caller's next call repairs its entry.
type List string

// The lists. Near has registered callers alone.
const (
	DeniedNow List = "denied" // by any limit: own, of a route, a group, an address, together
	BannedNow List = "banned"
	Near      List = "near" // a limit of the caller is nearly used up
)

func (l List) key(partition int, registered bool) string {
	if registered {
		return listKey(partition, string(l))
	}
	return listKey(partition, string(l)+others)
}

// InState returns a page of the callers in a state, those that stay longest in it first.
// registered chooses callers in a registry or all others.
func (r *Reader) InState(ctx context.Context, l List, registered bool, cursor string, n int) (Listed, error) {
	keys := make([]string, partitions)
	for p := range keys {
		keys[p] = l.key(p, registered)
	}
	return r.merged(ctx, keys, "("+strconv.FormatInt(r.now().UnixMilli(), 10), cursor, n)
}

// Ban returns the commands that list a registered caller as banned until a time, for a ban
// by an operator. A time in the past ends the ban.
func Ban(client valkey.Client, id string, now, until time.Time) valkey.Commands {
	key, list := deniedKey(id), BannedNow.key(partitionOf(id), true)
	ms := strconv.FormatInt(until.UnixMilli(), 10)
	return valkey.Commands{
		client.B().Hset().Key(key).FieldValue().FieldValue(banKind,
			strconv.FormatInt(now.UnixMilli(), 10)+" "+ms).Build(),
		client.B().Expire().Key(key).Seconds(int64(MinutesKept / time.Second)).Build(),
		client.B().Zadd().Key(list).ScoreMember().ScoreMember(float64(until.UnixMilli()), id).Build(),
		client.B().Expire().Key(list).Seconds(int64(HoursKept / time.Second)).Build(),
	}
}

// Denier is what denied a caller, when last, and until when it does.
type Denier struct {
	Kind
	At    time.Time
	Until time.Time // zero if no retry passes, or if that is unknown
}

// State is what denied a caller within MinutesKept, the latest first. It is made of every
// limit that can deny the caller, and of bans.
type State struct {
	Deniers []Denier
	Near    time.Time // until when a limit of the caller may be nearly used up
}

// Now returns what denies calls of the caller now, and longest. ok is false if nothing is
// known to.
func (s State) Now(now time.Time) (longest Denier, ok bool) {
	for _, d := range s.Deniers {
		if d.Until.After(now) && d.Until.After(longest.Until) {
			longest, ok = d, true
		}
	}
	return longest, ok
}

// States returns the state of each caller, in order, in one flush.
func (r *Reader) States(ctx context.Context, ids []string) ([]State, error) {
	commands := make(valkey.Commands, len(ids))
	for i, id := range ids {
		commands[i] = r.client.B().Hgetall().Key(deniedKey(id)).Build()
	}
	states := make([]State, len(ids))
	for i, result := range r.client.DoMulti(ctx, commands...) {
		fields, err := result.AsStrMap()
		if err != nil {
			return nil, fmt.Errorf("records: states: %w", err)
		}
		for field, value := range fields {
			at, until, _ := strings.Cut(value, " ")
			atMs, atErr := strconv.ParseInt(at, 10, 64)
			untilMs, untilErr := strconv.ParseInt(until, 10, 64)
			if atErr != nil || untilErr != nil {
				continue
			}
			d := Denier{At: time.UnixMilli(atMs).UTC()}
			if untilMs > 0 {
				d.Until = time.UnixMilli(untilMs).UTC()
			}
			var ok bool
			if d.Kind, ok = parseKind(field); ok {
				states[i].Deniers = append(states[i].Deniers, d)
			} else if field == nearState {
				states[i].Near = d.Until
			}
		}
		slices.SortFunc(states[i].Deniers, func(a, b Denier) int {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Cause, b.Cause))
		})
	}
	return states, nil
}
