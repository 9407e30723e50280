package changes

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

const (
	// auditKept is how many of the newest changes Valkey has for the page of the audit.
	auditKept = 10_000
	// auditFill is how many changes the minute adds, at most.
	auditFill = 1000
	// auditNames is how many records an entry of the audit names.
	auditNames = 10
)

// Entry is a change in the audit: without the contents of its records.
type Entry struct {
	Number  uint64    `json:"number"`
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Action  string    `json:"action,omitempty"`
	By      string    `json:"by,omitempty"`
	Why     string    `json:"why,omitempty"`
	Void    uint64    `json:"void,omitempty"`    // the change that this one says is nothing
	Items   int       `json:"items"`             // how many records it changes
	Records []Named   `json:"records,omitempty"` // the first of these
}

// Named is a record with what people call it.
type Named struct {
	Record string `json:"record"`
	Name   string `json:"name,omitempty"`
}

// entry returns the entry of a change. One that is nothing has its number alone.
func (l *Log) entry(c Change) Entry {
	if c.bad != nil {
		return Entry{Number: c.Number}
	}
	e := Entry{Number: c.Number, ID: c.ID, Time: c.Time, Action: c.Action, By: c.By, Why: c.Why,
		Void: c.Voids(), Items: len(c.Items)}
	for _, i := range c.Items[:min(len(c.Items), auditNames)] {
		name := ""
		if l.o.Name != nil {
			name = l.o.Name(i.Record, i.latest())
		}
		e.Records = append(e.Records, Named{i.Record, name})
	}
	return e
}

// auditSet is the sorted set of the newest changes by number. The log is the audit: what
// the set lacks is read there.
var auditSet = keyspace.Of("audit", "newest")

// Recent returns the newest changes before a number, 0 for any, newest first.
func (l *Log) Recent(ctx context.Context, before uint64, limit int) ([]Entry, error) {
	r, err := l.begin(ctx, false)
	if err != nil {
		return nil, err
	}
	newest := r.newest.Number
	if before > 0 {
		newest = min(newest, before-1)
	}
	oldest := uint64(1)
	if newest > uint64(limit) {
		oldest = newest - uint64(limit) + 1
	}
	return r.entries(ctx, oldest, newest)
}

// entries returns changes, newest first. Those that the set lacks are read from the log and
// added to it.
func (r *reading) entries(ctx context.Context, oldest, newest uint64) ([]Entry, error) {
	if newest < oldest {
		return nil, nil
	}
	found := map[uint64]Entry{}
	reply := r.l.runAudit(ctx, "", strconv.FormatUint(oldest, 10), strconv.FormatUint(newest, 10))
	for _, text := range reply.Values { // none if Valkey does not answer
		var e Entry
		if json.Unmarshal([]byte(text), &e) == nil {
			found[e.Number] = e
		}
	}
	var add []string
	entries := make([]Entry, 0, newest-oldest+1)
	for n := newest; n >= oldest; n-- {
		e, ok := found[n]
		if !ok {
			if err := r.fetch(ctx, max(oldest, min(n, n-uint64(r.l.atOnce)+1)), n); err != nil {
				return nil, err
			}
			c, err := r.change(ctx, n)
			if err != nil {
				return nil, err
			}
			e = r.l.entry(c)
			text, err := json.Marshal(e)
			if err != nil {
				return nil, fmt.Errorf("changes: %w", err)
			}
			add = append(add, strconv.FormatUint(n, 10), string(text))
		}
		entries = append(entries, e)
	}
	if len(add) > 0 {
		r.l.runAudit(ctx, strconv.Itoa(auditKept), add...)
	}
	return entries, nil
}

func (l *Log) runAudit(ctx context.Context, keep string, args ...string) lua.Reply {
	run := lua.Run{Keys: []string{auditSet}, Args: append([]string{keep}, args...)}
	return l.valkey.Run(ctx, auditScript, []lua.Run{run})[0]
}

// fillAudit adds what was changed since the last call, as far as the page shows it.
func (r *reading) fillAudit(ctx context.Context) error {
	last := r.l.audited.Load()
	oldest := max(last+1, 1)
	if r.newest.Number > auditFill {
		oldest = max(oldest, r.newest.Number-auditFill+1)
	}
	_, err := r.entries(ctx, oldest, r.newest.Number)
	if err == nil {
		r.l.audited.Store(r.newest.Number)
	}
	return err
}

// forgetAudit removes the entries of another log.
func (l *Log) forgetAudit(ctx context.Context) error {
	return l.runAudit(ctx, "0").Err
}
