package audit

import (
	"bytes"
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/keyspace"
)

// AppendFunction is the text of Lua code that defines `local function append(stream, previous, body, hash)`; a script that changes something calls it
// first, and changes nothing when it returns false.
//
//go:embed append.lua
var AppendFunction string

// Stream names the chain of a bucket.
func Stream(b keyspace.Bucket) string { return b.Name("a") }

// Log reads the chains. It is safe for concurrent use.
type Log struct {
	client valkey.Client
	key    Key
}

// NewLog returns a Log on a connected client.
func NewLog(client valkey.Client, key Key) *Log { return &Log{client, key} }

// Key returns what entries are sealed with.
func (l *Log) Key() Key { return l.key }

// Head returns the hash of the newest entry of a bucket, empty when there is none.
func (l *Log) Head(ctx context.Context, b keyspace.Bucket) ([]byte, error) {
	entries, err := l.client.Do(ctx, l.client.B().Xrevrange().Key(Stream(b)).End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil {
		return nil, fmt.Errorf("audit: head: %w", err)
	}
	if len(entries) == 0 {
		return nil, nil
	}
	return []byte(entries[0].FieldValues["h"]), nil
}

// Query asks for a page of entries, newest first.
type Query struct {
	Subject string // only this subject's
	Action  string // only actions that start with it
	By      string // only this actor's name
	After   string // the Next of the page before; empty for the newest
	Count   int    // 1 to 500; 0 means 50
}

// Page is an answer to a Query.
type Page struct {
	Entries []Entry
	Next    string // empty on the last page
}

// ErrPosition means that Query.After is not a position in the audit.
var ErrPosition = errors.New("not a position in the audit; start from the newest entry")

const (
	defaultCount = 50
	maxCount     = 500
	maxRounds    = 40 // of reading a filtered query, so that one that matches little ends; Next goes on from there
)

// List returns a page of entries. It reads as many entries of every chain as the page has, in one flush; of one chain alone when Subject is set.
func (l *Log) List(ctx context.Context, q Query) (Page, error) {
	at, err := parsePosition(q.After)
	if err != nil {
		return Page{}, err
	}
	count := min(max(q.Count, 0), maxCount)
	if count == 0 {
		count = defaultCount
	}
	buckets := keyspace.All()
	if q.Subject != "" {
		buckets = []keyspace.Bucket{keyspace.BucketOf(q.Subject)}
	}
	var page Page
	for range maxRounds {
		entries, more, err := l.read(ctx, buckets, at, count)
		if err != nil {
			return Page{}, err
		}
		for i, e := range entries {
			at = positionOf(e.ID)
			if q.matches(e) {
				page.Entries = append(page.Entries, e)
			}
			if len(page.Entries) == count {
				if more || i+1 < len(entries) {
					page.Next = at.String()
				}
				return page, nil
			}
		}
		if !more {
			return page, nil
		}
	}
	page.Next = at.String()
	return page, nil
}

func (q Query) matches(e Entry) bool {
	return (q.Subject == "" || e.Subject == q.Subject) && strings.HasPrefix(e.Action, q.Action) && (q.By == "" || e.By.Name == q.By)
}

// position is where an entry stands among those of all buckets: newest first, and within one millisecond and sequence by bucket.
type position struct {
	ms, sequence int64
	bucket       int
}

func (p position) String() string { return fmt.Sprintf("%d-%d-%d", p.ms, p.sequence, p.bucket) }

func positionOf(id string) position {
	p, _ := parsePosition(id) // ids are made by String
	return p
}

func parsePosition(text string) (position, error) {
	if text == "" {
		return position{ms: 1<<63 - 1, bucket: -1}, nil
	}
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return position{}, ErrPosition
	}
	var numbers [3]int64
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 0 {
			return position{}, ErrPosition
		}
		numbers[i] = n
	}
	if numbers[2] >= keyspace.Buckets {
		return position{}, ErrPosition
	}
	return position{numbers[0], numbers[1], int(numbers[2])}, nil
}

// older orders positions newest first.
func older(a, b position) int {
	if a.ms != b.ms {
		return -compare(a.ms, b.ms)
	}
	if a.sequence != b.sequence {
		return -compare(a.sequence, b.sequence)
	}
	return compare(int64(a.bucket), int64(b.bucket))
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// end is the stream id at which a bucket's entries after p begin, reading backwards.
func (p position) end(b keyspace.Bucket) string {
	switch {
	case p.bucket < 0:
		return "+"
	case int(b) > p.bucket:
		return fmt.Sprintf("%d-%d", p.ms, p.sequence)
	default:
		return fmt.Sprintf("(%d-%d", p.ms, p.sequence)
	}
}

// read returns the count newest entries after p, and whether there are more.
func (l *Log) read(ctx context.Context, buckets []keyspace.Bucket, p position, count int) (entries []Entry, more bool, err error) {
	commands := make(valkey.Commands, len(buckets))
	for i, b := range buckets {
		commands[i] = l.client.B().Xrevrange().Key(Stream(b)).End(p.end(b)).Start("-").Count(int64(count) + 1).Build()
	}
	for i, result := range l.client.DoMulti(ctx, commands...) {
		found, err := result.AsXRange()
		if err != nil {
			return nil, false, fmt.Errorf("audit: list: %w", err)
		}
		for j, x := range found {
			var previous []byte
			if j+1 < len(found) {
				previous = []byte(found[j+1].FieldValues["h"])
			}
			e, err := decode(x.ID+"-"+strconv.Itoa(int(buckets[i])), []byte(x.FieldValues["e"]), []byte(x.FieldValues["h"]), previous)
			if err != nil {
				return nil, false, err
			}
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return older(positionOf(a.ID), positionOf(b.ID)) })
	if len(entries) > count {
		return entries[:count], true, nil
	}
	return entries, false, nil
}

// Get returns the entry with this id.
func (l *Log) Get(ctx context.Context, id string) (Entry, bool, error) {
	p, err := parsePosition(id)
	if err != nil || id == "" {
		return Entry{}, false, ErrPosition
	}
	at := fmt.Sprintf("%d-%d", p.ms, p.sequence)
	found, err := l.client.Do(ctx, l.client.B().Xrange().Key(Stream(keyspace.Bucket(p.bucket))).Start(at).End(at).Build()).AsXRange()
	if err != nil {
		return Entry{}, false, fmt.Errorf("audit: get: %w", err)
	}
	if len(found) == 0 {
		return Entry{}, false, nil
	}
	e, err := decode(id, []byte(found[0].FieldValues["e"]), []byte(found[0].FieldValues["h"]), nil)
	return e, err == nil, err
}

// Verified is the outcome of Verify.
type Verified struct {
	Entries int64    // read in all
	Broken  []string // ids of entries whose hash does not fit what they say or the entry before, at most 100
}

const verifyBatch = 500

// Verify reads every chain from its start and checks every hash.
func (l *Log) Verify(ctx context.Context) (Verified, error) {
	var v Verified
	for _, b := range keyspace.All() {
		if err := l.verifyChain(ctx, b, &v); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (l *Log) verifyChain(ctx context.Context, b keyspace.Bucket, v *Verified) error {
	start, previous := "-", []byte{}
	for {
		found, err := l.client.Do(ctx, l.client.B().Xrange().Key(Stream(b)).Start(start).End("+").Count(verifyBatch).Build()).AsXRange()
		if err != nil {
			return fmt.Errorf("audit: verify: %w", err)
		}
		for _, x := range found {
			hash := []byte(x.FieldValues["h"])
			if !bytes.Equal(hash, l.key.hash(b, previous, []byte(x.FieldValues["e"]))) && len(v.Broken) < 100 {
				v.Broken = append(v.Broken, x.ID+"-"+strconv.Itoa(int(b)))
			}
			previous = hash
			v.Entries++
		}
		if len(found) < verifyBatch {
			return nil
		}
		start = "(" + found[len(found)-1].ID
	}
}
