package audit

import (
	"bytes"
	"compress/flate"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Actor is the author of a change.
type Actor struct {
	Kind string `json:"kind"` // "user", "token" or "system"
	Name string `json:"name"`
}

// Entry is one change.
type Entry struct {
	// position: milliseconds-sequence-bucket; it increases within a bucket
	ID      string          `json:"id"`
	Time    time.Time       `json:"time"`
	By      Actor           `json:"by"`
	Action  string          `json:"action"` // such as "key.create"
	Subject string          `json:"subject"`
	Name    string          `json:"name,omitempty"` // of the subject, for people
	Reason  string          `json:"reason,omitempty"`
	Job     string          `json:"job,omitempty"`    // id of the bulk job that made the change
	Version int64           `json:"version"`          // of the subject, after the change
	Before  json.RawMessage `json:"before,omitempty"` // the subject before; absent if it was created
	After   json.RawMessage `json:"after,omitempty"`  // the subject after; absent if it was deleted
	// hash of the entry before, hex; empty for the first of a chain
	Previous string `json:"previous"`
	Hash     string `json:"hash"` // hex

	packed *pack // Before and After until Opened; nil if they are not packed
}

// Opened returns the entry with Before and After unpacked. Only entries from a Query with
// KeepPacked can be packed.
func (e Entry) Opened() Entry {
	if e.packed == nil {
		return e
	}
	before, after, ok := e.packed.open()
	if !ok {
		return e.bare()
	}
	e.Before, e.After, e.packed = before, after, nil
	return e
}

// size returns the bytes of Before and After when they are unpacked.
func (e Entry) size() int {
	if e.packed != nil {
		return e.packed.Before + e.packed.After
	}
	return len(e.Before) + len(e.After)
}

// Creates reports whether the entry has no state before the change.
func (e Entry) Creates() bool { return len(e.Before) == 0 && (e.packed == nil || e.packed.Before == 0) }

// BulkJob returns the id of the bulk job that the entry is of or about; empty for none.
func (e Entry) BulkJob() string {
	if strings.HasPrefix(e.Action, OfJobs) {
		return e.Subject
	}
	return e.Job
}

// Taken returns when Valkey took the entry, by Valkey's clock.
func (e Entry) Taken() time.Time { return time.UnixMilli(int64(positionOf(e.ID).ms)).UTC() }

// bare returns the fields that are known of an entry whose body cannot be decoded.
func (e Entry) bare() Entry {
	return Entry{ID: e.ID, Time: e.Taken(), Previous: e.Previous, Hash: e.Hash}
}

// body is the stored and hashed form of an Entry. Releases that do not know Packed read
// the other fields.
type body struct {
	Time    time.Time       `json:"t"`
	By      Actor           `json:"by"`
	Action  string          `json:"a"`
	Subject string          `json:"s"`
	Name    string          `json:"n,omitempty"`
	Reason  string          `json:"r,omitempty"`
	Job     string          `json:"j,omitempty"`
	Version int64           `json:"v"`
	Before  json.RawMessage `json:"b,omitempty"`
	After   json.RawMessage `json:"c,omitempty"`
	Packed  *pack           `json:"z,omitempty"` // in place of Before and After
}

// decode decodes the first of some stored entries, newest first. The second, if any, is
// the entry before it. decode does not check the hash and leaves Before and After packed.
func decode(b keyspace.Bucket, found []valkey.XRangeEntry) Entry {
	e := Entry{ID: idOf(b, found[0]), Hash: hex.EncodeToString([]byte(found[0].FieldValues["h"]))}
	if len(found) > 1 {
		e.Previous = hex.EncodeToString([]byte(found[1].FieldValues["h"]))
	}
	return e.withBody([]byte(found[0].FieldValues["e"]))
}

// withBody returns the entry with the fields of its body.
func (e Entry) withBody(text []byte) Entry {
	var t body
	if err := json.Unmarshal(text, &t); err != nil {
		return e.bare()
	}
	e.Time, e.By, e.Action, e.Subject, e.Name, e.Reason = t.Time, t.By, t.Action, t.Subject, t.Name, t.Reason
	e.Job, e.Version, e.Before, e.After, e.packed = t.Job, t.Version, t.Before, t.After, t.Packed
	return e
}

// idOf returns the ID of a stored entry.
func idOf(b keyspace.Bucket, x valkey.XRangeEntry) string { return x.ID + "-" + strconv.Itoa(int(b)) }

// Actions of entries. The word before the first dot names the kind of subject.
const (
	KeyCreate      = "key.create"
	KeyAdopt       = "key.adopt"
	KeyEdit        = "key.edit"
	KeyPlan        = "key.plan"
	KeyOverride    = "key.override"
	KeyOverrideEnd = "key.override.end"
	KeyRevoke      = "key.revoke"
	KeyUnrevoke    = "key.unrevoke"
	KeyRotate      = "key.rotate"
	KeyExpire      = "key.secret.expire" // of the previous secret
	KeyBan         = "key.ban"
	KeyUnban       = "key.unban"
	KeyReset       = "key.reset"
	KeyRevert      = "key.revert"
	KeyDelete      = "key.delete"
	GroupReset     = "group.reset"
	PolicySave     = "policy.save"
	PolicyRepair   = "policy.repair"
	GroupOverride  = "policy.override" // of a group
	GroupEnd       = "policy.override.end"
	GroupBilling   = "policy.billing" // of a group
	TokenCreate    = "token.create"
	TokenRevoke    = "token.revoke"
	Login          = "login"
	LoginRefused   = "login.refused"
	JobStart       = "job.start" // of a change of many keys
	JobStop        = "job.stop"
	JobResume      = "job.resume" // after a stop
	JobEnd         = "job.end"
	JournalRestore = "journal.restore"
)

// Prefixes of actions.
const (
	OfKeys   = "key."
	OfPolicy = "policy."
	OfTokens = "token."
	OfJobs   = "job."
)

// Subjects of entries that are not about a record.
const (
	LoginSubject   = "login"
	JournalSubject = "journal" // of restores
)

// Bounds of packing. An entry's Before and After are packed if they have packFrom to
// maxPack bytes together: most keys' have fewer, a policy set's far more.
const (
	packFrom = 2 << 10
	maxPack  = 4 << 20 // larger packs are not opened either
	maxRatio = 1100    // of unpacked to packed bytes; a little above deflate's greatest
)

// pack has the Before and After of an entry, interleaved and compressed.
type pack struct {
	Before   int    `json:"b"` // bytes
	After    int    `json:"c"` // bytes
	Deflated []byte `json:"d"`
}

var errNoJSON = errors.New("neither empty nor JSON")

// interleave splits two texts into parts and yields one of each in turn. Deflate looks
// back 32 kB, so it finds the parts of the first text that the second repeats. If two
// long texts are nearly equal, the second takes almost no room.
func interleave(first, second []byte) iter.Seq[[]byte] {
	const size = 8 << 10
	return func(yield func([]byte) bool) {
		for len(first)+len(second) > 0 {
			a, b := min(size, len(first)), min(size, len(second))
			if !yield(first[:a]) || !yield(second[:b]) {
				return
			}
			first, second = first[a:], second[b:]
		}
	}
}

// newPack packs two states. It returns nil if they are to be stored as they are.
func newPack(before, after json.RawMessage) (*pack, error) {
	if total := len(before) + len(after); total < packFrom || total > maxPack {
		return nil, nil //nolint:nilnil // nothing is packed, and nothing is wrong
	}
	if !isJSON(before) || !isJSON(after) {
		return nil, errNoJSON
	}
	var text bytes.Buffer
	w, err := flate.NewWriter(&text, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}
	for part := range interleave(before, after) {
		if _, err := w.Write(part); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &pack{len(before), len(after), text.Bytes()}, nil
}

// open unpacks the two states. It reports false if newPack did not make the pack.
func (p *pack) open() (before, after json.RawMessage, ok bool) {
	if p.Before < 0 || p.After < 0 || p.Before > maxPack || p.After > maxPack-p.Before ||
		p.Before+p.After > maxRatio*len(p.Deflated) {
		return nil, nil, false
	}
	if p.Before > 0 {
		before = make(json.RawMessage, p.Before)
	}
	if p.After > 0 {
		after = make(json.RawMessage, p.After)
	}
	r := flate.NewReader(bytes.NewReader(p.Deflated))
	for part := range interleave(before, after) {
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, nil, false
		}
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return nil, nil, false
	}
	return before, after, isJSON(before) && isJSON(after)
}

// isJSON reports whether a text is empty or JSON.
func isJSON(text json.RawMessage) bool { return len(text) == 0 || json.Valid(text) }
