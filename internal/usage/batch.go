package usage

import (
	"cmp"
	_ "embed" // the script
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

//go:embed record.lua
var recordText string

var recordScript = lua.New(func() string { return recordText })

// maxParcel is the most entries of a command: a server takes at most 3,999 arguments.
const maxParcel = 64

// Batch is what a Recorder took from its pending records. Send its Commands once, alone
// or with others, and pass their results to Acknowledge.
type Batch struct {
	recorder  *Recorder
	parcels   []parcel
	newcomers int
	now       time.Time
}

// Commands returns the commands that store the Batch, each in one bucket. They can be
// sent only once, since valkey-go recycles them.
func (b *Batch) Commands(client valkey.Client) []valkey.Completed {
	commands := make([]valkey.Completed, len(b.parcels))
	for i := range b.parcels {
		p := &b.parcels[i]
		keys, args := p.arguments(b, p.place)
		if p.withText {
			commands[i] = p.script().Whole(client, keys, args)
			continue
		}
		commands[i] = p.script().Command(client, keys, args)
	}
	return commands
}

// parcel is one command of a Batch.
type parcel struct {
	payload
	place

	withText bool // the command carries the script's text
}

// place is where a parcel is stored.
type place struct {
	bucket keyspace.Bucket
	period int64 // hour since 1970; 0 for states
}

// payload is the records of a parcel.
type payload interface {
	script() *lua.Script
	arguments(b *Batch, at place) (keys, args []string)
	// acknowledge takes the command's result. It returns records that the server surely
	// did not store to the Recorder.
	acknowledge(r *Recorder, at place, result valkey.ValkeyResult, report *Report)
}

func (p *parcel) scriptIn() scriptIn { return scriptIn{p.script(), p.bucket} }

// parcelsOf cuts sorted items into parcels, each of at most limit items of one place.
func parcelsOf[T any](items []T, limit int, placeOf func(*T) place,
	payloadOf func(place, []T) payload) []parcel {
	var parcels []parcel
	for from := 0; from < len(items); {
		at, to := placeOf(&items[from]), from+1
		for to < len(items) && to-from < limit && placeOf(&items[to]) == at {
			to++
		}
		parcels = append(parcels, parcel{payload: payloadOf(at, items[from:to]), place: at})
		from = to
	}
	return parcels
}

// counts is the payload of entries.
type counts struct {
	entries []entry
	floors  floors
}

// packCounts sorts the entries into parcels, in order of their buckets.
func (r *Recorder) packCounts(entries []entry) []parcel {
	totals := totalBucket(r.nextTotals)
	placeOf := func(e *entry) place {
		b := totals
		if e.scope == subject || e.scope == refusals && e.id != "" {
			b = keyspace.BucketOf(e.id)
		}
		return place{b, e.minute / minutesPerHour}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(placeOf(&a).bucket, placeOf(&b).bucket), cmp.Compare(a.minute, b.minute),
			cmp.Compare(a.scope, b.scope))
	})
	return parcelsOf(entries, maxParcel, placeOf, func(at place, entries []entry) payload {
		return &counts{entries, r.ranked[at.bucket].in(at.period)}
	})
}

func (*counts) script() *lua.Script { return recordScript }

// arguments returns the keys and arguments as record.lua reads them.
func (c *counts) arguments(b *Batch, at place) (keys, args []string) {
	day := at.period / hoursPerDay
	keys = make([]string, 0, 6+3*len(c.entries))
	keys = append(keys, seenName(at.bucket),
		rankingName(at.bucket, admittedInHour, at.period), rankingName(at.bucket, deniedInHour, at.period),
		rankingName(at.bucket, admittedInDay, day), rankingName(at.bucket, deniedInDay, day),
		newcomersName(at.bucket, day))
	args = make([]string, 0, 2+len(c.floors)+7*len(c.entries))
	args = append(args, strconv.Itoa(b.newcomers))
	for _, floor := range c.floors {
		args = append(args, strconv.FormatInt(floor, 10))
	}
	args = append(args, strconv.FormatInt(b.now.Unix()/secondsPerMinute-minutesPerDay, 10))
	for i := range c.entries {
		e := &c.entries[i]
		name := e.storedName()
		minutes := minutesName(at.bucket, name, at.period)
		calls := minutes
		if e.scope == subject {
			calls = callsName(at.bucket, name, at.period)
		}
		keys = append(keys, minutes, hoursName(at.bucket, name, day), calls)
		args = e.appendArgs(args, at.period)
	}
	return keys, args
}

// storedName returns what key names have in the place of an id.
func (s slot) storedName() string {
	switch s.scope {
	case total:
		return totalID
	case rule:
		return rulePrefix + s.id
	case refusals:
		return s.id + refusedID
	default:
		return s.id
	}
}

// appendArgs appends the entry as record.lua reads it.
func (e *entry) appendArgs(args []string, hour int64) []string {
	var notes []byte
	for _, n := range e.notes[:e.used] {
		notes = appendNotes(notes, n)
	}
	args = append(args, e.id, e.head(), strconv.FormatInt(e.minute, 10), string(notes))
	width := e.width()
	minuteField, hourField := e.minute%minutesPerHour*width, hour%hoursPerDay*width
	for k, n := range e.tally {
		if n != 0 {
			args = append(args, strconv.FormatInt(minuteField+int64(k), 10),
				strconv.FormatInt(hourField+int64(k), 10), strconv.FormatInt(n, 10))
		}
	}
	return args
}

// head returns the entry's class, and a letter for each kind that it has.
func (e *entry) head() string {
	head := make([]byte, 1, 1+len(e.tally))
	switch {
	case e.scope != subject:
		head[0] = 'p'
	case e.registered:
		head[0] = 'r'
	default:
		head[0] = 'u'
	}
	for k, n := range e.tally {
		if n != 0 {
			head = append(head, "adoooooooo"[k])
		}
	}
	return string(head)
}

// calls returns the number of calls by subjects.
func (c *counts) calls() int64 {
	var n int64
	for i := range c.entries {
		if c.entries[i].scope == subject {
			n += c.entries[i].tally.calls()
		}
	}
	return n
}
