package usage

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/routecount"
	"tidegate/internal/usage/statelist"
)

// maxParcel is how many entries a command carries: a server takes at most 3,999
// arguments.
const maxParcel = 64

// parcel is what one command stores: entries, or kinds of denials, of one bucket and one
// hour; or subjects of one bucket for lists of states; or routes of one period.
type parcel struct {
	bucket  keyspace.Bucket
	hour    int64
	entries []entry
	kinds   []pendingKind
	listed  []statelist.Entry
	routes  []routecount.Count
	text    bool // the command carries the script's text
	floors  floors
}

// Batch is what a Recorder gathered. Send its Commands once, with others or alone, and
// Acknowledge it with their results.
type Batch struct {
	recorder  *Recorder
	parcels   []parcel
	newcomers int
	now       time.Time
}

// pack sorts the entries into parcels, in order of their slots.
func pack(entries []entry, totals keyspace.Bucket) []parcel {
	bucketOf := func(e *entry) keyspace.Bucket {
		if e.scope == subject || e.scope == refusals && e.id != "" {
			return keyspace.BucketOf(e.id)
		}
		return totals
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(bucketOf(&a), bucketOf(&b)), cmp.Compare(a.minute, b.minute),
			cmp.Compare(a.scope, b.scope))
	})
	var parcels []parcel
	for from := 0; from < len(entries); {
		first, to := &entries[from], from+1
		p := parcel{bucket: bucketOf(first), hour: first.minute / minutesPerHour}
		for to < len(entries) && to-from < maxParcel && bucketOf(&entries[to]) == p.bucket &&
			entries[to].minute/minutesPerHour == p.hour {
			to++
		}
		p.entries = entries[from:to]
		parcels = append(parcels, p)
		from = to
	}
	return parcels
}

// Commands returns the commands that store the Batch, each of one bucket. They are good
// for sending once: valkey-go takes them back.
func (b *Batch) Commands(client valkey.Client) []valkey.Completed {
	commands := make([]valkey.Completed, len(b.parcels))
	recent := strconv.FormatInt(b.now.Unix()/secondsPerMinute-minutesPerDay, 10)
	for i := range b.parcels {
		p := &b.parcels[i]
		var keys, args []string
		switch {
		case p.kinds != nil:
			keys, args = p.logKeys(), p.logArgs()
		case p.listed != nil:
			keys, args = statelist.Keys(p.bucket), statelist.Args(b.now, p.listed)
		case p.routes != nil:
			keys, args = []string{routecount.Name(p.routes[0].Period)}, routecount.Args(p.routes)
		default:
			keys, args = p.keys(), p.args(strconv.Itoa(b.newcomers), recent)
		}
		if p.text {
			commands[i] = p.script().Whole(client, keys, args)
			continue
		}
		commands[i] = p.script().Command(client, keys, args)
	}
	return commands
}

func (p *parcel) script() *lua.Script {
	switch {
	case p.kinds != nil:
		return denialsScript
	case p.listed != nil:
		return statelist.Script
	case p.routes != nil:
		return routecount.Script
	}
	return recordScript
}

func (p *parcel) scriptIn() scriptIn { return scriptIn{p.script(), p.bucket} }

func (p *parcel) keys() []string {
	day := p.hour / hoursPerDay
	keys := make([]string, 0, 6+3*len(p.entries))
	keys = append(keys, seenName(p.bucket), rankingName(p.bucket, admittedInHour, p.hour),
		rankingName(p.bucket, deniedInHour, p.hour),
		rankingName(p.bucket, admittedInDay, day), rankingName(p.bucket, deniedInDay, day),
		newcomersName(p.bucket, day))
	for i := range p.entries {
		e := &p.entries[i]
		name := e.storedName()
		minutes := minutesName(p.bucket, name, p.hour)
		calls := minutes
		if e.scope == subject {
			calls = callsName(p.bucket, name, p.hour)
		}
		keys = append(keys, minutes, hoursName(p.bucket, name, day), calls)
	}
	return keys
}

func (p *parcel) args(newcomers, recent string) []string {
	args := make([]string, 0, 2+len(p.floors)+7*len(p.entries))
	args = append(args, newcomers)
	for _, floor := range p.floors {
		args = append(args, strconv.FormatInt(floor, 10))
	}
	args = append(args, recent)
	for i := range p.entries {
		args = p.entries[i].appendArgs(args, p.hour)
	}
	return args
}

// storedName is what names of keys have in the place of an id.
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

// appendArgs writes the entry as record.lua reads it.
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

// head is the class of the entry and a letter for each kind that it has.
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
			head = append(head, "adooooooo"[k])
		}
	}
	return string(head)
}
