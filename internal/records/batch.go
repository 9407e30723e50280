package records

import (
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
)

// Batch is what a Recorder took from its pending records. Send its Commands once, alone or
// with others, and pass their results to Acknowledge.
type Batch struct {
	recorder *Recorder
	writes   []write
	// untouched has the time to live of keys whose expiry the batch does not set.
	untouched map[string]time.Duration
}

// write is a command with one key.
type write struct {
	name, key string
	args      []string

	counter counter  // of HINCRBY
	n       int64    // of HINCRBY
	denials *denials // the details of what HINCRBY counts, or nil
	// once forbids to send the command again after a lost reply: it is not idempotent.
	once bool
	// fullAt is the hour in which a partition is full if the reply of PFCOUNT says so.
	fullAt    int64
	partition int
}

// Commands returns the commands of the batch. They can be sent only once, since valkey-go
// recycles them.
func (b *Batch) Commands(client valkey.Client) []valkey.Completed {
	commands := make([]valkey.Completed, len(b.writes))
	for i, w := range b.writes {
		commands[i] = client.B().Arbitrary(w.name).Keys(w.key).Args(w.args...).Build()
	}
	return commands
}

func (b *Batch) add(name, key string, args ...string) {
	b.writes = append(b.writes, write{name: name, key: key, args: args})
}

func (r *Recorder) take(now time.Time) *Batch {
	p := r.pending
	r.pending, r.last = newPending(), now.UnixNano()
	b := &Batch{recorder: r, writes: p.follow, untouched: map[string]time.Duration{}}
	minute := minutes.slotOf(now)
	b.addCounts(p, minute)
	b.addStates(p, now)
	b.addRankings(p, minute)
	for part, ids := range p.newcomers {
		if len(ids) > 0 {
			hour := hours.slotOf(now)
			key := listKey(part, "new"+strconv.FormatInt(hour, 10))
			b.add("PFADD", key, ids...)
			b.touch(key, minute, 2*time.Hour)
			b.writes = append(b.writes, write{name: "PFCOUNT", key: key, fullAt: hour, partition: part})
		}
	}
	for m := range p.unsure {
		b.mark(m, minute)
	}
	return b
}

// touch sets the expiry of a key, once a minute.
func (b *Batch) touch(key string, minute int64, kept time.Duration) bool {
	if b.recorder.touched[key] == minute {
		b.untouched[key] = kept
		return false
	}
	remember(b.recorder.touched, key, minute)
	b.writes = append(b.writes, expiry(key, kept))
	return true
}

func expiry(key string, kept time.Duration) write {
	return write{name: "EXPIRE", key: key, args: []string{strconv.FormatInt(int64(kept/time.Second), 10)}}
}

// wide is a field of hashes that many callers share. Its length makes the server keep
// these as tables, in which a count takes constant time.
var wide = "~" + strings.Repeat("wide", 16)

func (b *Batch) addCounts(p *pending, minute int64) {
	for c, n := range p.counts {
		if n == 0 {
			continue
		}
		key, d := countsKey(c.id, c.scale, c.slot), p.denials[c]
		b.writes = append(b.writes, write{name: "HINCRBY", key: key, once: true,
			args: []string{c.field(), strconv.FormatInt(n, 10)}, counter: c, n: n, denials: d})
		if d != nil && b.recorder.told[c] > 0 { // the entry is stored
			b.writes = append(b.writes, requests(d, c, 0)...)
			b.touch(streamKey(c.id, d.registered, idStream), minute, MinutesKept)
			d.requests = nil
		}
		if !b.touch(key, minute, c.scale.kept()) || !strings.Contains(c.id, "~") {
			continue
		}
		b.add("HSETNX", key, wide, "")
		if c.id == totalID && c.scale == minutes {
			b.add("SET", listKey(0, beganList), strconv.FormatInt(minutes.start(c.slot).Unix(), 10), "NX")
			b.touch(listKey(0, beganList), minute, hours.kept())
		}
	}
}

// addStates adds what denies callers, and the lists of callers by state.
func (b *Batch) addStates(p *pending, now time.Time) {
	minute := minutes.slotOf(now)
	for k, s := range p.states {
		key, list := deniedKey(k.caller), DeniedNow
		b.add("HSET", key, k.kind, strconv.FormatInt(s.at, 10)+" "+strconv.FormatInt(s.until, 10))
		b.touch(key, minute, MinutesKept)
		if kind, _ := parseKind(k.kind); k.kind == nearState {
			list = Near
		} else if kind.Cause == cause.Ban {
			list = BannedNow
		}
		if s.until == 0 {
			continue
		}
		key = list.key(partitionOf(k.caller), s.registered)
		b.add("ZADD", key, "GT", strconv.FormatInt(s.until, 10), k.caller)
		if b.touch(key, minute, HoursKept) {
			b.add("ZREMRANGEBYSCORE", key, "-inf", "("+strconv.FormatInt(now.UnixMilli(), 10))
			b.add("ZREMRANGEBYRANK", key, "0", strconv.Itoa(-maxRanked-1))
		}
	}
}

func (b *Batch) addRankings(p *pending, minute int64) {
	for at := range p.ranked {
		s := b.recorder.standings[at]
		for i, r := range rankings {
			n := int64(0)
			if s != nil {
				n = s.due(i)
			}
			if n == 0 {
				continue
			}
			s.sent[i] = s.total[i]
			key := r.key(partitionOf(at.caller), at.order, s.period[i])
			b.writes = append(b.writes, write{name: "ZINCRBY", key: key, once: true,
				args: []string{strconv.FormatInt(n, 10), at.caller}})
			if b.touch(key, minute, r.kept) {
				b.add("ZREMRANGEBYRANK", key, "0", strconv.Itoa(-maxRanked-1))
			}
		}
	}
}

// mark marks a minute whose counts may lack calls.
func (b *Batch) mark(unsure, minute int64) {
	key, text := listKey(0, unsureList), strconv.FormatInt(unsure, 10)
	b.add("ZADD", key, text, text)
	if b.touch(key, minute, hours.kept()) {
		b.add("ZREMRANGEBYRANK", key, "0", strconv.Itoa(-maxUnsure-1))
	}
}
