package changes

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

//go:embed *.lua
var texts embed.FS

var (
	takeScript  = lua.New(text("take.lua"))
	readScript  = lua.NewReadOnly(text("read.lua"))
	loadScript  = lua.New(text("load.lua"))
	markScript  = lua.New(text("mark.lua"))
	auditScript = lua.New(text("audit.lua"))
)

func text(name string) func() string {
	return func() string {
		content, err := texts.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		return string(content)
	}
}

// bucket is what Valkey says of a bucket.
type bucket struct {
	at      Position
	policy  uint64 // number of the last change of the policy
	marks   []Mark
	records []Record // as asked for
	parts   []part   // as asked for
	err     error    // why it could not be read or brought
}

// part is a part of a bucket's lists.
type part struct {
	length  int
	entries []string // up to the limit
}

// Record is a record in Valkey.
type Record struct {
	Name    string
	Content []byte // empty if there is no record
	Number  uint64 // of the record's last change
	Marks   []Mark // that are not stored yet; only from Log.Records
}

// query is what to read of a bucket.
type query struct {
	spans   []span
	records []string
}

// span is what to read of lists: entries within bounds, as ZRANGEBYLEX wants them.
type span struct {
	first, last string
	limit       int // 0 to count them only
}

// spanOf returns the entries that begin with a text and follow another; from the first one
// if that is empty.
func spanOf(begin, after string, limit int) span {
	if after == "" {
		return span{"[" + begin, "[" + begin + "\xff", limit}
	}
	return span{"(" + after, "[" + begin + "\xff", limit}
}

// keys returns the names of a bucket, its lists and its marks.
func keys(b int) []string {
	bucket := keyspace.Bucket(b)
	return []string{bucket.Records(), bucket.Lists(), bucket.Marks()}
}

// bucketsOf returns the buckets of a record: one, or the policy's two.
func (l *Log) bucketsOf(record string) []int {
	if record == Policy {
		return l.documents()
	}
	return []int{int(keyspace.BucketOf(record)) % l.buckets}
}

// documents returns the two buckets that have the policy. They take a change of it first.
func (l *Log) documents() []int { return []int{0, l.buckets / 2} }

// positions returns the positions of buckets, read in one flush.
func (l *Log) positions(ctx context.Context, buckets []int) []bucket {
	hashes := make([]string, len(buckets))
	for i, b := range buckets {
		hashes[i] = keys(b)[0]
	}
	found := make([]bucket, len(buckets))
	for i, reply := range l.valkey.Field(ctx, "at", hashes) {
		if found[i].err = reply.Err; len(reply.Values) > 0 {
			found[i].at = parsePosition(reply.Values[0])
		}
	}
	return found
}

// read reads buckets into view, in one flush. ask says what of a bucket, nil for no record.
func (l *Log) read(ctx context.Context, view []bucket, buckets []int, ask func(b int) query) {
	runs, queries := make([]lua.Run, len(buckets)), make([]query, len(buckets))
	for i, b := range buckets {
		if ask != nil {
			queries[i] = ask(b)
		}
		args := []string{strconv.Itoa(len(queries[i].spans))}
		for _, s := range queries[i].spans {
			args = append(args, s.first, s.last, strconv.Itoa(s.limit))
		}
		for _, record := range queries[i].records {
			args = append(args, keyspace.RecordField(record))
		}
		runs[i] = lua.Run{Keys: keys(b), Args: args}
	}
	replies := l.valkey.Run(ctx, readScript, runs)
	for i, b := range buckets {
		view[b] = parseBucket(replies[i], queries[i])
	}
}

func parseBucket(reply lua.Reply, q query) (b bucket) {
	if b.err = reply.Err; b.err != nil {
		return b
	}
	v := reply.Values
	b.at = parsePosition(v[0])
	b.policy, _ = strconv.ParseUint(v[1], 10, 64)
	v = v[2:]
	for range q.spans {
		length, _ := strconv.Atoi(v[0])
		n, _ := strconv.Atoi(v[1])
		b.parts = append(b.parts, part{length, v[2 : 2+n]})
		v = v[2+n:]
	}
	for i, record := range q.records {
		number, content, _ := strings.Cut(v[i], " ")
		found := Record{Name: record, Content: []byte(content)}
		found.Number, _ = strconv.ParseUint(number, 10, 64)
		b.records = append(b.records, found)
	}
	for v = v[len(q.records):]; len(v) > 0; v = v[2:] {
		m, err := parseMark(v[0], v[1])
		b.err = errors.Join(b.err, err)
		b.marks = append(b.marks, m)
	}
	slices.SortFunc(b.marks, func(a, b Mark) int { return strings.Compare(a.ID, b.ID) })
	return b
}

// takeRun returns the run that brings a bucket from a position over changes, all of them
// whole, to the position of the last one.
func (l *Log) takeRun(b int, from Position, taken []Change) lua.Run {
	var ids []string
	var policy string
	items := map[string]Item{}
	numbers := map[string]uint64{}
	for _, c := range taken {
		ids = append(ids, c.ID)
		if c.policy() {
			policy = strconv.FormatUint(c.Number, 10)
		}
		for _, i := range c.in[b] {
			if before, found := items[i.Record]; found {
				i.Before = before.Before
			}
			items[i.Record], numbers[i.Record] = i, c.Number
		}
	}
	var set, del, remove, add []string
	for _, record := range slices.Sorted(maps.Keys(items)) {
		i := items[record]
		remove = append(remove, l.lists(record, i.Before)...)
		add = append(add, l.lists(record, i.After)...)
		if len(i.After) == 0 {
			del = append(del, keyspace.RecordField(record))
		} else {
			set = append(set, keyspace.RecordField(record), value(numbers[record], i.After))
		}
	}
	args := []string{from.String(), taken[len(taken)-1].position().String(), policy}
	args = appendList(args, len(ids), ids)
	args = appendList(args, len(set)/2, set)
	for _, list := range [][]string{del, remove, add} {
		args = appendList(args, len(list), list)
	}
	return lua.Run{Keys: keys(b), Args: args}
}

func appendList(args []string, n int, list []string) []string {
	return append(append(args, strconv.Itoa(n)), list...)
}

// value returns a record's value in Valkey: the number of its last change and its content.
func value(number uint64, content []byte) string {
	return strconv.FormatUint(number, 10) + " " + string(content)
}

func (l *Log) lists(record string, content []byte) []string {
	if len(content) == 0 || record == Policy {
		return nil
	}
	return l.o.Lists(record, content)
}

// positionOf returns the position that a script answered.
func positionOf(reply lua.Reply) (Position, error) {
	if reply.Err != nil {
		return Position{}, fmt.Errorf("%w: %w", ErrView, reply.Err)
	}
	return parsePosition(reply.Values[0]), nil
}
