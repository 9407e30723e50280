package changes

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// Policy is the name of the policy's record. It is in two buckets, and every bucket has
	// the number of its last change.
	Policy = "policy"
	// MaxItems is the largest number of items in a change: 1,000 keys, and groups that they
	// join.
	MaxItems = 1100
	// format is the number of this form of a change. A log with a greater one is not read.
	format = 1
)

// Change is one object of the log.
type Change struct {
	Format int       `json:"format"`
	Number uint64    `json:"number"` // from 1, without gaps
	ID     string    `json:"id"`     // of the edit, in the log once
	Time   time.Time `json:"time"`   // by the writer's clock
	Action string    `json:"action,omitempty"`
	By     string    `json:"by,omitempty"`
	Why    string    `json:"why,omitempty"`
	Void   []Void    `json:"void,omitempty"` // all changes that are nothing, so far
	Before string    `json:"before"`         // hash of the change before; empty in change 1
	Items  []Item    `json:"items,omitempty"`

	hash string
	size int   // of the object, in bytes
	bad  error // why it cannot be read, or that it is nothing
	in   map[int][]Item
}

// Void says that a change is nothing, since its object is lost or damaged.
type Void struct {
	Number uint64 `json:"number"` // the change that is nothing, whatever stands there
	By     uint64 `json:"by"`     // the change that says so
}

// Item is what a change does to one record.
type Item struct {
	Record string `json:"record"`
	Last   uint64 `json:"last,omitempty"`   // number of its change before; 0 for none
	Before []byte `json:"before,omitempty"` // empty if there was no record
	After  []byte `json:"after,omitempty"`  // empty if the record is deleted
}

// latest returns the content after the change; before it if the record is deleted.
func (i Item) latest() []byte {
	if len(i.After) > 0 {
		return i.After
	}
	return i.Before
}

// Position is the last change that a bucket took. The zero value is a bucket without one,
// which is lost and must be made again.
type Position struct {
	Number uint64 `json:"number"`
	Hash   string `json:"hash"`
}

func (p Position) String() string {
	if p.Number == 0 {
		return ""
	}
	return strconv.FormatUint(p.Number, 10) + " " + p.Hash
}

func parsePosition(text string) (p Position) {
	number, hash, _ := strings.Cut(text, " ")
	p.Number, _ = strconv.ParseUint(number, 10, 64)
	p.Hash = hash
	return p
}

func (c Change) position() Position { return Position{c.Number, c.hash} }

// policy reports whether the change has a policy.
func (c Change) policy() bool {
	for _, i := range c.Items {
		if i.Record == Policy {
			return true
		}
	}
	return false
}

const prefix = "changes/"

// name returns the name of a change's object. Its parts keep a folder at 1,000 files.
func name(number uint64) string { return fmt.Sprintf("%s%09d/%03d", prefix, number/1000, number%1000) }

// numberOf is the inverse of name.
func numberOf(object string) (uint64, error) {
	n, err := strconv.ParseUint(strings.ReplaceAll(strings.TrimPrefix(object, prefix), "/", ""), 10, 64)
	if err != nil || name(n) != object {
		return 0, &StrayError{object}
	}
	return n, nil
}

// mac returns the hash of an object, which names it.
func (l *Log) mac(name string, body []byte) string {
	h := hmac.New(sha256.New, l.o.Key)
	h.Write([]byte(name + "\x00"))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// seal returns an object's content: JSON, a line feed and the hash of both.
func (l *Log) seal(name string, value any) ([]byte, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	body = append(body, '\n')
	return append(body, l.mac(name, body)...), nil
}

var errSeal = errors.New("it is damaged, or another KEY_PEPPER wrote it")

// unseal reads what seal returned, and returns its hash. The hash of a damaged object is
// that of all its bytes.
func (l *Log) unseal(name string, content []byte, value any) (hash string, err error) {
	end := bytes.LastIndexByte(content, '\n') + 1
	hash = l.mac(name, content[:end])
	if end == 0 || !hmac.Equal([]byte(hash), content[end:]) {
		return l.mac(name, content), errSeal
	}
	if err := json.Unmarshal(content[:end], value); err != nil {
		return hash, fmt.Errorf("changes: %s: %w", name, err)
	}
	return hash, nil
}

// decode reads a change. An error means a newer format; c.bad that it is damaged.
func (l *Log) decode(number uint64, content []byte) (Change, error) {
	var c Change
	hash, err := l.unseal(name(number), content, &c)
	switch {
	case err != nil || c.Number != number:
		return Change{Number: number, hash: hash, bad: &DamagedError{Number: number}}, nil //nolint:nilerr // it is bad
	case c.Format > format:
		return Change{}, fmt.Errorf("changes: change %d has format %d of a newer release", number, c.Format)
	}
	c.hash, c.size, c.in = hash, len(content), map[int][]Item{}
	for _, i := range c.Items {
		for _, b := range l.bucketsOf(i.Record) {
			c.in[b] = append(c.in[b], i)
		}
	}
	return c, nil
}

// DamagedError is a change that is missing or damaged. The hand that it needs brings the
// object back, or calls Void.
type DamagedError struct {
	Number  uint64
	Missing bool
}

// StrayError is an object among the changes that is none. A hand moves it away.
type StrayError struct{ Name string }

func (e *StrayError) Error() string {
	return fmt.Sprintf("changes: %s in the store of the log is not a change: move it away", e.Name)
}

// isMissing reports whether a bad change has no object.
func isMissing(bad error) bool {
	damaged, ok := errors.AsType[*DamagedError](bad)
	return ok && damaged.Missing
}

func (e *DamagedError) Error() string {
	what := "damaged"
	if e.Missing {
		what = "missing"
	}
	return fmt.Sprintf("changes: change %d is %s: bring its object back, or void it", e.Number, what)
}
